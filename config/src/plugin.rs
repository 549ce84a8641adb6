//! A plugin of the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ah_conversation::Layer;

/// Environment variable with the plugin's folder.
const VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";
/// Placeholder for the plugin's folder in its files.
pub(crate) const ROOT: &str = "${CLAUDE_PLUGIN_ROOT}";

/// A plugin in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Prefix of the names of its commands, skills and agents.
    pub name: String,
    /// Its folder.
    pub root: PathBuf,
    /// Its precedence, and whether it is part of the project.
    pub layer: Layer,
    /// Whether its programs run: hooks, servers, and lines in its commands.
    pub runs_programs: bool,
    /// Whether its usual folders count: `commands`, `skills`, `agents`. Some marketplaces name all parts themselves.
    pub has_usual_folders: bool,
    /// Files and folders besides the usual ones, by kind: `commands`, `skills`, `agents`.
    pub more: BTreeMap<&'static str, Vec<PathBuf>>,
}

impl Plugin {
    /// Returns a text of the plugin in the folder `root` with that folder in place of its placeholder. What is of no plugin
    /// stays as it is.
    pub fn placed(text: String, root: Option<&Path>) -> String {
        match root {
            Some(root) => text.replace(ROOT, &root.to_string_lossy()),
            None => text,
        }
    }

    /// Returns the environment variable that tells programs of the plugin in the folder `root` where it is.
    pub fn variable(root: &Path) -> (String, String) {
        (VARIABLE.to_owned(), root.to_string_lossy().into_owned())
    }
}
