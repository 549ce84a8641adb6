//! A plugin of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ah_conversation::Layer;

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
