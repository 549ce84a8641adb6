//! Servers as they are: starts them, and describes what they offer.

use std::collections::BTreeMap;
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::{ServerState, ServerStatus, Servers as _, ToolSpec, neutralise};
use ah_engine::assemble::mcp::mcp_options;
use ah_engine::confinement::SandboxProbe;
use ah_mcp::{RemoteServers, ServerConfig};
use serde_json::{Value, json};

use crate::commands::runtime::runtime;

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

/// Describes a server with its tools.
pub fn describe(status: &ServerStatus) -> String {
    let software = software(status).map_or_else(String::new, |it| format!(" ({it})"));
    let mut text = format!("{}: {}{software}\n", status.name, status.state.as_str());
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

/// Returns what `describe` says, for programs.
pub fn status_json(status: &ServerStatus) -> Value {
    json!({
        "name": status.name,
        "state": status.state,
        "software": software(status),
        "error": status.error,
        "tools": status.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "left_out": status.left_out,
    })
}
