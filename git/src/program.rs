//! The user's git, and what it is given to fetch with.

use std::path::{Path, PathBuf};

use ah_conversation::Environment;

/// Tokens that a credential helper of the user may need.
const TOKENS: [&str; 3] = ["GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN"];

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

/// Returns the variables of git for a fetch: those of commands and what the user's helpers log in with, and only these ways to a
/// repository, whatever a URL says.
pub fn fetch_variables(environment: &Environment) -> Vec<(String, String)> {
    let own = [
        ("GIT_ALLOW_PROTOCOL", "https:http:ssh:file"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
    ];
    let tokens = TOKENS
        .iter()
        .filter_map(|name| Some((*name, environment.get(name)?)));
    let mut variables: Vec<_> = environment.for_children().chain(tokens).collect();
    variables.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
    variables.extend(own);
    variables.sort_unstable();
    variables.dedup_by_key(|(name, _)| *name);
    variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
