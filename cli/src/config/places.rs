//! Where things are: sessions, the user's own files, folders that are not written.

use std::path::PathBuf;

use ah_store::Sessions;

use super::Config;

/// The folder of a project's sessions, below the working directory.
pub const SESSIONS: &str = ".ah";

impl Config {
    /// The sessions of the working directory.
    pub fn sessions(&self) -> Sessions {
        Sessions::in_folder(self.environment.cwd().join(SESSIONS))
    }

    /// What `AH_PROTECT_DIRS` names, separated by colons.
    pub fn protected_folders(&self) -> Vec<PathBuf> {
        let list = self.environment.get("AH_PROTECT_DIRS").unwrap_or_default();
        list.split(':')
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
            .collect()
    }
}
