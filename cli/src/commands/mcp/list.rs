//! Servers as they are configured: where each is set, and what its program reaches from the sandbox.

use std::collections::BTreeMap;

use ah_config::{Config, Error, Sourced};
use ah_engine::confinement::is_wanted;
use ah_mcp::{ServerConfig, ServerEntry, Transport, folder_name};
use ah_terminal::line::preview;
use ah_terminal::print::table::{Align, table};
use serde_json::{Value, json};

use crate::args::json::Json;
use crate::commands::output::{print, print_json};

/// Maximum width of a command line in a list.
const WIDTH: usize = 60;

/// What a server's program reaches.
pub struct Reach {
    /// Hosts that the program needs.
    pub hosts: Vec<String>,
    /// The hosts, and whether it may connect to them.
    pub network: String,
    /// Its home directory.
    pub home: String,
}

impl Reach {
    /// Determines what the server `name` reaches. Whether the sandbox can be built here is not tried.
    pub fn of(config: &Config, name: &str) -> Self {
        let (servers, _) = config.mcp_servers();
        match servers.get(name) {
            Some(server) => Self::of_server(config, name, server),
            None => Self::nothing("-", "-"),
        }
    }

    /// Determines what a resolved server reaches.
    pub fn of_server(config: &Config, name: &str, server: &ServerConfig) -> Self {
        if !matches!(server.transport, Transport::Stdio(_)) {
            return Self::nothing("-", "-");
        }
        let mut free = config.sandbox.unconfined_servers.iter();
        if !is_wanted(config) || free.any(|free| free.value == name) {
            return Self::nothing("not sandboxed", "yours");
        }
        let hosts = server.needs.names();
        let home = config.server_homes().map(|homes| {
            let folder = folder_name(name, server.project.as_deref());
            homes.join(folder).join("home")
        });
        Self {
            network: match (hosts.is_empty(), server.is_granted) {
                (true, _) => "none".to_owned(),
                (false, true) => hosts.join(", "),
                (false, false) => format!("not allowed: {}", hosts.join(", ")),
            },
            hosts,
            home: home.map_or("of the run".to_owned(), |home| home.display().to_string()),
        }
    }

    fn nothing(network: &str, home: &str) -> Self {
        Self {
            hosts: Vec::new(),
            network: network.to_owned(),
            home: home.to_owned(),
        }
    }

    /// Returns what is known, with the words for it.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, String)> {
        let rows = [
            ("network", self.network.clone()),
            ("home", self.home.clone()),
        ];
        rows.into_iter().filter(|(_, text)| text != "-")
    }
}

/// Returns the server of this name; the error names those that are configured.
pub fn find<'a>(
    servers: &'a BTreeMap<String, Sourced<ServerEntry>>,
    name: &str,
) -> Result<&'a Sourced<ServerEntry>, Error> {
    servers.get(name).ok_or_else(|| {
        let known: Vec<_> = servers.keys().map(String::as_str).collect();
        let error = Error::failure(format!("there is no MCP server `{name}`"));
        if known.is_empty() {
            error.hint("none is configured; `ah mcp add` adds one")
        } else {
            error.hint(format!("configured: {}", known.join(", ")))
        }
    })
}

/// Prints the servers, and what their programs reach.
pub fn list(config: &Config, form: Json) -> Result<u8, Error> {
    if form.json {
        let servers = config.mcp_servers.iter();
        return print_json(
            &servers
                .map(|(name, server)| to_json(name, server, &Reach::of(config, name)))
                .collect(),
        );
    }
    if config.mcp_servers.is_empty() {
        ah_terminal::note("no MCP servers configured");
    }
    let rows: Vec<_> = config
        .mcp_servers
        .iter()
        .map(|(name, server)| {
            let reach = Reach::of(config, name);
            [
                preview(name, WIDTH),
                preview(server.value.kind(), WIDTH),
                preview(&place(&server.value), WIDTH),
                server.origin.to_string(),
                reach.network,
                reach.home,
            ]
        })
        .collect();
    print(&table([Align::Left; 6], &rows))
}

/// Returns the command or address as written; variables are not expanded.
pub fn place(entry: &ServerEntry) -> String {
    match (&entry.command, &entry.url) {
        (Some(command), _) => {
            let words =
                std::iter::once(command.as_str()).chain(entry.args.iter().map(String::as_str));
            words.collect::<Vec<_>>().join(" ")
        }
        (None, url) => url.clone().unwrap_or_default(),
    }
}

/// Returns a server for programs: names of variables and headers only, since their values may be secrets.
pub fn to_json(name: &str, server: &Sourced<ServerEntry>, reach: &Reach) -> Value {
    let entry = &server.value;
    json!({
        "name": name,
        "type": entry.kind(),
        "command": entry.command,
        "args": entry.args,
        "url": entry.url,
        "env": entry.env.keys().collect::<Vec<_>>(),
        "headers": entry.headers.keys().collect::<Vec<_>>(),
        "timeout": entry.timeout,
        "hosts": reach.hosts,
        "network": reach.network,
        "home": reach.home,
        "origin": server.origin.to_string(),
    })
}
