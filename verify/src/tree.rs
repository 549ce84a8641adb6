//! The files of a project as they are at one moment.
//!
//! In a repository these are all that git does not ignore. What nobody could tell from a result is left out everywhere:
//! compiled files beside their sources, and folders that say of themselves that they are a cache.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ah_beneath::{Folder, Status};
use ignore::WalkBuilder;

use crate::dependencies::NAMES;

/// Most files of a project, and most of their bytes together.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Folders that are no part of the project: of version control, of `ah`, and compiled files of Python.
const LEFT_OUT: [&str; 5] = [".git", ".hg", ".jj", ".ah", "__pycache__"];
/// Marks a folder as a cache (<https://bford.info/cachedir/>).
const CACHE: &str = "CACHEDIR.TAG";

/// Files and symbolic links by their paths relative to the project.
#[derive(Debug, Default)]
pub(crate) struct Tree(pub(crate) BTreeMap<PathBuf, Status>);

impl Tree {
    /// Looks at all files of `project` but those in `hidden`.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read, or there are too many files; the text says which.
    pub(crate) fn of(project: &Path, hidden: &[PathBuf]) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot read the project: {error}");
        let top = Folder::follow(project).map_err(|error| failed(&error))?;
        let mut walk = WalkBuilder::new(project);
        walk.hidden(false)
            .ignore(false)
            .git_global(false)
            .filter_entry(|entry| {
                let name = entry.file_name();
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                let is_dependency = entry.depth() == 1 && NAMES.iter().any(|known| name == *known);
                let is_cache = || entry.depth() > 0 && entry.path().join(CACHE).is_file();
                let is_left_out = LEFT_OUT.iter().any(|known| name == *known);
                !(is_left_out || is_dependency || is_folder && is_cache())
            });
        let (mut files, mut bytes) = (BTreeMap::new(), 0_u64);
        for entry in walk.build() {
            let entry = entry.map_err(|error| failed(&error))?;
            let path = entry.path();
            let Ok(below) = path.strip_prefix(project) else {
                continue;
            };
            let is_file = entry.file_type().is_some_and(|kind| !kind.is_dir());
            if !is_file || hidden.iter().any(|hidden| path.starts_with(hidden)) {
                continue;
            }
            // It may be gone by now.
            let Ok(Some(status)) = top.look(below) else {
                continue;
            };
            if !status.is_file() && !status.is_link() {
                continue;
            }
            bytes = bytes.saturating_add(status.length);
            files.insert(below.to_owned(), status);
            if files.len() > MAX_FILES || bytes > MAX_BYTES {
                return Err(format!(
                    "the project has more than {MAX_FILES} files or {} GiB, which is too much to check in a copy",
                    MAX_BYTES >> 30
                ));
            }
        }
        Ok(Self(files))
    }
}
