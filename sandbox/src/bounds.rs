//! Bounds of one command: what the verdict about its text has foreseen. They need no mounts and no namespaces, so a command
//! has them without a sandbox too, and within one in addition.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a command may do at most, with all that it starts: read, and change files in some folders. It connects to nothing,
/// and reaches no terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Absolute paths of folders in which it may change and make files; missing ones are ignored.
    pub writable: Vec<PathBuf>,
    /// Whether it may change modes, times and other attributes of files, which the kernel cannot limit to folders.
    pub changes_attributes: bool,
    /// Absolute paths without symbolic links of files and folders whose content it may not read.
    pub hidden: Vec<PathBuf>,
}
