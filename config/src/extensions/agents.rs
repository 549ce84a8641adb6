//! Definitions of subagents from all layers and the command line.

use std::path::Path;

use ah_agent::Subagents;
use ah_agent::agents::{Agent, Agents};
use ah_conversation::{Rule, is_same_tool};

use super::texts;
use crate::config::Config;
use crate::error::Error;
use crate::{Sourced, untrusted};

/// Maximum depth of nested folders of definitions.
const MAX_DEPTH: usize = 3;

/// Returns the definitions in force, and one-line warnings about invalid ones.
///
/// # Errors
///
/// If a definition of the command line is invalid.
pub fn agents(config: &Config) -> Result<(Agents, Vec<String>), Error> {
    let mut agents = Agents::default();
    let mut warnings = Vec::new();
    for file in texts(config, "agents", MAX_DEPTH, &mut warnings) {
        match Agent::parse(&file.text, &file.location, file.layer) {
            Ok(agent) => {
                let name = file.named(&agent.name);
                agents.add(as_trusted(Agent { name, ..agent }, config));
            }
            Err(error) => warnings.push(format!("{}:{error}", file.location.display())),
        }
    }
    for (name, definition) in &config.run.prompt.agents {
        let agent = Agent::from_json(name, definition);
        let failed = |error| Error::usage(format!("--agents: `{name}`: {error}"));
        agents.add(agent.map_err(failed)?);
    }
    agents.retain(|agent| !is_denied(&agent.name, &config.deny));
    Ok((agents, warnings))
}

/// Restricts a definition of an untrusted project or plugin: it neither allows more, nor runs anything, nor names a file as its
/// model, nor has a memory, which would be a folder to write.
fn as_trusted(agent: Agent, config: &Config) -> Agent {
    let file = agent.location.as_deref().unwrap_or(Path::new(""));
    if config.distrust(agent.layer, file).is_none() {
        return agent;
    }
    Agent {
        model: agent.model.filter(|model| !untrusted::is_file(model)),
        permission_mode: None,
        memory: None,
        hooks: Vec::new(),
        servers: agent.servers.map(|mut servers| {
            servers.retain(|server| server.own.is_none());
            servers
        }),
        ..agent
    }
}

/// Returns whether a rule such as `Task(name)` denies it.
fn is_denied(name: &str, deny: &[Sourced<Rule>]) -> bool {
    deny.iter().any(|rule| {
        let rule = &rule.value;
        let content = rule.content.as_deref();
        is_same_tool(&rule.tool, Subagents::SDK_NAME)
            && content.is_some_and(|content| content.eq_ignore_ascii_case(name))
    })
}
