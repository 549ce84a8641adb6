//! Folders of dependencies, whose programs the check may use: they are not copied, and must be as they were when the
//! session began.

use std::path::{Path, PathBuf};

use ah_beneath::{Folder, Status};
use ignore::WalkBuilder;
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

/// Names of such folders at the top of a project.
pub(crate) const NAMES: [&str; 4] = ["node_modules", ".venv", "venv", "vendor"];
/// Folders in them that are written by each use. The check does not read them (`VARIABLES`).
const CACHES: [&str; 4] = ["__pycache__", ".cache", ".vite", ".vitest"];

/// The folders of a project, each with what stands for its content.
#[derive(Debug)]
pub(crate) struct Dependencies(Vec<(PathBuf, [u8; 32])>);

/// Returns the folders of dependencies of a project.
pub fn dependency_folders(project: &Path) -> Vec<PathBuf> {
    let folders = NAMES.iter().map(|name| project.join(name));
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_dir());
    folders.filter(is_folder).collect()
}

impl Dependencies {
    pub(crate) fn of(project: &Path) -> Self {
        let folders = dependency_folders(project).into_iter();
        Self(folders.map(|path| (path.clone(), content(&path))).collect())
    }

    /// Returns the folders.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.0.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Returns the first folder that has changed.
    pub(crate) fn changed(&self) -> Option<PathBuf> {
        let changed = self
            .0
            .iter()
            .find(|(path, before)| content(path) != *before);
        changed.map(|(path, _)| path.clone())
    }
}

/// Returns a value that changes with the folder: with its names, and with the time of each file's last change, which nobody
/// can set.
fn content(folder: &Path) -> [u8; 32] {
    let mut hash = Sha256::new();
    let Ok(top) = Folder::follow(folder) else {
        return hash.finalize().into();
    };
    let mut walk = WalkBuilder::new(folder);
    walk.standard_filters(false)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(|entry| !CACHES.iter().any(|name| entry.file_name() == *name));
    for entry in walk.build().flatten() {
        let Ok(below) = entry.path().strip_prefix(folder) else {
            continue;
        };
        let Ok(Some(status)) = top.look(below) else {
            continue;
        };
        // Of a folder, its names count: caches come and go in it.
        if status.kind != FileType::Directory {
            hash.update(below.as_os_str().as_encoded_bytes());
            hash.update(stamp(&status).as_bytes());
        }
    }
    hash.finalize().into()
}

fn stamp(status: &Status) -> String {
    let Status {
        mode,
        identity,
        length,
        changed,
        ..
    } = status;
    format!("\0{mode} {identity:?} {length} {changed:?}\n")
}
