//! `ah mcp`: lists, shows and tests MCP servers.

use super::runtime::runtime;
use std::collections::BTreeMap;
use std::time::Duration;

use ah_conversation::{ServerState, ServerStatus, Servers as _, ToolSpec};
use ah_mcp::{RemoteServers, ServerConfig, ServerEntry};
use serde_json::{Value, json};

use crate::args::json::Json;
use crate::args::subcommands::McpAction;
use crate::commands::output::{print, print_json};
use ah::assemble::mcp::mcp_options;
use ah::confinement::SandboxProbe;
use ah_config::Error;
use ah_config::{Config, Sourced};
use ah_conversation::neutralise;
use ah_terminal::exit::FAILURE;
use ah_terminal::line::preview;
use ah_terminal::print::table::{Align, table};

/// Maximum width of a command line in a list.
const WIDTH: usize = 60;

/// Runs a subcommand of `ah mcp`.
pub fn run(config: &Config, action: &McpAction) -> Result<u8, Error> {
    match action {
        McpAction::List(form) => list(config, *form),
        McpAction::Get { name, json } => get(config, name, *json),
        McpAction::Test { name, json } => test(config, name, *json),
    }
}

fn list(config: &Config, form: Json) -> Result<u8, Error> {
    if form.json {
        let servers = config.mcp_servers.iter();
        return print_json(
            &servers
                .map(|(name, server)| to_json(name, server))
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
            [
                preview(name, WIDTH),
                preview(server.value.kind(), WIDTH),
                preview(&place(&server.value), WIDTH),
                server.origin.to_string(),
            ]
        })
        .collect();
    print(&table([Align::Left; 4], &rows))
}

fn get(config: &Config, name: &str, form: Json) -> Result<u8, Error> {
    let server = find(config, name)?;
    if form.json {
        return print_json(&to_json(name, server));
    }
    let entry = &server.value;
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut rows = vec![
        ["name".to_owned(), name.to_owned()],
        ["set in".to_owned(), server.origin.to_string()],
        ["type".to_owned(), entry.kind().to_owned()],
        ["reached by".to_owned(), place(entry)],
    ];
    for (what, map) in [("variables", &entry.env), ("headers", &entry.headers)] {
        if !map.is_empty() {
            rows.push([what.to_owned(), names(map)]);
        }
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|row| row.map(|cell| preview(&cell, usize::MAX)))
        .collect();
    print(&table([Align::Left; 2], &rows))
}

/// Starts the server as a run would, and no other.
fn test(config: &Config, name: &str, form: Json) -> Result<u8, Error> {
    let server = find(config, name)?;
    let (mut servers, errors) = config.mcp_servers();
    servers.retain(|known, _| known == name);
    if servers.is_empty() {
        let error = errors
            .into_iter()
            .find(|error| error.contains(&format!("`{name}`")));
        return Err(Error::failure(error.unwrap_or_default()));
    }
    // By then its own timeout has expired.
    let patience = config.server_patience() * 2;
    let status = look(config, servers, patience)?.status.remove(0);
    let is_there = status.state == ServerState::Connected;
    if form.json {
        let code = print_json(&status_json(&status))?;
        return Ok(if is_there { code } else { FAILURE });
    }
    if !is_there {
        let reason = status.error.unwrap_or_default();
        let message = format!("the MCP server `{name}` failed: {reason}");
        return Err(Error::failure(message).hint(format!("it is configured in {}", server.origin)));
    }
    print(&describe(&status))
}

/// Servers and their tools as observed.
pub struct Seen {
    /// State of each server.
    pub status: Vec<ServerStatus>,
    /// Tools for the model.
    pub tools: Vec<ToolSpec>,
}

/// Starts servers as a run would, and returns their states once each is ready or has failed, after `patience` at the
/// latest.
pub fn look(
    config: &Config,
    servers: BTreeMap<String, ServerConfig>,
    patience: Duration,
) -> Result<Seen, Error> {
    let mut warnings = Vec::new();
    let probe = SandboxProbe::begin(config, &mut warnings)?;
    warnings
        .iter()
        .for_each(|warning| ah_terminal::warn(warning));
    let runtime = runtime()?;
    let seen = runtime.block_on(async {
        let servers = RemoteServers::start(servers, mcp_options(config, probe.status()));
        servers.ready(patience).await;
        let tools = servers.tools();
        Seen {
            status: servers.status(),
            tools: tools.iter().map(|tool| tool.spec().clone()).collect(),
        }
    });
    ah_process::finish_all();
    Ok(seen)
}

/// Describes the state of a server in one line.
pub fn summary(status: &ServerStatus) -> String {
    let tools = match status.tools.len() {
        0 => "no tools".to_owned(),
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    };
    let rest = match (&status.error, status.state) {
        (Some(error), _) => error.clone(),
        (None, ServerState::Connected) => tools,
        (None, _) => "timed out".to_owned(),
    };
    let text = format!("{}: {}: {rest}", status.name, status.state.as_str());
    neutralise(&text).into_owned()
}

fn describe(status: &ServerStatus) -> String {
    let software = software(status).unwrap_or_else(|| "no name".to_owned());
    let mut text = format!(
        "{}: {} ({})\n",
        status.name,
        status.state.as_str(),
        software
    );
    for tool in &status.tools {
        text.push_str(&format!("  {}\n", tool.name));
    }
    for tool in &status.left_out {
        text.push_str(&format!("  left out: {tool}\n"));
    }
    neutralise(&text).into_owned()
}

/// Returns name and version that a server reports.
fn software(status: &ServerStatus) -> Option<String> {
    let software = status.software.as_ref()?;
    Some(format!("{} {}", software.name, software.version))
}

fn status_json(status: &ServerStatus) -> Value {
    json!({
        "name": status.name,
        "state": status.state,
        "software": software(status),
        "error": status.error,
        "tools": status.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "left_out": status.left_out,
    })
}

fn find<'a>(config: &'a Config, name: &str) -> Result<&'a Sourced<ServerEntry>, Error> {
    config.mcp_servers.get(name).ok_or_else(|| {
        let known: Vec<_> = config.mcp_servers.keys().map(String::as_str).collect();
        let error = Error::failure(format!("there is no MCP server `{name}`"));
        if known.is_empty() {
            error.hint("none is configured; see docs/mcp.md")
        } else {
            error.hint(format!("configured: {}", known.join(", ")))
        }
    })
}

/// Returns the command or address as written; variables are not expanded.
fn place(entry: &ServerEntry) -> String {
    match (&entry.command, &entry.url) {
        (Some(command), _) => {
            let words =
                std::iter::once(command.as_str()).chain(entry.args.iter().map(String::as_str));
            words.collect::<Vec<_>>().join(" ")
        }
        (None, url) => url.clone().unwrap_or_default(),
    }
}

/// Names of variables and headers only: their values may be secrets.
fn to_json(name: &str, server: &Sourced<ServerEntry>) -> Value {
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
        "origin": server.origin.to_string(),
    })
}
