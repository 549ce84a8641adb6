//! Bounds of one command: what the verdict about its text has foreseen. A command has them without a sandbox too, and within
//! one in addition; there what is withheld is a part of its layout.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a command may do at most, with all that it starts: read, and change files in some folders. It connects to nothing,
/// and reaches no terminal, nor any other device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Whether it may do all that this process may, but for what is withheld and for the terminal.
    pub anything_else: bool,
    /// Absolute paths of folders in which it may change and make files; missing ones are ignored.
    pub writable: Vec<PathBuf>,
    /// Whether it may change modes, times and other attributes of files, which the kernel cannot limit to folders.
    pub changes_attributes: bool,
    /// Absolute paths without symbolic links of files and folders whose content it may not read.
    pub hidden: Vec<PathBuf>,
    /// What it may not do whatever else it may.
    pub withheld: Withheld,
}

/// Files that are kept from a command and all that it starts, by absolute paths without symbolic links. Missing ones are
/// ignored. The folders above them stay where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    /// Files and folders that it can neither read nor change.
    pub reading: Vec<PathBuf>,
    /// Files and folders that it cannot change.
    pub editing: Vec<PathBuf>,
    /// Programs that it cannot run.
    pub running: Vec<PathBuf>,
}

impl Withheld {
    /// Whether nothing is withheld.
    pub fn is_empty(&self) -> bool {
        self.reading.is_empty() && self.editing.is_empty() && self.running.is_empty()
    }
}
