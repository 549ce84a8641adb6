//! The tools of a session, from all layers.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::Subagents;
use ah_agent::skills::{Skill, SkillTool, Skills};
use ah_config::Config;
use ah_config::extensions::TOOL_FOLDERS;
use ah_config::overrides::RunOptions;
use ah_config::profile::Profile as Chosen;
use ah_config::settings::tools::ToolConfig;
use ah_conversation::{CheckInForce, Interface, Layer, Tool, ToolName, is_same_tool};
use ah_store::SessionStore;
use ah_tools::{
    HelpCache, Layered, LayeredTool, LuaFiles, LuaSurroundings, Profile, Shell, Todo, ToolDeps,
    ToolLoader, ToolOrigin, Web, Workspace,
};

use crate::assemble::check_tool::CheckTool;
use crate::assemble::config_tool::{self, ConfigTool};
use crate::assemble::recorded_check::RecordedTo;
use crate::assemble::set_goal_tool::{self, SetGoalTool};
use crate::confinement::SandboxStatus;

/// Inputs of a session's tools.
pub struct Sources<'a> {
    /// The sandbox of commands.
    pub sandbox: &'a SandboxStatus,
    /// The file that the session is recorded to.
    pub recorded_to: &'a RecordedTo,
    /// The store of the session, which keeps whole outputs.
    pub store: Arc<SessionStore>,
    /// All skills.
    pub skills: &'a Arc<Skills>,
    /// The skill in use.
    pub active: Option<&'a Skill>,
    /// Whether a person can be asked.
    pub has_person: bool,
    /// Access to the web.
    pub web: Web,
    /// The check of the session's runs.
    pub check: CheckInForce,
    /// The subagents, if the profile has a tool for them.
    pub subagents: Option<Arc<Subagents>>,
}

/// Returns the tools of all layers that the options leave, and one-line warnings about others.
pub async fn layered(sources: Sources<'_>, config: &Config) -> (Layered, Vec<String>) {
    let environment = &config.environment;
    let protected = config.protected_folders();
    let mut workspace = Workspace::new(environment.cwd(), environment.home(), &protected);
    let mut shell = Shell::new(environment);
    shell.output_cap = config.tools.max_tool_output_bytes.value;
    if let Some(confined) = sources.sandbox.confined() {
        workspace = workspace.confined(Arc::new(confined.sandbox.confinement().clone()));
        shell.environment.clone_from(&confined.variables);
        shell.sandbox = Some(confined.sandbox.clone());
    }
    let workspace = Arc::new(workspace.with_embedded(config.embedded.clone()));
    let loader = ToolLoader {
        workspace: workspace.clone(),
        lua: LuaFiles::new(LuaSurroundings {
            hidden: ah_conversation::HiddenFiles::default(),
            denied: config.permissions().denied_to(""),
            workspace,
            cwd: environment.cwd().to_owned(),
            shell: shell.clone(),
            embedded: config.embedded.clone(),
            http: ah_http::Options::from_variables(|name| environment.get(name)),
        }),
        modules: if config.trust.is_given() {
            vec![config.project_root.clone()]
        } else {
            Vec::new()
        },
        asked_for: listed(&config.run).map(str::to_owned).collect(),
        shell,
        help: HelpCache {
            file: config
                .home
                .as_ref()
                .map(|home| home.join("cache/help.json")),
            denied: config.permissions().denied_to(""),
        },
    };
    let folders = folders(sources.active, config);
    let mut tools = built_in(sources, &loader, config);
    let (given, removed, mut warnings) = given(&config.run.tools.commands);
    let found = loader.load(&folders, &given).await;
    warnings.extend(found.warnings);
    for (tool, origin) in found.tools {
        tools.add(tool, origin);
    }
    for name in removed {
        if !tools.remove(&name) {
            warnings.push(format!("--tool {name}=: there is no tool `{name}`"));
        }
    }
    if config.interface == Interface::Native {
        let unknown = unknown(&tools, &config.run);
        warnings.extend(unknown.map(|name| format!("--tools: there is no tool `{name}`")));
    }
    tools.retain(|tool| is_wanted(tool, config));
    (tools, warnings)
}

/// Returns the listed names of tools that are not there; those of servers come later.
fn unknown<'a>(tools: &Layered, options: &'a RunOptions) -> impl Iterator<Item = &'a str> {
    listed(options).filter(|listed| {
        let mut all = tools.iter().map(|known| &known.tool.spec().name);
        let is_special =
            listed.is_empty() || *listed == "default" || ToolName(listed).is_of_server();
        !is_special && !all.any(|name| is_same_tool(listed, name))
    })
}

/// Returns the built-in tools.
fn built_in(sources: Sources<'_>, loader: &ToolLoader, config: &Config) -> Layered {
    let (profile, interface) = tool_set(config.interface, &config.tools);
    let is_aimed = profile == Profile::Sdk && is_named(set_goal_tool::NAME, &config.run);
    let goal = (is_aimed && sources.has_person).then(|| {
        SetGoalTool::new(
            sources.check.clone(),
            config.clone(),
            sources.sandbox,
            sources.recorded_to,
            sources.store.clone(),
        )
    });
    let check = { sources.check.get() }
        .map(|_| Arc::new(CheckTool::new(sources.check, config.project_root.clone())));
    let of_check = check.iter().filter_map(|tool| tool.extras().tasks);
    let of_subagents = sources
        .subagents
        .iter()
        .filter_map(|tool| tool.extras().tasks);
    let deps = ToolDeps {
        workspace: loader.workspace.clone(),
        shell: loader.shell.clone(),
        store: sources.store,
        has_person: sources.has_person,
        web: sources.web,
        tasks: of_subagents.chain(of_check).collect(),
    };
    let mut all = ah_tools::builtin(profile, interface, deps);
    let of_skills = SkillTool::new(sources.skills.clone(), interface);
    let of_skills = of_skills.filter(|_| profile != Profile::Small);
    all.extend(of_skills.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    let scripts = config
        .tools
        .code_mode
        .as_ref()
        .is_some_and(|mode| mode.value);
    all.extend(scripts.then(|| ah_tools::script(interface)).flatten());
    if let Some(subagents) = sources.subagents {
        let of_team = subagents.team_tools(interface);
        // A team has one list of tasks.
        let list = Todo::name(interface);
        all.retain(|tool| of_team.is_empty() || tool.spec().name != list);
        all.push(subagents);
        all.extend(of_team);
    }
    if profile == Profile::Sdk && is_named(config_tool::NAME, &config.run) {
        all.push(Arc::new(ConfigTool::new(config)));
    }
    all.extend(goal.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    all.extend(check.map(|tool| tool as Arc<dyn Tool>));
    let mut tools = Layered::default();
    for tool in all {
        let origin = ToolOrigin {
            layer: Layer::BuiltIn,
            path: None,
        };
        tools.add(tool, origin);
    }
    tools
}

/// Returns whether a list of tools has this name.
fn is_named(tool: &str, options: &RunOptions) -> bool {
    listed(options).any(|name| name == tool)
}

/// Returns the set of built-in tools and the interface that names them.
fn tool_set(interface: Interface, tools: &ToolConfig) -> (Profile, Interface) {
    let chosen = tools.profile.as_ref().map(|profile| profile.value);
    let profile = match (chosen, interface) {
        (Some(Chosen::Default), _) => Profile::Default,
        (Some(Chosen::Minimal), _) => Profile::Minimal,
        (Some(Chosen::Sdk), _) => Profile::Sdk,
        (Some(Chosen::PlainRepl), _) => Profile::Plain,
        (Some(Chosen::Small), _) => Profile::Small,
        (None, Interface::Native) => Profile::Default,
        (None, Interface::AgentSdk) => Profile::Sdk,
    };
    let interface = match (profile, interface) {
        (Profile::Sdk, _) | (_, Interface::AgentSdk) => Interface::AgentSdk,
        (
            Profile::Default | Profile::Minimal | Profile::Plain | Profile::Small,
            Interface::Native,
        ) => Interface::Native,
    };
    (profile, interface)
}

/// Returns the name of the tool that starts subagents, if the profile has it.
pub fn subagent_tool(config: &Config) -> Option<&'static str> {
    match tool_set(config.interface, &config.tools) {
        (Profile::Minimal | Profile::Plain | Profile::Small, _) => None,
        (_, interface) => Some(interface.pick(Subagents::OWN_NAME, Subagents::SDK_NAME)),
    }
}

/// Returns the folders that may hold tools, without those of an untrusted project.
fn folders(active: Option<&Skill>, config: &Config) -> Vec<ToolOrigin> {
    let counts = |layer: Layer| !layer.is_of_project() || config.trust.is_given();
    let mut folders = Vec::new();
    let mut add = |layer, path: PathBuf| {
        folders.push(ToolOrigin {
            layer,
            path: Some(path),
        });
    };
    for name in TOOL_FOLDERS {
        let unpacked = config.unpacked.iter();
        unpacked.for_each(|folder| add(Layer::Embedded, folder.join(name)));
    }
    for folder in config.layer_folders() {
        if counts(folder.layer) {
            for name in TOOL_FOLDERS {
                add(folder.layer, folder.path.join(name));
            }
        }
    }
    let active = active.filter(|skill| config.distrust(skill.layer, &skill.location).is_none());
    if let Some(folder) = active.and_then(Skill::folder) {
        for name in TOOL_FOLDERS {
            add(Layer::Skill, folder.join(name));
        }
    }
    folders
}

/// Parses `--tool`: tools with their commands, names of removed tools, and warnings.
fn given(options: &[String]) -> (Vec<(String, String)>, Vec<String>, Vec<String>) {
    let (mut given, mut removed, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for option in options {
        match option.split_once('=') {
            Some((name, "")) => removed.push(name.to_owned()),
            Some((name, command)) => given.push((name.to_owned(), command.to_owned())),
            None => warnings.push(format!(
                "--tool {option}: expected NAME=COMMAND, or NAME= to remove it"
            )),
        }
    }
    (given, removed, warnings)
}

fn is_wanted(tool: &LayeredTool, config: &Config) -> bool {
    let name = &tool.tool.spec().name;
    // A tool named on the command line, or brought by the skill in use, is wanted.
    let is_named = tool.origin.layer >= Layer::Skill;
    let is_listed = config.run.tools.only.is_none()
        || listed(&config.run).any(|listed| is_same_tool(listed, name) || listed == "default");
    (is_named || is_listed) && !config.deny.iter().any(|rule| rule.value.covers_tool(name))
}

/// Returns the names in the lists of tools.
fn listed(options: &RunOptions) -> impl Iterator<Item = &str> {
    let lists = options.tools.only.iter().flatten();
    lists.flat_map(|list| list.split([',', ' ']))
}
