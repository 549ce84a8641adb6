//! A plugin of the configuration.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ah_conversation::Layer;
use serde_json::json;

/// Environment variable with the plugin's folder.
const ROOT: &str = "CLAUDE_PLUGIN_ROOT";
/// Environment variable with the folder for what the plugin keeps; that with its files must stay as the user agreed to it.
const DATA: &str = "CLAUDE_PLUGIN_DATA";

/// A plugin in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Prefix of the names of its commands, skills and agents.
    pub name: String,
    /// Its folder.
    pub root: PathBuf,
    /// The folder for what its programs keep between runs.
    pub data: PathBuf,
    /// Its precedence, and whether it is part of the project.
    pub layer: Layer,
    /// Whether its programs run and its texts allow calls.
    pub runs_programs: bool,
    /// Whether its usual folders count: `commands`, `skills`, `agents`. Some marketplaces name all parts themselves.
    pub has_usual_folders: bool,
    /// Files and folders besides the usual ones, by kind: `commands`, `skills`, `agents`.
    pub more: BTreeMap<&'static str, Vec<PathBuf>>,
}

impl Plugin {
    /// Returns a text of the plugin with its folders in place of their placeholders. What is of no plugin stays as it is.
    pub fn placed(text: String, plugin: Option<&Self>) -> String {
        let folders = plugin.into_iter().flat_map(Self::folders);
        folders.fold(text, |text, (name, folder)| {
            text.replace(&placeholder(name), &folder.to_string_lossy())
        })
    }

    /// Like [`Plugin::placed`], for a text that is JSON.
    pub(crate) fn placed_in_json(&self, json: String) -> String {
        self.folders()
            .into_iter()
            .fold(json, |text, (name, folder)| {
                let folder = json!(folder).to_string();
                text.replace(&placeholder(name), folder.trim_matches('"'))
            })
    }

    /// Returns the environment variables that tell programs of the plugin where its folders are, and makes the one for what
    /// they keep.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        // A program that needs the folder says itself that it is missing.
        let _ = fs::create_dir_all(&self.data);
        let folders = self.folders().into_iter();
        folders.map(|(name, folder)| (name.to_owned(), folder.to_string_lossy().into_owned()))
    }

    fn folders(&self) -> [(&'static str, &Path); 2] {
        [(ROOT, &self.root), (DATA, &self.data)]
    }
}

fn placeholder(variable: &str) -> String {
    format!("${{{variable}}}")
}
