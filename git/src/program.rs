//! The user's git.

use std::path::{Path, PathBuf};

use ah_conversation::Environment;

/// There is no git to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("git not found")]
pub struct NoGit;

/// Returns the program `git` in `PATH`, whose relative folders do not count: they would be the project's.
///
/// # Errors
///
/// If there is none.
pub fn program(environment: &Environment) -> Result<PathBuf, NoGit> {
    let path = environment.get("PATH").unwrap_or_default();
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let mut programs = folders.map(|folder| Path::new(folder).join("git"));
    programs.find(|program| program.is_file()).ok_or(NoGit)
}
