//! The subagents that a session may start, and the definition that the session itself may run as.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ah_agent::agents::{Agent, Agents, MemoryScope};
use ah_agent::skills::Skills;
use ah_agent::{INHERIT, Isolation, MemoryPlace, SubagentKinds, Subagents, is_model_alias};
use ah_config::overrides::SystemPromptSource;
use ah_config::{Config, Error, Origin, Sourced, extensions};
use ah_conversation::{PermissionMode, Servers};
use ah_mcp::{Granted, RemoteServers};

use super::mcp::{mcp_options, without_hosts};
use super::tools::subagent_tool;
use crate::confinement::{SandboxProbe, SandboxStatus};
use crate::model::{Around, Catalogued};
use crate::prompt::instructions::surroundings;
use crate::warn::{Warn, no_warnings};

/// The variable with which other agents' users keep subagents from running beside the conversation.
const NONE_BESIDE: &str = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS";

/// The variable of the other agent that sets the model of all subagents.
const MODEL: &str = "CLAUDE_CODE_SUBAGENT_MODEL";

/// The variable that gives a session a team.
const TEAM: &str = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS";

/// Returns the tool that starts subagents, if the profile has it.
///
/// # Errors
///
/// If the definitions of the command line cannot be read.
pub fn subagents(
    skills: &Arc<Skills>,
    config: &Config,
    sandbox_status: &SandboxStatus,
    isolation: Option<Box<dyn Isolation>>,
    (warn, around): (&Warn, Option<Around>),
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Subagents>>, Error> {
    let Some(name) = subagent_tool(config) else {
        return Ok(None);
    };
    let (mut agents, more) = extensions::agents(config)?;
    warnings.extend(more);
    let model = config.environment.get(MODEL);
    if let Some(model) = model.filter(|_| config.interface.stands_in()) {
        agents.answered_by(model);
    }
    // Servers that subagents bring cannot be tested alone; a conversation asks when it begins.
    let open = extensions::open_agent_servers(config, &agents);
    warnings.extend(without_hosts(open, "ah", sandbox_status));
    let servers = servers(config, &agents, sandbox_status);
    let (of_config, sandbox) = (config.clone(), sandbox_status.summary());
    let is_off = config.environment.get(NONE_BESIDE) == Some("1");
    let main = config
        .run
        .prompt
        .agent
        .as_deref()
        .and_then(|name| agents.get(name));
    let allowed = main.and_then(|main| main.may_start()).unwrap_or_default();
    let kinds = SubagentKinds {
        agents,
        skills: skills.clone(),
        models: Arc::new(Catalogued::new(config.clone(), warn.clone()).with(around)),
        context: Box::new(move || surroundings(&of_config, &sandbox)),
        memory: memory(&config.project_root, config.foreign_home.as_deref()),
        allow_background: !is_off,
        isolation,
        servers: Some(servers),
    };
    let subagents = Subagents::new(kinds, name, allowed);
    let has_team = matches!(config.environment.get(TEAM), Some("1" | "true"));
    Ok(Some(Arc::new(match has_team {
        true => subagents.with_team(),
        false => subagents,
    })))
}

/// Returns a factory of MCP server sets that belong to one subagent and end with it.
fn servers(
    config: &Config,
    agents: &Agents,
    sandbox_status: &SandboxStatus,
) -> Box<dyn Fn() -> Arc<dyn Servers> + Send + Sync> {
    // A definition may be the project's, whose servers get no hosts unasked.
    let options = ah_mcp::Options {
        granted: Granted::Entries(extensions::granted_agent_servers(config, agents)),
        ..mcp_options(config, sandbox_status)
    };
    Box::new(move || Arc::new(RemoteServers::start(BTreeMap::new(), options.clone())))
}

/// Returns the configuration of a session that runs as the agent named by `--agent`, and the start of its first prompt.
/// Command-line options take precedence over the definition.
///
/// # Errors
///
/// If there is no such definition.
pub fn as_main(config: &Config) -> Result<Option<Main>, Error> {
    let Some(name) = &config.run.prompt.agent else {
        return Ok(None);
    };
    let (agents, _) = extensions::agents(config)?;
    let Some(agent) = agents.get(name).cloned() else {
        let known: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let hint = format!("known agents: {}", known.join(", "));
        return Err(Error::usage(format!("there is no agent `{name}`")).hint(hint));
    };
    let (skills, _) = extensions::skills(config);
    let mut config = config.clone();
    let prompt = &mut config.run.prompt;
    if matches!(&prompt.system_prompt, Some(SystemPromptSource::Text(text)) if text.trim().is_empty())
    {
        prompt.system_prompt = None;
    }
    if config.run.prompt.system_prompt.is_none() {
        let of_config = config.clone();
        let sandbox = SandboxProbe::begin(&config, &mut Vec::new())?
            .status()
            .summary();
        let kinds = SubagentKinds {
            agents,
            skills: Arc::new(skills),
            models: Arc::new(Catalogued::new(config.clone(), no_warnings())),
            context: Box::new(move || surroundings(&of_config, &sandbox)),
            memory: memory(&config.project_root, config.foreign_home.as_deref()),
            allow_background: true,
            isolation: None,
            servers: None,
        };
        // Only subagents, whose prompt tells them all they need, go without the project's instructions.
        let with_instructions = Agent {
            omits_instructions: false,
            ..(*agent).clone()
        };
        let parts = kinds.parts(&with_instructions);
        config.run.prompt.system_prompt = Some(SystemPromptSource::Agent(parts));
    }
    of_definition(&agent, &mut config)?;
    Ok(Some(Main {
        first_words: agent.initial_prompt.clone(),
        config,
    }))
}

/// A session that runs as a defined agent.
pub struct Main {
    /// Text that its first prompt begins with.
    pub first_words: Option<String>,
    /// The configuration with the definition applied.
    pub config: Config,
}

/// Whether the name in a file means another model than that of the configuration: aliases of one vendor mean nothing to
/// servers of others.
pub(crate) fn is_another_model(name: &str, own: &str) -> bool {
    let is_other_vendors = own.contains('/') || own.starts_with("script:");
    name != INHERIT && !(is_model_alias(name) && is_other_vendors)
}

/// Applies the values of a definition that no option sets.
fn of_definition(agent: &Agent, config: &mut Config) -> Result<(), Error> {
    if let Some(model) = agent.model.as_ref()
        && config.model.origin != Origin::CommandLine
        && is_another_model(model, &config.model.value)
    {
        config.model = Sourced::typed(model.clone());
    }
    if let Some(value) = agent.permission_mode
        && config.permission_mode.origin != Origin::CommandLine
    {
        if value == PermissionMode::BypassPermissions && !config.may_bypass {
            let message = format!(
                "the agent `{}` requires permission mode `bypassPermissions`",
                agent.name
            );
            return Err(
                Error::failure(message).hint("allow it with --allow-dangerously-skip-permissions")
            );
        }
        config.permission_mode = Sourced::typed(value);
    }
    if let Some(value) = agent.effort
        && config
            .requests
            .effort
            .as_ref()
            .is_none_or(|effort| effort.origin != Origin::CommandLine)
    {
        config.requests.effort = Some(Sourced::typed(value));
    }
    config
        .hooks
        .extend(agent.hooks.iter().cloned().map(Sourced::typed));
    let limits = &mut config.run.limits;
    limits.max_turns = limits.max_turns.or(agent.max_turns);
    if let Some(tools) = &agent.tools
        && config.run.tools.only.is_none()
    {
        let names = tools.iter().filter_map(|tool| tool.split('(').next());
        config.run.tools.only = Some(names.map(str::to_owned).collect());
    }
    for tool in &agent.disallowed_tools {
        let rule = tool
            .parse()
            .map_err(|error| Error::failure(format!("{tool}: {error}")))?;
        config.deny.push(Sourced::typed(rule));
    }
    Ok(())
}

/// Returns the folders of the subagents' memory. They are those of the other agent, so that both share it.
fn memory(project_root: &Path, foreign_home: Option<&Path>) -> Vec<(MemoryScope, MemoryPlace)> {
    let place = |above: &Path, below: &str| MemoryPlace {
        above: above.to_owned(),
        below: below.into(),
    };
    let user = foreign_home.map(|home| (MemoryScope::User, place(home, "agent-memory")));
    let in_project = |scope, below| (scope, place(project_root, below));
    user.into_iter()
        .chain([
            in_project(MemoryScope::Project, ".claude/agent-memory"),
            in_project(MemoryScope::Local, ".claude/agent-memory-local"),
        ])
        .collect()
}
