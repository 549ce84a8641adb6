//! The user's git.

use std::path::{Path, PathBuf};

use ah_config::Error;
use ah_conversation::Environment;

/// Returns the program `git` in `PATH`, whose relative folders do not count: they would be the project's.
pub(crate) fn program(environment: &Environment) -> Option<PathBuf> {
    let path = environment.get("PATH").unwrap_or_default();
    let mut folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.find_map(|folder| {
        let program = Path::new(folder).join("git");
        program.is_file().then_some(program)
    })
}

/// Returns the same program.
///
/// # Errors
///
/// If there is none.
pub(crate) fn required(environment: &Environment) -> Result<PathBuf, Error> {
    program(environment)
        .ok_or_else(|| Error::failure("git not found").hint("install it, or put it on PATH"))
}
