//! What a plugin brings, as a run would load it: for the user, before they agree to it.

use std::path::Path;

use ah_agent::commands::{Numbering, Piece, pieces};
use ah_mcp::ServerEntry;

use crate::config::Config;
use crate::extensions;
use crate::overrides::PluginFolder;

/// The parts of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginParts {
    /// Names of commands.
    pub commands: Vec<String>,
    /// Names of skills.
    pub skills: Vec<String>,
    /// Names of subagents.
    pub agents: Vec<String>,
    /// What runs programs, one line each: hooks with their command lines, servers, lines in commands.
    pub programs: Vec<String>,
    /// Problems with single parts.
    pub warnings: Vec<String>,
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
                .push(format!("hook at {event}: {}", hook.value.shown()));
        }
        for (name, server) in &alone.mcp_servers {
            let place = place(&server.value);
            parts.programs.push(format!("server {name}: {place}"));
        }
        let (commands, warnings) = extensions::commands(&alone);
        parts.warnings.extend(warnings);
        for command in commands.iter() {
            if command.location.starts_with(&root) {
                parts.commands.push(command.name.clone());
                let lines = pieces(&command.body, "", Numbering::FromOne).into_iter();
                parts.programs.extend(lines.filter_map(|piece| match piece {
                    Piece::Shell { line, .. } => Some(format!("command /{}: {line}", command.name)),
                    Piece::Text(_) | Piece::File(_) => None,
                }));
            }
        }
        let (skills, warnings) = extensions::skills(&alone);
        parts.warnings.extend(warnings);
        let skills = skills
            .iter()
            .filter(|skill| skill.location.starts_with(&root));
        parts.skills = skills.map(|skill| skill.name.clone()).collect();
        add_agents(&mut parts, &alone, &root)?;
        let ignored = WITHOUT_EFFECT
            .iter()
            .filter(|name| root.join(name).exists());
        let ignored: Vec<_> = ignored.copied().collect();
        if !ignored.is_empty() {
            let ignored = ignored.join(", ");
            parts
                .warnings
                .push(format!("without effect in ah: {ignored}"));
        }
        parts.warnings.extend(alone.warnings);
        let folder = format!("{}/", root.display());
        for line in parts.warnings.iter_mut().chain(&mut parts.programs) {
            *line = line.replace(&folder, "");
        }
        Ok(parts)
    }
}

/// Adds the subagents of a plugin, with the hooks and servers of their own.
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
        let hooks = agent.hooks.iter();
        let hooks = hooks.map(|hook| format!("hook of agent {name}: {}", hook.shown()));
        parts.programs.extend(hooks);
        let own = agent.servers.iter().flatten();
        let own = own.filter(|server| server.own.is_some());
        let own = own.map(|server| format!("server of agent {name}: {}", server.name));
        parts.programs.extend(own);
    }
    Ok(())
}

/// Returns the command line or address of a server, as written.
fn place(entry: &ServerEntry) -> String {
    let words = entry.command.iter().chain(&entry.args);
    let words: Vec<_> = words.map(String::as_str).collect();
    match &entry.url {
        Some(url) if words.is_empty() => url.clone(),
        _ => words.join(" "),
    }
}
