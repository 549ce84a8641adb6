//! Reads files and folders of git directories.

use std::fs;
use std::path::{Path, PathBuf};

use super::config::LONGEST;
use crate::listing::{entries, open_closed};

/// Reads a small regular file; reading a named pipe would block forever.
pub(super) fn read(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let is_usual = metadata.is_file() && metadata.len() < LONGEST;
    is_usual.then(|| fs::read_to_string(path).ok())?
}

/// Returns the directories of linked worktrees in a git directory.
pub(crate) fn worktrees(git: &Path) -> Vec<PathBuf> {
    folders(&git.join("worktrees"))
}

/// Returns the folders in a folder; links are none. Closed ones are opened up, since they are looked into next.
pub(super) fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = entries(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let opened = folders.map(|entry| {
        open_closed(&entry.path());
        entry.path()
    });
    opened.collect()
}
