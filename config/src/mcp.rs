//! Sources of MCP servers: `--mcp-config`, the settings, and a project's `.mcp.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_agent::tool_search::ToolSearchMode;
use ah_conversation::ServerScope;
use ah_mcp::{CredentialPlace, ServerConfig, ServerEntry};

use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::found_file;
use crate::layers::{Layer, is_absence};
use crate::login::SERVER_CREDENTIALS;
use crate::origin::{Origin, Sourced};
use crate::overrides::{McpSource, Overrides};
use crate::server_answers::{OpenServer, ServerAnswers};
use crate::settings;

/// File with a project's servers.
pub(crate) const FILE: &str = ".mcp.json";
const START_TIMEOUT: Duration = Duration::from_secs(30);
const CALL_TIMEOUT: Duration = Duration::from_secs(600);

type ServersByName = BTreeMap<String, Sourced<ServerEntry>>;

/// Returns the servers of all sources. Of servers with the same name, the first counts: command line, project settings,
/// `.mcp.json`, other settings. `project` holds the folders whose files count, nearest first.
///
/// # Errors
///
/// If a file named on the command line cannot be read.
pub(crate) fn find(
    overrides: &Overrides,
    layers: &[Layer],
    project: Option<&[PathBuf]>,
    warnings: &mut Vec<String>,
) -> Result<ServersByName, Error> {
    let mut found = ServersByName::new();
    for given in overrides.mcp_servers.iter().rev() {
        let (origin, servers) = match given {
            McpSource::Servers(servers, errors) => {
                (Origin::CommandLine, (servers.clone(), errors.clone()))
            }
            McpSource::File(path) => (Origin::File(path.clone()), read(path)?),
        };
        add(
            &mut found,
            (&origin, ServerScope::Dynamic),
            servers,
            warnings,
        );
    }
    if overrides.run.only_named_mcp_servers {
        return Ok(found);
    }
    let is_typed = overrides.settings.is_some();
    let is_before = |at: usize, layer: &Layer| layer.is_of_project || (is_typed && at == 0);
    let (before, after): (Vec<_>, Vec<_>) = layers
        .iter()
        .enumerate()
        .partition(|(at, layer)| is_before(*at, layer));
    for (_, layer) in before {
        add_layer(&mut found, layer, scope(layer));
    }
    for folder in project.unwrap_or_default() {
        add_file(&mut found, &folder.join(FILE), warnings);
    }
    for (_, layer) in after {
        add_layer(&mut found, layer, ServerScope::User);
    }
    Ok(found)
}

fn read(path: &Path) -> Result<(BTreeMap<String, ServerEntry>, Vec<String>), Error> {
    let shown = path.display();
    let text = found_file::named(path).map_err(|error| {
        Error::usage(format!("cannot read the MCP servers in `{shown}`: {error}"))
    })?;
    settings::read_mcp(&shown.to_string(), &text).map_err(Error::about_mcp_servers)
}

impl Error {
    /// Returns the error of a list of MCP servers that an option names.
    fn about_mcp_servers(self) -> Self {
        self.with_kind(ErrorKind::Usage)
            .hint("it has the form {\"mcpServers\": {\"NAME\": {\"command\": ...}}}")
    }
}

/// Reads the MCP servers in `text`, the JSON of an option.
///
/// # Errors
///
/// If it is no list of servers.
pub fn parse_servers(text: &str) -> Result<McpSource, Error> {
    let (servers, errors) =
        settings::read_mcp("--mcp-config", text).map_err(Error::about_mcp_servers)?;
    Ok(McpSource::Servers(servers, errors))
}

/// Returns the scope of a layer that takes precedence over `.mcp.json`.
fn scope(layer: &Layer) -> ServerScope {
    let is_local = match &layer.origin {
        Origin::File(path) => path.ends_with("settings.local.json"),
        _ => false,
    };
    match (layer.is_of_project, is_local) {
        (true, true) => ServerScope::Local,
        (true, false) => ServerScope::Project,
        (false, _) => ServerScope::Dynamic,
    }
}

/// Adds a layer's servers. Warnings about them were issued when its file was read.
fn add_layer(found: &mut ServersByName, layer: &Layer, scope: ServerScope) {
    let servers = (layer.settings.mcp_servers.clone(), Vec::new());
    add(found, (&layer.origin, scope), servers, &mut Vec::new());
}

/// Adds the servers of a file that may be absent; an unreadable one is left out with a warning.
fn add_file(found: &mut ServersByName, path: &Path, warnings: &mut Vec<String>) {
    let text = match found_file::text(path) {
        Ok(text) => text,
        Err(error) if is_absence(&error) => return,
        Err(error) => {
            let path = path.display();
            warnings.push(format!("cannot read the MCP servers in `{path}`: {error}"));
            return;
        }
    };
    match settings::read_mcp(&path.display().to_string(), &text) {
        Ok(servers) => {
            let origin = Origin::File(path.to_owned());
            add(found, (&origin, ServerScope::Project), servers, warnings);
        }
        Err(error) => warnings.push(format!("{}; its MCP servers are left out", error.message)),
    }
}

fn add(
    found: &mut ServersByName,
    (origin, scope): (&Origin, ServerScope),
    (servers, errors): (BTreeMap<String, ServerEntry>, Vec<String>),
    warnings: &mut Vec<String>,
) {
    warnings.extend(errors);
    for (name, value) in servers {
        found.entry(name).or_insert_with(|| Sourced {
            value: ServerEntry { scope, ..value },
            origin: origin.clone(),
        });
    }
}

impl Config {
    /// Adds the host's servers; they take precedence over others of the same name.
    pub(crate) fn add_servers(&mut self, source: McpSource) {
        let McpSource::Servers(servers, errors) = source else {
            return;
        };
        self.warnings.extend(errors);
        for (name, entry) in servers {
            let value = ServerEntry {
                scope: ServerScope::Dynamic,
                ..entry
            };
            self.mcp_servers.insert(name, Sourced::typed(value));
        }
    }

    /// Returns the usable MCP servers with variables expanded, and one-line errors about the others.
    pub fn mcp_servers(&self) -> (BTreeMap<String, ServerConfig>, Vec<String>) {
        let variable = |name: &str| self.environment.get(name).map(str::to_owned);
        let (mut servers, mut errors) = (BTreeMap::new(), Vec::new());
        let (answers, warning) = ServerAnswers::read(self.home.as_deref());
        errors.extend(warning);
        for (name, entry) in &self.mcp_servers {
            match entry.value.resolve(&variable) {
                Ok(server) => {
                    let project = self.project_of(entry);
                    let is_granted = match project {
                        Some(folder) => answers.answer(folder, name, &server) == Some(true),
                        None => true,
                    };
                    let server = ServerConfig {
                        is_granted,
                        project: project.map(Path::to_owned),
                        ..server
                    };
                    servers.insert(name.clone(), server);
                }
                Err(reason) => errors.push(format!(
                    "{}: the MCP server `{name}` is left out: {reason}",
                    entry.origin
                )),
            }
        }
        (servers, errors)
    }

    /// Returns the project that a server belongs to; `None` for the user's own servers, whose hosts are the user's wish.
    fn project_of(&self, entry: &Sourced<ServerEntry>) -> Option<&Path> {
        let is_of_plugin = |path: &Path| {
            let mut plugins = self.plugins.iter();
            plugins.any(|plugin| plugin.layer.is_of_project() && path.starts_with(&plugin.root))
        };
        let is_of_project = match (entry.value.scope, &entry.origin) {
            (ServerScope::Project | ServerScope::Local, _) => true,
            (ServerScope::Dynamic, Origin::File(path)) => is_of_plugin(path),
            (ServerScope::Dynamic | ServerScope::User, _) => false,
        };
        is_of_project.then(|| self.trust.folder())
    }

    /// Returns the folder for the home directories of servers in the sandbox.
    pub fn server_homes(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join("servers"))
    }

    /// Returns where the credentials of servers are that the user has signed in to; `None` without a home.
    pub fn server_credentials(&self) -> Option<CredentialPlace> {
        let file = self.home.as_ref()?.join(SERVER_CREDENTIALS);
        Some(CredentialPlace::of(file, &self.environment))
    }

    /// Returns the servers of the project that need hosts of which the user has not yet been asked. Servers outside the
    /// sandbox need no answer.
    pub fn open_servers(&self) -> Vec<OpenServer> {
        let (answers, _) = ServerAnswers::read(self.home.as_deref());
        let (servers, _) = self.mcp_servers();
        let open = servers.into_iter().filter_map(|(name, server)| {
            let project = server.project.clone()?;
            let is_open = !server.needs.is_empty()
                && !self.is_unconfined_server(&name)
                && answers.answer(&project, &name, &server).is_none();
            is_open.then_some(OpenServer {
                name,
                project,
                server,
            })
        });
        open.collect()
    }

    /// Returns whether the user lets the server `name` run outside of the sandbox.
    pub(crate) fn is_unconfined_server(&self, name: &str) -> bool {
        let mut free = self.sandbox.unconfined_servers.iter();
        free.any(|free| free.value == name)
    }

    /// Returns when tools of MCP servers are searched: by `ENABLE_TOOL_SEARCH`, the other agent's variable, else by the
    /// settings.
    pub fn tool_search(&self) -> ToolSearchMode {
        let name = self.interface.tool_name("tool_search");
        if self.deny.iter().any(|rule| rule.value.covers_tool(&name)) {
            return ToolSearchMode::Off;
        }
        let variable = self
            .environment
            .get("ENABLE_TOOL_SEARCH")
            .unwrap_or_default();
        let set = self.tools.tool_search.as_ref().map(|mode| mode.value);
        match variable.trim().to_ascii_lowercase().as_str() {
            "" => set.unwrap_or_default(),
            "false" | "0" | "no" | "off" => ToolSearchMode::Off,
            "true" | "1" | "yes" | "on" => ToolSearchMode::On,
            // `auto:N` names a share of the window; our limits are lower than any.
            _ => ToolSearchMode::Auto,
        }
    }

    /// Returns the start timeout of MCP servers.
    pub fn server_patience(&self) -> Duration {
        self.milliseconds("MCP_TIMEOUT", START_TIMEOUT)
    }

    /// Returns the timeout of an MCP tool call.
    pub fn call_timeout(&self) -> Duration {
        self.milliseconds("MCP_TOOL_TIMEOUT", CALL_TIMEOUT)
    }

    fn milliseconds(&self, variable: &str, otherwise: Duration) -> Duration {
        let text = self.environment.get(variable);
        text.and_then(|text| text.trim().parse().ok())
            .map_or(otherwise, Duration::from_millis)
    }
}
