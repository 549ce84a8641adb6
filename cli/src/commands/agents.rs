//! `ah agents`: the available subagents and their sources.

use ah_agent::agents::{Agent, MemoryScope};
use serde_json::{Value, json};

use super::tools;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_config::extensions;
use ah_terminal::line::preview;
use ah_terminal::print::table::{Align, table};

/// Maximum width of a list of tools.
const TOOLS_WIDTH: usize = 40;
/// Maximum width of a description.
const DESCRIPTION_WIDTH: usize = 60;

/// Lists the definitions in force, and warns of invalid ones.
pub fn run(config: &Config, form: Json) -> Result<u8, Error> {
    let (agents, warnings) = extensions::agents(config)?;
    warnings
        .iter()
        .for_each(|warning| ah_terminal::warn(warning));
    if form.json {
        return print_json(&agents.iter().map(|agent| to_json(agent)).collect());
    }
    let head = ["agent", "model", "tools", "layer", "from", ""].map(str::to_owned);
    let rows = agents.iter().map(|agent| {
        [
            agent.name.clone(),
            agent.model.clone().unwrap_or_else(|| "inherit".to_owned()),
            preview(&tools_of(agent), TOOLS_WIDTH),
            agent.layer.to_string(),
            tools::place(agent.location.as_deref(), config),
            preview(&agent.description, DESCRIPTION_WIDTH),
        ]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    print(&table([Align::Left; 6], &rows))
}

/// Describes its tools.
fn tools_of(agent: &Agent) -> String {
    let has = match &agent.tools {
        None => "all".to_owned(),
        Some(tools) => tools.join(", "),
    };
    if agent.disallowed_tools.is_empty() {
        has
    } else {
        format!("{has} but {}", agent.disallowed_tools.join(", "))
    }
}

fn to_json(agent: &Agent) -> Value {
    let servers = agent.servers.as_ref().map(|servers| servers.iter());
    json!({
        "name": agent.name,
        "description": agent.description,
        "model": agent.model,
        "tools": agent.tools,
        "disallowedTools": agent.disallowed_tools,
        "permissionMode": agent.permission_mode.map(|mode| mode.as_str()),
        "maxTurns": agent.max_turns,
        "skills": agent.skills,
        "memory": agent.memory.map(MemoryScope::as_str),
        "mcpServers": servers.map(|servers| servers.map(|server| &server.name).collect::<Vec<_>>()),
        "background": agent.background,
        "layer": agent.layer.to_string(),
        "path": agent.location,
    })
}
