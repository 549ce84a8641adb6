//! Which files with patterns have a say.

use std::path::PathBuf;

/// Maximum size of a file with patterns.
pub const MAX_BYTES: u64 = 256 * 1024;

/// The files that have a say.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Whether `.ignore` counts beside `.gitignore`.
    pub ignore: bool,
    /// Whether the user's own patterns for all repositories count (`core.excludesFile`).
    pub users: bool,
    /// Whether those of git count outside of repositories, too.
    pub without_git: bool,
    /// The folder above which nothing counts; `None` for all above.
    pub top: Option<PathBuf>,
}

impl Default for Sources {
    /// All that ripgrep obeys.
    fn default() -> Self {
        Self {
            ignore: true,
            users: true,
            without_git: false,
            top: None,
        }
    }
}
