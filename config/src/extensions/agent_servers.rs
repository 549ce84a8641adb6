//! The MCP servers that definitions of subagents bring along: which of them may reach the hosts that they need.

use ah_agent::agents::{Agent, Agents};
use ah_conversation::Environment;
use ah_mcp::{ServerConfig, ServerEntry};
use serde_json::Value;

use crate::config::Config;
use crate::server_answers::{OpenServer, ServerAnswers};

/// A server of a definition, as configured.
struct AgentServer {
    /// Name of the definition and of the server, by which the user's answer is kept.
    name: String,
    /// Name of the server.
    own_name: String,
    server: ServerConfig,
    written: Value,
    is_of_project: bool,
}

/// Returns the servers of the project's definitions among `agents` that need hosts of which the user has not yet been
/// asked.
pub fn open_agent_servers(config: &Config, agents: &Agents) -> Vec<OpenServer> {
    let (answers, _) = ServerAnswers::read(config.home.as_deref());
    let project = config.trust.folder();
    let servers = of_definitions(&config.environment, agents).filter(|own| {
        own.is_of_project
            && !own.server.needs.is_empty()
            && !config.is_unconfined_server(&own.own_name)
            && answers.answer(project, &own.name, &own.server).is_none()
    });
    let open = |own: AgentServer| OpenServer {
        name: own.name,
        project: project.to_owned(),
        server: own.server,
    };
    servers.map(open).collect()
}

/// Returns the configurations, as written, of servers that may reach the hosts that they need: those of the user's
/// definitions, and those of the project's that the user has allowed.
pub fn granted_agent_servers(config: &Config, agents: &Agents) -> Vec<Value> {
    let (answers, _) = ServerAnswers::read(config.home.as_deref());
    let project = config.trust.folder();
    let servers = of_definitions(&config.environment, agents).filter(|own| {
        !own.is_of_project || answers.answer(project, &own.name, &own.server) == Some(true)
    });
    servers.map(|own| own.written).collect()
}

/// Returns the servers of all definitions. Those that cannot be read are left out; whoever starts them says why.
fn of_definitions(environment: &Environment, agents: &Agents) -> impl Iterator<Item = AgentServer> {
    agents
        .iter()
        .flat_map(|agent| of_definition(agent, environment))
}

fn of_definition(agent: &Agent, environment: &Environment) -> Vec<AgentServer> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let servers = agent.servers.iter().flatten().filter_map(|server| {
        let written = server.own.clone()?;
        let entry: ServerEntry = serde_json::from_value(written.clone()).ok()?;
        Some(AgentServer {
            name: format!("{}/{}", agent.name, server.name),
            own_name: server.name.clone(),
            server: entry.resolve(&variable).ok()?,
            written,
            is_of_project: agent.layer.is_of_project(),
        })
    });
    servers.collect()
}
