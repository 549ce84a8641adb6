//! A plugin, as the configuration lists it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ah_conversation::Layer;

/// A plugin whose files count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// What all that it brings begins with.
    pub name: String,
    /// Where it is.
    pub root: PathBuf,
    /// How much it counts, and whether it came with the project.
    pub layer: Layer,
    /// The files and folders that it has besides the usual ones, by kind: `commands`, `skills`, `agents`.
    pub more: BTreeMap<&'static str, Vec<PathBuf>>,
}
