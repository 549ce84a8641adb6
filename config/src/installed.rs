//! Marketplaces and installed plugins, in the folder `plugins` of the user's folder: a list, and a copy of each plugin
//! as it was at one commit. What puts them there is above; here they are found and used.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::answers_file;
use crate::config::Config;
use crate::overrides::PluginFolder;
pub use crate::plugins::fingerprint::{MADE_BY_PYTHON, fingerprint};

/// The folder, below the user's folder.
const FOLDER: &str = "plugins";
/// The list, in the folder.
const LIST: &str = "plugins.json";
/// Held while the folder changes.
const LOCK: &str = "lock";
/// Longest name of a marketplace or plugin, in bytes.
const MAX_NAME: usize = 64;

/// The marketplaces and plugins of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Installed {
    /// The marketplaces, by name.
    pub marketplaces: BTreeMap<String, Marketplace>,
    /// The plugins, by `NAME@MARKETPLACE`.
    pub plugins: BTreeMap<String, InstalledPlugin>,
}

/// A marketplace that was added.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Marketplace {
    /// The source as typed: a folder, a URL, or `OWNER/NAME`.
    pub source: String,
    /// The commit of the copy; `None` for a folder, of which there is no copy.
    pub commit: Option<String>,
    /// The folder with `.claude-plugin/marketplace.json`.
    pub folder: PathBuf,
}

/// A plugin that was installed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPlugin {
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// The commit, or for a folder `sha256:` and the hash of its files.
    pub pin: String,
    /// The copy.
    pub folder: PathBuf,
    /// Whether runs use it.
    pub enabled: bool,
    /// The [`fingerprint`] of the copy that was shown to the user.
    #[serde(default)]
    pub shown: String,
    /// Whether the user has agreed to all that was shown: that its programs run and its texts allow calls.
    pub runs_programs: bool,
}

impl InstalledPlugin {
    /// Returns whether the copy is still what was shown to the user.
    pub fn is_as_shown(&self) -> bool {
        fingerprint(&self.folder).is_ok_and(|now| now == self.shown)
    }
}

/// The folder of marketplaces and plugins of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStore {
    folder: PathBuf,
}

/// The folder while it is changed; other processes wait.
#[derive(Debug)]
pub struct OpenPlugins {
    /// The list, written by [`OpenPlugins::save`].
    pub list: Installed,
    folder: PathBuf,
    _lock: File,
}

impl PluginStore {
    /// Returns the folder below the user's folder `home`.
    pub fn below(home: &Path) -> Self {
        Self {
            folder: home.join(FOLDER),
        }
    }

    /// Reads the list. There is nothing in it before the first change.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read(&self) -> io::Result<Installed> {
        answers_file::read(&self.folder.join(LIST))
    }

    /// Opens the folder for a change; waits while another process changes it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, or the list cannot be read.
    pub fn open(&self) -> io::Result<OpenPlugins> {
        fs::create_dir_all(&self.folder)?;
        let lock = File::create(self.folder.join(LOCK))?;
        lock.lock()?;
        Ok(OpenPlugins {
            list: self.read()?,
            folder: self.folder.clone(),
            _lock: lock,
        })
    }
}

impl OpenPlugins {
    /// Returns the folder, for copies and what is being made.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the list.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self) -> io::Result<()> {
        answers_file::write(&self.folder, LIST, &self.list)
    }
}

impl Config {
    /// Adds the plugins that are installed and enabled. One of the same name that the caller has named counts instead.
    pub(crate) fn add_installed_plugins(&mut self) {
        let Some(home) = self.home.as_deref().filter(|_| self.sources.user) else {
            return;
        };
        let installed = match PluginStore::below(home).read() {
            Ok(installed) => installed,
            Err(error) => {
                self.warnings.push(format!(
                    "the installed plugins are left out: `{}` cannot be read: {error}",
                    home.join(FOLDER).join(LIST).display()
                ));
                return;
            }
        };
        for (id, plugin) in installed.plugins {
            let name = id.split('@').next().unwrap_or_default();
            let is_named = self.plugins.iter().any(|known| known.name == name);
            if !plugin.enabled || is_named {
                continue;
            }
            if plugin.is_as_shown() {
                self.add_plugins(&[PluginFolder {
                    path: plugin.folder,
                    has_servers: true,
                    runs_programs: plugin.runs_programs,
                }]);
            } else {
                self.warnings.push(format!(
                    "the plugin `{id}` is left out: its files have changed since you approved them; `ah plugin enable {id}` \
                     shows what it may do now"
                ));
            }
        }
    }
}

/// Returns whether a marketplace may have this name: it names a folder of ours.
pub fn is_marketplace_name(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_known)
        && !name.contains("..")
}

/// Returns whether a plugin may have this name: it prefixes the names of its parts, and names a folder of ours.
pub fn is_plugin_name(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_known)
}
