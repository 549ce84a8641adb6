//! The tools of a session, from all layers.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::Subagents;
use ah_agent::skills::{Skill, SkillTool, Skills};
use ah_config::{Config, overrides};
use ah_conversation::{Interface, Layer, Store, Tool, is_same_tool};
use ah_tools::{
    HelpCache, Layered, LayeredTool, LuaFiles, LuaSurroundings, Profile, Shell, ToolDeps,
    ToolLoader, ToolOrigin, Web, Workspace,
};

use crate::confinement::Confined;

/// The folders of one layer that tools lie in, those that count more last.
const FOLDERS: [&str; 2] = ["tools", "bin"];

/// What the tools of a session come from.
pub struct Sources<'a> {
    /// Where commands run, if not with our rights.
    pub confined: Option<&'a Confined>,
    /// Where whole outputs are found again.
    pub store: Arc<dyn Store>,
    /// All skills.
    pub skills: &'a Arc<Skills>,
    /// The skill that is in use.
    pub active: Option<&'a Skill>,
    /// Whether there is somebody who can be asked.
    pub has_person: bool,
    /// How the web is reached.
    pub web: Web,
    /// What starts subagents, where there is such a tool.
    pub subagents: Option<Arc<Subagents>>,
}

/// The tools of all layers that the options leave, and what is wrong with others, a line each.
pub async fn layered(sources: Sources<'_>, config: &Config) -> (Layered, Vec<String>) {
    let environment = &config.environment;
    let protected = config.protected_folders();
    let mut workspace = Workspace::new(environment.cwd(), environment.home(), &protected);
    let mut shell = Shell::new(environment);
    shell.output_cap = config.max_tool_output_bytes.value;
    if let Some(confined) = sources.confined {
        workspace = workspace.confined(Arc::new(confined.sandbox.confinement().clone()));
        shell.environment.clone_from(&confined.variables);
        shell.sandbox = Some(confined.sandbox.clone());
    }
    let lists = config.run.tools.only.iter().flatten();
    let workspace = Arc::new(workspace.with_embedded(config.embedded.clone()));
    let loader = ToolLoader {
        workspace: workspace.clone(),
        lua: LuaFiles::new(LuaSurroundings {
            workspace,
            cwd: environment.cwd().to_owned(),
            shell: shell.clone(),
            embedded: config.embedded.clone(),
            http: ah_http::Options::from_variables(|name| environment.get(name)),
        }),
        modules: match config.trust.is_given() {
            true => vec![config.project_root.clone()],
            false => Vec::new(),
        },
        asked_for: lists
            .flat_map(|list| names(list))
            .map(str::to_owned)
            .collect(),
        shell,
        help: HelpCache {
            file: config
                .home
                .as_ref()
                .map(|home| home.join("cache/help.json")),
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
    tools.retain(|tool| is_wanted(tool, config));
    (tools, warnings)
}

/// The tools that the program has by itself.
fn built_in(sources: Sources<'_>, loader: &ToolLoader, config: &Config) -> Layered {
    let deps = ToolDeps {
        workspace: loader.workspace.clone(),
        shell: loader.shell.clone(),
        store: sources.store,
        has_person: sources.has_person,
        web: sources.web,
        tasks: { sources.subagents.as_ref() }.and_then(|tool| tool.tasks()),
    };
    let (profile, interface) = profile(config);
    let mut all = ah_tools::builtin(profile, interface, deps);
    let of_skills = SkillTool::new(sources.skills.clone(), interface);
    all.extend(of_skills.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    all.extend(sources.subagents.map(|tool| tool as Arc<dyn Tool>));
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

/// Which built-in tools there are, and under which names.
fn profile(config: &Config) -> (Profile, Interface) {
    let interface = config.interface;
    let profile = match (config.run.tools.profile, interface) {
        (Some(overrides::Profile::Default), _) => Profile::Default,
        (Some(overrides::Profile::Minimal), _) => Profile::Minimal,
        (Some(overrides::Profile::Sdk), _) => Profile::Sdk,
        (Some(overrides::Profile::PlainRepl), _) => Profile::Plain,
        (None, Interface::Native) => Profile::Default,
        (None, Interface::AgentSdk) => Profile::Sdk,
    };
    let interface = match (profile, interface) {
        (Profile::Sdk, _) | (_, Interface::AgentSdk) => Interface::AgentSdk,
        (Profile::Default | Profile::Minimal | Profile::Plain, Interface::Native) => {
            Interface::Native
        }
    };
    (profile, interface)
}

/// What the tool is called that starts subagents, where the profile has it.
pub fn subagent_tool(config: &Config) -> Option<&'static str> {
    match profile(config) {
        (Profile::Minimal | Profile::Plain, _) => None,
        (_, interface) => Some(interface.pick(Subagents::OWN_NAME, Subagents::SDK_NAME)),
    }
}

/// The folders that may hold tools. What came with a project that is not trusted does not count.
fn folders(active: Option<&Skill>, config: &Config) -> Vec<ToolOrigin> {
    let counts = |layer: Layer| !layer.is_of_project() || config.trust.is_given();
    let mut folders = Vec::new();
    let mut add = |layer, path: PathBuf| {
        folders.push(ToolOrigin {
            layer,
            path: Some(path),
        });
    };
    for name in FOLDERS {
        let unpacked = config.unpacked.iter();
        unpacked.for_each(|folder| add(Layer::Embedded, folder.join(name)));
    }
    for folder in config.layer_folders() {
        if counts(folder.layer) {
            for name in FOLDERS {
                add(folder.layer, folder.path.join(name));
            }
        }
    }
    let active = active.filter(|skill| counts(skill.layer));
    if let Some(folder) = active.and_then(Skill::folder) {
        for name in FOLDERS {
            add(Layer::Skill, folder.join(name));
        }
    }
    folders
}

/// What `--tool` says: tools with their commands, names of tools that are not to be there, and what is neither.
fn given(options: &[String]) -> (Vec<(String, String)>, Vec<String>, Vec<String>) {
    let (mut given, mut removed, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for option in options {
        match option.split_once('=') {
            Some((name, "")) => removed.push(name.to_owned()),
            Some((name, command)) => given.push((name.to_owned(), command.to_owned())),
            None => warnings.push(format!(
                "--tool {option}: expected NAME=COMMAND, or NAME= to leave it out"
            )),
        }
    }
    (given, removed, warnings)
}

fn is_wanted(tool: &LayeredTool, config: &Config) -> bool {
    let name = &tool.tool.spec().name;
    // Whoever names a tool on the command line, or takes up a skill, wants it.
    let is_named = tool.origin.layer >= Layer::Skill;
    let is_listed = match &config.run.tools.only {
        None => true,
        Some(lists) => {
            let mut names = lists.iter().flat_map(|list| names(list));
            names.any(|listed| is_same_tool(listed, name) || listed == "default")
        }
    };
    (is_named || is_listed) && !config.deny.iter().any(|rule| rule.value.covers_tool(name))
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' '])
}
