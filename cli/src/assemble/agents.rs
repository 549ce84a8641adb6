//! The subagents that a session may start, and the one that it may itself run as.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::agents::{Agent, MemoryScope};
use ah_agent::skills::Skills;
use ah_agent::{SubagentKinds, Subagents};
use ah_conversation::{PermissionMode, Servers};
use ah_mcp::RemoteServers;

use super::Catalogued;
use super::tools::subagent_tool;
use crate::args::options::Options;
use crate::commands::run::surroundings;
use crate::config::layers::Origin;
use crate::config::{Config, Sourced};
use crate::confinement::Standing;
use crate::error::CliError;
use crate::extensions;

/// The model of whoever starts a subagent.
const INHERIT: &str = "inherit";
/// The names by which one vendor's models are known; elsewhere they name nothing.
const ALIASES: [&str; 3] = ["sonnet", "opus", "haiku"];
/// The variable with which other agents' users keep subagents from running beside the conversation.
const NONE_BESIDE: &str = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS";

/// The tool that starts subagents, where the profile has it.
///
/// # Errors
///
/// Where the definitions of the command line cannot be read.
pub fn subagents(
    skills: &Arc<Skills>,
    options: &Options,
    config: &Config,
    standing: &Standing,
) -> Result<Option<Arc<Subagents>>, CliError> {
    let Some(name) = subagent_tool(options, config.interface) else {
        return Ok(None);
    };
    let (agents, warnings) = extensions::agents(&options.prompt, config)?;
    warnings.iter().for_each(|warning| crate::warn(warning));
    let (of_prompt, of_config) = (options.prompt.clone(), config.clone());
    let is_off = config.environment.get(NONE_BESIDE) == Some("1");
    let main = options.prompt.agent.as_deref();
    let main = main.and_then(|name| agents.get(name));
    let allowed = main.and_then(|main| main.may_start()).unwrap_or_default();
    let kinds = SubagentKinds {
        agents,
        skills: skills.clone(),
        models: Arc::new(Catalogued::new(config.clone(), options.clone())),
        surroundings: Box::new(move || surroundings(&of_config, &of_prompt)),
        memory: memory(config),
        may_run_beside: !is_off,
        servers: Some(servers(config, standing)),
    };
    Ok(Some(Arc::new(Subagents::new(kinds, name, allowed))))
}

/// Gives servers of a subagent's own, which end with it.
fn servers(
    config: &Config,
    standing: &Standing,
) -> Box<dyn Fn() -> Arc<dyn Servers> + Send + Sync> {
    let options = config.mcp_options(standing);
    Box::new(move || Arc::new(RemoteServers::start(BTreeMap::new(), options.clone())))
}

/// The options and the configuration of a session whose main agent is the one that `--agent` names, and what its first
/// prompt begins with. What was typed counts more than its definition.
///
/// # Errors
///
/// Where there is no such definition.
pub fn as_main(options: &Options, config: &Config) -> Result<Option<Main>, CliError> {
    let Some(name) = &options.prompt.agent else {
        return Ok(None);
    };
    let (agents, _) = extensions::agents(&options.prompt, config)?;
    let Some(agent) = agents.get(name).cloned() else {
        let known: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let hint = format!("there are {}", known.join(", "));
        return Err(CliError::usage(format!("there is no agent `{name}`")).hint(hint));
    };
    let (skills, _) = extensions::skills(config);
    let (mut options, mut config) = (options.clone(), config.clone());
    let given = options.prompt.system_prompt.take();
    options.prompt.system_prompt = given.filter(|text| !text.trim().is_empty());
    if options.prompt.system_prompt.is_none() && options.prompt.system_prompt_file.is_none() {
        let (of_prompt, of_config) = (options.prompt.clone(), config.clone());
        let kinds = SubagentKinds {
            agents,
            skills: Arc::new(skills),
            models: Arc::new(Catalogued::new(config.clone(), options.clone())),
            surroundings: Box::new(move || surroundings(&of_config, &of_prompt)),
            memory: memory(&config),
            may_run_beside: true,
            servers: None,
        };
        // To go without the project's instructions is for those who are told what they need.
        let with_instructions = Agent {
            omits_instructions: false,
            ..(*agent).clone()
        };
        options.prompt.system_prompt = Some(kinds.system(&with_instructions).join("\n\n"));
    }
    of_definition(&agent, &mut options, &mut config)?;
    Ok(Some(Main {
        first_words: agent.initial_prompt.clone(),
        options,
        config,
    }))
}

/// A session whose main agent has a definition.
pub struct Main {
    /// What its first prompt begins with.
    pub first_words: Option<String>,
    /// The options with what the definition says.
    pub options: Options,
    /// The configuration likewise.
    pub config: Config,
}

/// Takes from a definition what was not typed.
fn of_definition(
    agent: &Agent,
    options: &mut Options,
    config: &mut Config,
) -> Result<(), CliError> {
    let origin = || Origin::CommandLine;
    let is_other_vendors = |name: &str| name.contains('/') || name.starts_with("script:");
    if let Some(model) = agent.model.clone().filter(|model| model != INHERIT)
        && options.model.model.is_none()
        && !(ALIASES.contains(&model.as_str()) && is_other_vendors(&config.model.value))
    {
        config.model = Sourced {
            value: model,
            origin: origin(),
        };
    }
    if let Some(value) = agent.permission_mode
        && options.safety.permission_mode.is_none()
        && !options.safety.dangerously_skip_permissions
    {
        if value == PermissionMode::BypassPermissions && !config.may_bypass {
            let message = format!("the agent `{}` wants mode `bypassPermissions`", agent.name);
            return Err(CliError::failure(message)
                .hint("agree to it with --allow-dangerously-skip-permissions"));
        }
        config.permission_mode = Sourced {
            value,
            origin: origin(),
        };
    }
    if let Some(value) = agent.effort
        && options.model.effort.is_none()
    {
        config.effort = Some(Sourced {
            value,
            origin: origin(),
        });
    }
    let hooks = agent.hooks.iter().cloned();
    config.hooks.extend(hooks.map(|value| Sourced {
        value,
        origin: origin(),
    }));
    options.limits.max_turns = options.limits.max_turns.or(agent.max_turns);
    if let Some(tools) = &agent.tools
        && options.tools.tools.is_none()
    {
        let names = tools.iter().filter_map(|tool| tool.split('(').next());
        options.tools.tools = Some(names.map(str::to_owned).collect());
    }
    for tool in &agent.disallowed_tools {
        let value = tool.parse();
        let value = value.map_err(|fault| CliError::failure(format!("{tool}: {fault}")))?;
        config.deny.push(Sourced {
            value,
            origin: origin(),
        });
    }
    Ok(())
}

/// Where subagents keep what they have learned; the folders are those of the other agent, so that both know the same.
fn memory(config: &Config) -> Vec<(MemoryScope, PathBuf)> {
    let project = config.project_root.join(".claude");
    let user = config.foreign_home.as_ref();
    let user = user.map(|folder| (MemoryScope::User, folder.join("agent-memory")));
    user.into_iter()
        .chain([
            (MemoryScope::Project, project.join("agent-memory")),
            (MemoryScope::Local, project.join("agent-memory-local")),
        ])
        .collect()
}
