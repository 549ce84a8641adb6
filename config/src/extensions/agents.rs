//! The definitions of subagents of all layers, and those of the command line.

use ah_agent::Subagents;
use ah_agent::agents::{Agent, Agents};
use ah_conversation::is_same_tool;

use super::texts;
use crate::config::Config;
use crate::error::Error;
use crate::untrusted;

/// How deep folders of definitions may lie in one another.
const MAX_DEPTH: usize = 3;

/// The definitions that the configuration leaves, and what was wrong with some, a line each.
///
/// # Errors
///
/// Where those of the command line cannot be read.
pub fn agents(config: &Config) -> Result<(Agents, Vec<String>), Error> {
    let mut agents = Agents::default();
    let mut warnings = Vec::new();
    for file in texts(config, "agents", MAX_DEPTH, &mut warnings) {
        match Agent::parse(&file.text, &file.location, file.layer) {
            Ok(agent) => {
                let name = file.named(&agent.name);
                agents.add(as_trusted(Agent { name, ..agent }, config));
            }
            Err(fault) => warnings.push(format!("{}:{fault}", file.location.display())),
        }
    }
    for (name, definition) in &config.run.prompt.agents {
        let agent = Agent::from_json(name, definition);
        let fault = |fault| Error::usage(format!("--agents: `{name}`: {fault}"));
        agents.add(agent.map_err(fault)?);
    }
    agents.retain(|agent| !is_denied(&agent.name, config));
    Ok((agents, warnings))
}

/// What came with a project that is not trusted neither widens what may happen, nor runs anything, nor names a file as its
/// model.
fn as_trusted(agent: Agent, config: &Config) -> Agent {
    if !agent.layer.is_of_project() || config.trust.is_given() {
        return agent;
    }
    Agent {
        model: agent.model.filter(|model| !untrusted::is_file(model)),
        permission_mode: None,
        hooks: Vec::new(),
        servers: agent.servers.map(|mut servers| {
            servers.retain(|server| server.own.is_none());
            servers
        }),
        ..agent
    }
}

/// Whether a rule such as `Task(name)` forbids it.
fn is_denied(name: &str, config: &Config) -> bool {
    config.deny.iter().any(|rule| {
        let rule = &rule.value;
        let content = rule.content.as_deref();
        is_same_tool(&rule.tool, Subagents::SDK_NAME)
            && content.is_some_and(|content| content.eq_ignore_ascii_case(name))
    })
}
