//! Plugins: folders with commands, skills, subagents, hooks and MCP servers, all prefixed with the plugin's name.
//!
//! They are named on the command line or by a host. Code of a plugin within the project counts only if the project is
//! trusted, like the project's own files.

pub(crate) mod fingerprint;
mod parts;

use std::fs;
use std::path::{Path, PathBuf};

use ah_agent::hooks::HookSetting;
use ah_conversation::{Layer, ServerScope, json};
use ah_mcp::ServerEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::layers::is_absence;
use crate::origin::{Origin, Sourced};
use crate::overrides::PluginFolder;
use crate::plugin::Plugin;
use crate::{found_file, settings};

pub use parts::PluginParts;

/// Optional manifest of a plugin.
const MANIFEST: &str = ".claude-plugin/plugin.json";

/// Content of the manifest.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Manifest {
    name: Option<String>,
    commands: Option<Paths>,
    skills: Option<Paths>,
    agents: Option<Paths>,
    hooks: Option<Value>,
    mcp_servers: Option<Value>,
    /// Of ours: whether only the parts named here count, since a marketplace has named all of them.
    #[serde(rename = "ahOnlyNamedParts")]
    only_named_parts: bool,
}

/// One path or several, relative to the plugin's folder.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Paths {
    One(String),
    Many(Vec<String>),
}

impl Config {
    /// Adds the content of plugins. Unreadable parts are left out with a warning.
    /// Hooks that cannot be read are an error: a guard must not be missing.
    pub(crate) fn add_plugins(&mut self, folders: &[PluginFolder]) {
        let is_strict = self.run.only_named_mcp_servers;
        for folder in folders {
            let root = self.environment.cwd().join(&folder.path);
            match self.plugin(&root, folder, is_strict) {
                Ok((plugin, hooks)) => {
                    if plugin.runs_programs {
                        self.add_hooks(&plugin, hooks);
                    }
                    self.plugins.push(plugin);
                }
                Err(error) => self.warnings.push(format!(
                    "the plugin `{}` is left out: {error}",
                    root.display()
                )),
            }
        }
    }

    /// Returns the plugin in a folder, and the hooks of its manifest.
    fn plugin(
        &mut self,
        root: &Path,
        folder: &PluginFolder,
        is_strict: bool,
    ) -> Result<(Plugin, Option<Value>), String> {
        let root = fs::canonicalize(root).map_err(|error| error.to_string())?;
        if !root.is_dir() {
            return Err("not a folder".to_owned());
        }
        let manifest = manifest(&root)?;
        let of_folder = || root.file_name().unwrap_or_default().to_string_lossy();
        let name = manifest.name.unwrap_or_else(|| of_folder().into_owned());
        let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(is_known) {
            return Err(format!(
                "`{name}` is not a valid plugin name; use letters, digits, `-` and `_`"
            ));
        }
        if self.plugins.iter().any(|other| other.name == name) {
            return Err(format!("another plugin has the name `{name}`"));
        }
        let project = fs::canonicalize(&self.project_root);
        let is_of_project = project.is_ok_and(|project| root.starts_with(project));
        let home = self.home.as_deref().unwrap_or(&root);
        let plugin = Plugin {
            data: home.join("plugins/data").join(&name),
            name,
            layer: if is_of_project {
                Layer::ForeignProject
            } else {
                Layer::ForeignUser
            },
            runs_programs: folder.runs_programs,
            has_usual_folders: !manifest.only_named_parts,
            more: [
                ("commands", manifest.commands),
                ("skills", manifest.skills),
                ("agents", manifest.agents),
            ]
            .into_iter()
            .map(|(kind, paths)| (kind, inside(&root, paths)))
            .collect(),
            root,
        };
        if folder.has_servers && folder.runs_programs && !is_strict {
            self.add_plugin_servers(&plugin, manifest.mcp_servers);
        }
        Ok((plugin, manifest.hooks))
    }

    /// Returns the plugin with this origin.
    pub fn plugin_of(&self, origin: &Origin) -> Option<&Plugin> {
        match origin {
            Origin::File(path) => self.plugin_with(path),
            _ => None,
        }
    }

    /// Returns the plugin that the file at `path` belongs to.
    pub fn plugin_with(&self, path: &Path) -> Option<&Plugin> {
        let mut plugins = self.plugins.iter();
        plugins.find(|plugin| path.starts_with(&plugin.root))
    }

    /// Returns why a file of this layer may run no programs and allow no calls; `None` if it may.
    pub fn distrust(&self, layer: Layer, file: &Path) -> Option<&'static str> {
        if layer.is_of_project() && !self.trust.is_given() {
            return Some("the project is not trusted");
        }
        let plugin = self.plugin_with(file)?;
        (!plugin.runs_programs).then_some("the plugin may run no programs")
    }

    /// Returns whether code of a plugin counts; if not, notes the file.
    fn counts(&mut self, plugin: &Plugin, path: &Path) -> bool {
        let counts = !plugin.layer.is_of_project() || self.trust.is_given();
        if !counts {
            self.trust.skip(path.to_owned(), None);
        }
        counts
    }

    fn add_hooks(&mut self, plugin: &Plugin, given: Option<Value>) {
        for (path, value) in self.files(plugin, "hooks/hooks.json", "hooks", given) {
            let only = json!({"hooks": value});
            match settings::read(&path.display().to_string(), &only.to_string(), true) {
                Ok((read, warnings)) => {
                    self.warnings.extend(warnings);
                    let is_own = !plugin.layer.is_of_project();
                    let hooks = read.hooks.into_iter().map(|hook| Sourced {
                        value: HookSetting { is_own, ..hook },
                        origin: Origin::File(path.clone()),
                    });
                    self.hooks.extend(hooks);
                }
                Err(error) => self.errors.push(error),
            }
        }
    }

    fn add_plugin_servers(&mut self, plugin: &Plugin, given: Option<Value>) {
        for (path, value) in self.files(plugin, ".mcp.json", "mcpServers", given) {
            let text = plugin.placed_in_json(json!({"mcpServers": value}).to_string());
            match settings::read_mcp(&path.display().to_string(), &text) {
                Ok((servers, errors)) => {
                    self.warnings.extend(errors);
                    for (name, entry) in servers {
                        let name = format!("plugin:{}:{name}", plugin.name);
                        self.mcp_servers.entry(name).or_insert_with(|| Sourced {
                            value: ServerEntry {
                                scope: ServerScope::Dynamic,
                                ..entry
                            },
                            origin: Origin::File(path.clone()),
                        });
                    }
                }
                Err(Error { message, .. }) => {
                    self.warnings
                        .push(format!("{message}; its MCP servers are left out"));
                }
            }
        }
    }

    /// Returns the content of the usual file and of the manifest under `key`, if they count; the file may omit the key.
    fn files(
        &mut self,
        plugin: &Plugin,
        usual: &str,
        key: &str,
        given: Option<Value>,
    ) -> Vec<(PathBuf, Value)> {
        let mut paths = Vec::new();
        if plugin.has_usual_folders {
            paths.push(plugin.root.join(usual));
        }
        let mut found = Vec::new();
        match given {
            Some(Value::String(path)) => {
                paths.extend(inside(&plugin.root, Some(Paths::One(path))));
                paths.dedup();
            }
            Some(value @ Value::Object(_)) => found.push((plugin.root.join(MANIFEST), value)),
            _ => {}
        }
        for path in paths {
            match found_file::text(&path) {
                Ok(text) => match json::from_str::<Value>(&text) {
                    Ok(mut value) => {
                        let inner = value.get_mut(key).map(Value::take);
                        found.push((path, inner.unwrap_or(value)));
                    }
                    Err(error) => {
                        let path = path.display();
                        self.warnings.push(format!("`{path}` is left out: {error}"));
                    }
                },
                Err(error) if is_absence(&error) => {}
                Err(error) => {
                    let path = path.display();
                    self.warnings.push(format!("cannot read `{path}`: {error}"));
                }
            }
        }
        found.retain(|(path, _)| self.counts(plugin, path));
        found
    }
}

fn manifest(root: &Path) -> Result<Manifest, String> {
    let path = root.join(MANIFEST);
    match found_file::text(&path) {
        Ok(text) => json::from_str(&text).map_err(|error| format!("{MANIFEST}: {error}")),
        Err(error) if is_absence(&error) => Ok(Manifest::default()),
        Err(error) => Err(format!("{MANIFEST}: {error}")),
    }
}

/// Returns the paths of a plugin that are inside its folder.
fn inside(root: &Path, paths: Option<Paths>) -> Vec<PathBuf> {
    let paths = match paths {
        None => Vec::new(),
        Some(Paths::One(path)) => vec![path],
        Some(Paths::Many(paths)) => paths,
    };
    let paths = paths.iter().map(|path| root.join(path));
    let real = paths.filter_map(|path| fs::canonicalize(path).ok());
    real.filter(|path| path.starts_with(root)).collect()
}
