//! Protected files: they decide what programs may do to the user, so no mode lets a model write them without asking.

use std::path::Path;

/// Folders, anywhere, whose files are executed or configure what is executed.
const FOLDERS: [&str; 7] = [
    ".git", ".ah", ".claude", ".agents", ".vscode", ".idea", ".husky",
];
/// Files that shells, git and agents execute or obey.
const FILES: [&str; 14] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".gitconfig",
    ".gitmodules",
    ".mcp.json",
    ".claude.json",
    ".ripgreprc",
    ".envrc",
];

/// Whether a path is protected. The case is ignored, as some file systems do.
pub fn is_protected(path: &Path) -> bool {
    let is = |part: &std::ffi::OsStr, names: &[&str]| {
        let part = part.to_string_lossy();
        names.iter().any(|name| part.eq_ignore_ascii_case(name))
    };
    path.iter().any(|part| is(part, &FOLDERS))
        || path.file_name().is_some_and(|name| is(name, &FILES))
}
