//! What a plugin brings, as a run would load it: for the user, before they agree to it.

use std::fs;
use std::path::Path;

use ah_agent::commands::{Numbering, Piece, pieces};
use ah_agent::hooks::{HookAction, HookSetting};
use ah_mcp::ServerEntry;

use crate::config::Config;
use crate::extensions::{self, TOOL_FOLDERS};
use crate::overrides::PluginFolder;
use crate::untrusted;

/// The parts of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginParts {
    /// Names of commands.
    pub commands: Vec<String>,
    /// Names of skills.
    pub skills: Vec<String>,
    /// Names of subagents.
    pub agents: Vec<String>,
    /// What runs programs, one line each: hooks with their command lines, servers with their variables, tools of skills,
    /// lines in commands, scripts in the place of a model.
    pub programs: Vec<String>,
    /// What its texts allow without a question, one line each: calls of tools, permission modes.
    pub allowed: Vec<String>,
    /// Files that its commands read, one line each.
    pub files: Vec<String>,
    /// Problems with single parts.
    pub warnings: Vec<String>,
}

impl PluginParts {
    /// Returns whether the plugin has an effect that the user must agree to: that of its texts alone is none.
    pub fn needs_consent(&self) -> bool {
        !(self.programs.is_empty() && self.allowed.is_empty() && self.files.is_empty())
    }
}

/// Folders and files of a plugin that have no effect here.
const WITHOUT_EFFECT: [&str; 5] = ["output-styles", "monitors", "themes", "bin", ".lsp.json"];

impl Config {
    /// Returns the parts of the plugin in a folder; nothing of it runs.
    ///
    /// # Errors
    ///
    /// If the plugin cannot be used.
    pub fn parts_of_plugin(&self, folder: &Path) -> Result<PluginParts, String> {
        let mut alone = self.clone();
        alone.plugins.clear();
        alone.hooks.clear();
        alone.mcp_servers.clear();
        alone.warnings.clear();
        alone.errors.clear();
        alone.run.only_named_mcp_servers = false;
        alone.add_plugins(&[PluginFolder {
            path: folder.to_owned(),
            has_servers: true,
            runs_programs: true,
        }]);
        if let Some(error) = alone.errors.pop() {
            return Err(error.message);
        }
        let Some(plugin) = alone.plugins.first() else {
            return Err(alone.warnings.pop().unwrap_or_default());
        };
        let root = plugin.root.clone();
        let mut parts = PluginParts::default();
        for hook in &alone.hooks {
            let event = hook.value.event.as_str();
            parts
                .programs
                .push(format!("hook at {event}: {}", called(&hook.value)));
        }
        for (name, server) in &alone.mcp_servers {
            let place = place(&server.value);
            parts.programs.push(format!("server {name}: {place}"));
        }
        add_commands(&mut parts, &alone, &root);
        add_skills(&mut parts, &alone, &root);
        add_agents(&mut parts, &alone, &root)?;
        let ignored = WITHOUT_EFFECT
            .iter()
            .filter(|name| root.join(name).exists());
        let ignored: Vec<_> = ignored.copied().collect();
        if !ignored.is_empty() {
            let ignored = ignored.join(", ");
            parts.warnings.push(format!("no effect in ah: {ignored}"));
        }
        parts.warnings.extend(alone.warnings);
        let folder = format!("{}/", root.display());
        let PluginParts {
            programs,
            files,
            warnings,
            ..
        } = &mut parts;
        for line in warnings.iter_mut().chain(programs).chain(files) {
            *line = line.replace(&folder, "");
        }
        Ok(parts)
    }
}

/// Adds the commands of a plugin, with what they run, allow and read.
fn add_commands(parts: &mut PluginParts, alone: &Config, root: &Path) {
    let (commands, warnings) = extensions::commands(alone);
    parts.warnings.extend(warnings);
    for command in commands.iter().filter(|it| it.location.starts_with(root)) {
        let name = &command.name;
        parts.commands.push(name.clone());
        let of = format!("command /{name}");
        parts.add_model(&of, command.model.as_deref());
        parts.add_allowed(&of, &command.allowed_tools);
        for piece in pieces(&command.body, "", Numbering::FromOne) {
            match piece {
                Piece::Shell { line, .. } => parts.programs.push(format!("{of}: {line}")),
                Piece::File {
                    path,
                    is_typed: false,
                } => parts.files.push(format!("{of}: {path}")),
                Piece::Text(_) | Piece::File { .. } => {}
            }
        }
    }
}

/// Adds the skills of a plugin, with their tools and what they allow.
fn add_skills(parts: &mut PluginParts, alone: &Config, root: &Path) {
    let (skills, warnings) = extensions::skills(alone);
    parts.warnings.extend(warnings);
    for skill in skills.iter().filter(|it| it.location.starts_with(root)) {
        parts.skills.push(skill.name.clone());
        let of = format!("skill {}", skill.name);
        parts.add_allowed(&of, &skill.allowed_tools);
        let Some(folder) = skill.folder() else {
            continue;
        };
        for kind in TOOL_FOLDERS {
            let entries = fs::read_dir(folder.join(kind)).into_iter().flatten();
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            let names = names.iter().map(|name| name.to_string_lossy());
            let tools = names.map(|name| format!("tool of {of}: {kind}/{name}"));
            parts.programs.extend(tools);
        }
    }
}

/// Adds the subagents of a plugin, with the hooks and servers of their own, and what they allow.
fn add_agents(parts: &mut PluginParts, alone: &Config, root: &Path) -> Result<(), String> {
    let (agents, warnings) = extensions::agents(alone).map_err(|error| error.message)?;
    parts.warnings.extend(warnings);
    for agent in agents.iter() {
        let location = agent.location.as_deref();
        if !location.is_some_and(|location| location.starts_with(root)) {
            continue;
        }
        let name = &agent.name;
        parts.agents.push(name.clone());
        let of = format!("agent {name}");
        parts.add_model(&of, agent.model.as_deref());
        let mode = agent
            .permission_mode
            .map(|mode| format!("{of}: mode {}", mode.as_str()));
        parts.allowed.extend(mode);
        let memory = agent
            .memory
            .map(|scope| format!("{of}: memory {}", scope.as_str()));
        parts.allowed.extend(memory);
        let hooks = agent.hooks.iter();
        let hooks = hooks.map(|hook| format!("hook of {of}: {}", called(hook)));
        parts.programs.extend(hooks);
        for server in agent.servers.iter().flatten() {
            let Some(own) = &server.own else {
                continue;
            };
            let entry = serde_json::from_value::<ServerEntry>(own.clone());
            let place = entry.map_or_else(|_| own.to_string(), |entry| place(&entry));
            let line = format!("server {} of {of}: {place}", server.name);
            parts.programs.push(line);
        }
    }
    Ok(())
}

impl PluginParts {
    fn add_model(&mut self, of: &str, model: Option<&str>) {
        let model = model.filter(|model| untrusted::is_file(model));
        self.programs
            .extend(model.map(|model| format!("model of {of}: {model}")));
    }

    fn add_allowed(&mut self, of: &str, tools: &[String]) {
        if !tools.is_empty() {
            self.allowed.push(format!("{of}: {}", tools.join(", ")));
        }
    }
}

/// Returns the command line or address of a server with its variables or headers and the hosts that it may reach, as written.
fn place(entry: &ServerEntry) -> String {
    let words = entry.command.iter().chain(&entry.args).chain(&entry.url);
    let words = words.cloned();
    let given = entry.env.iter().chain(&entry.headers);
    let given = given.map(|(name, value)| format!("{name}={value}"));
    let hosts = entry.allow_hosts.iter().chain(&entry.allow_http);
    let hosts = hosts.map(|host| format!("reaches {host}"));
    words
        .chain(given)
        .chain(hosts)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the command line of a hook, or its address with all that it gets, as written.
fn called(hook: &HookSetting) -> String {
    match &hook.action {
        HookAction::Command(_) => hook.shown(),
        HookAction::Post(post) => {
            let headers = post.headers.iter();
            let headers = headers.map(|(name, value)| format!(" {name}={value}"));
            let variables = post.variables.iter().map(|name| format!(" with {name}"));
            let given: String = headers.chain(variables).collect();
            format!("POST {}{given}", post.url)
        }
    }
}
