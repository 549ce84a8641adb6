//! Folders of dependencies, whose programs the check may use: they are not copied, and must be as they were when the check
//! was sealed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ah_beneath::{Folder, Status};
use ah_ignored::walk_all;
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

/// The name of such folders anywhere in a project.
const ANYWHERE: &str = "node_modules";
/// Names of such folders at the top of a project.
const AT_THE_TOP: [&str; 3] = [".venv", "venv", "vendor"];
/// Folders in them that are written by each use. The check does not read them (`VARIABLES`).
const CACHES: [&str; 4] = ["__pycache__", ".cache", ".vite", ".vitest"];

/// The folders of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dependencies(pub(crate) Vec<Dependency>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// Path in the project: the folder, or a link to it.
    pub(crate) path: PathBuf,
    /// The folder itself.
    pub(crate) folder: PathBuf,
    /// Stands for its content when the check was sealed.
    pub(crate) content: [u8; 32],
}

/// Whether something with this name, so deep in a project, is of dependencies.
pub(crate) fn is_dependency(name: &OsStr, depth: usize) -> bool {
    name == ANYWHERE || depth == 1 && AT_THE_TOP.iter().any(|known| name == *known)
}

/// Returns the folders of dependencies of a project: each as it is called there, and where it is.
fn found(project: &Path) -> Vec<(PathBuf, PathBuf)> {
    let walk = walk_all(project)
        .filter_entry(|entry| {
            let parent = entry.path().parent().and_then(Path::file_name);
            let is_inside = parent.is_some_and(|name| is_dependency(name, entry.depth() - 1));
            entry.file_name() != ".git" && !(entry.depth() > 1 && is_inside)
        })
        .build();
    let entries = walk.flatten();
    let named = entries.filter(|entry| is_dependency(entry.file_name(), entry.depth()));
    named
        .filter_map(|entry| {
            let folder = fs::canonicalize(entry.path()).ok()?;
            folder.is_dir().then(|| (entry.into_path(), folder))
        })
        .collect()
}

impl Dependencies {
    pub(crate) fn of(project: &Path) -> Self {
        let found = found(project).into_iter();
        let dependencies = found.map(|(path, folder)| Dependency {
            content: content(&folder),
            path,
            folder,
        });
        Self(dependencies.collect())
    }

    /// Returns each path in the project, and the folder that it stands for.
    pub(crate) fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let links = self.0.iter().map(|it| (it.path.clone(), it.folder.clone()));
        links.collect()
    }

    /// Returns the folders.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.0.iter().map(|it| it.folder.clone()).collect()
    }

    /// Returns the first folder that has changed.
    pub(crate) fn changed(&self) -> Option<PathBuf> {
        let changed = self.0.iter().find(|it| content(&it.folder) != it.content);
        changed.map(|it| it.path.clone())
    }
}

/// Returns a value that changes with the folder: with its names, and with the time of each file's last change, which nobody
/// can set.
fn content(folder: &Path) -> [u8; 32] {
    let mut hash = Sha256::new();
    let Ok(top) = Folder::follow(folder) else {
        return hash.finalize().into();
    };
    let mut walk = walk_all(folder);
    walk.sort_by_file_name(OsStr::cmp)
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
        // Devices are numbered anew when the machine starts.
        identity: (_, inode),
        length,
        changed,
        ..
    } = status;
    format!("\0{mode} {inode} {length} {changed:?}\n")
}
