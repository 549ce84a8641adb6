//! `ah tools`: the tools of a session.

use std::path::Path;
use std::sync::Arc;

use ah_config::Config;
use ah_config::Error;
use ah_config::extensions;
use ah_conversation::{CheckInForce, Embedded, ServerState, ToolSpec};
use ah_engine::assemble::recorded_check::RecordedTo;
use ah_engine::assemble::{self, tools::Sources};
use ah_engine::confinement::SandboxStatus;
use ah_store::SessionStore;
use ah_terminal::line::preview;
use ah_terminal::print::table::{Align, table};
use ah_tools::{Layered, LayeredTool, ToolOrigin, Web};
use serde_json::{Value, json};

use super::mcp;
use super::runtime::runtime;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};

/// The layer printed for tools of MCP servers.
const MCP: &str = "mcp";

/// Lists the tools, including those of MCP servers.
pub fn run(config: &Config, has_person: bool, form: Json) -> Result<u8, Error> {
    let tools = layered(config, has_person)?;
    let servers = of_servers(config)?;
    if form.json {
        let of_servers = servers.iter().map(|known| known.to_json());
        return print_json(&tools.iter().map(to_json).chain(of_servers).collect());
    }
    let head = ["tool", "layer", "from", "overrides", ""].map(str::to_owned);
    let rows = tools.iter().map(|known| {
        let spec = known.tool.spec();
        let overrides = known
            .overrides
            .iter()
            .map(|origin| origin.layer.to_string());
        [
            spec.name.clone(),
            known.origin.layer.to_string(),
            place(known.origin.path.as_deref(), config),
            overrides.collect::<Vec<_>>().join(", "),
            preview(summary(spec), 60),
        ]
    });
    let of_servers = servers.iter().map(|known| {
        [
            known.spec.name.clone(),
            MCP.to_owned(),
            preview(&known.server, 60),
            String::new(),
            preview(summary(&known.spec), 60),
        ]
    });
    let rows: Vec<_> = std::iter::once(head)
        .chain(rows)
        .chain(of_servers)
        .collect();
    print(&table([Align::Left; 5], &rows))
}

/// Returns the tools of a session with this configuration.
pub fn layered(config: &Config, has_person: bool) -> Result<Layered, Error> {
    let config = &*ah_engine::model::small::suited(config);
    let runtime = runtime()?;
    let (skills, mut warnings) = extensions::skills(config);
    let skills = Arc::new(skills);
    let active = config
        .run
        .prompt
        .skill
        .as_ref()
        .and_then(|name| skills.get(name));
    let sources = Sources {
        sandbox: &SandboxStatus::Off,
        recorded_to: &RecordedTo::default(),
        store: Arc::new(SessionStore::in_memory(&std::env::temp_dir())?),
        skills: &skills,
        active: active.map(|skill| &**skill),
        has_person,
        web: Web::default(),
        check: CheckInForce::default(),
        subagents: assemble::subagents(
            &skills,
            config,
            &SandboxStatus::Off,
            None,
            (&ah_engine::warn::no_warnings(), None),
            &mut warnings,
        )?,
    };
    let (tools, more) = runtime.block_on(assemble::tools::layered(sources, config));
    warnings.extend(more);
    warnings
        .iter()
        .for_each(|warning| ah_terminal::warn(warning));
    Ok(tools)
}

/// A tool of an MCP server, or one that manages servers.
pub(super) struct ServedTool {
    pub(super) spec: ToolSpec,
    /// Empty if it belongs to no server.
    server: String,
}

impl ServedTool {
    fn to_json(&self) -> Value {
        json!({
            "name": self.spec.name,
            "description": self.spec.description,
            "input_schema": *self.spec.input_schema,
            "layer": MCP,
            "server": self.server,
        })
    }
}

/// Returns the tools of the MCP servers, and warns of servers that fail.
pub(super) fn of_servers(config: &Config) -> Result<Vec<ServedTool>, Error> {
    let (servers, errors) = config.mcp_servers();
    errors.iter().for_each(|error| ah_terminal::warn(error));
    if servers.is_empty() {
        return Ok(Vec::new());
    }
    let seen = mcp::look(config, servers, assemble::PATIENCE)?;
    for status in &seen.status {
        if status.state != ServerState::Connected {
            ah_terminal::warn(&format!("MCP server {}", mcp::summary(status)));
        }
    }
    let server = |spec: &ToolSpec| {
        let mut all = seen.status.iter();
        let of_it = all.find(|status| status.tools.iter().any(|tool| tool.name == spec.name));
        of_it.map(|status| status.name.clone()).unwrap_or_default()
    };
    let tools = seen.tools.iter().map(|spec| ServedTool {
        spec: spec.clone(),
        server: server(spec),
    });
    Ok(tools.collect())
}

/// Returns a short form of the path of an entry found in a layer.
pub fn place(path: Option<&Path>, config: &Config) -> String {
    let Some(path) = path else {
        return String::new();
    };
    let below = |folder: Option<&Path>, name: &str| {
        let below = path.strip_prefix(folder?).ok()?;
        Some(format!("{name}{}", below.display()))
    };
    let home = config.environment.home();
    let embedded = format!("{}/", Embedded::ROOT);
    below(config.unpacked.as_deref(), &embedded)
        .or_else(|| below(Some(config.environment.cwd()), ""))
        .or_else(|| below(home.as_deref(), "~/"))
        .unwrap_or_else(|| path.display().to_string())
}

/// Returns the first sentence of the description.
fn summary(spec: &ToolSpec) -> &str {
    let line = spec.description.lines().next().unwrap_or_default();
    line.split_once(". ").map_or(line, |(first, _)| first)
}

fn to_json(known: &LayeredTool) -> Value {
    let spec = known.tool.spec();
    let origin =
        |origin: &ToolOrigin| json!({ "layer": origin.layer.to_string(), "path": origin.path });
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": *spec.input_schema,
        "layer": known.origin.layer.to_string(),
        "path": known.origin.path,
        "overrides": known.overrides.iter().map(origin).collect::<Vec<_>>(),
    })
}
