//! Symbolic links of a project to its own files and folders: what a link leads to has its name as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use ah_beneath::Folder;

use crate::copy::Entry;
use crate::tree::Tree;

/// Most names that are looked for: links can lead in circles.
const MAX_NAMES: usize = 64;

/// The links of a project, both ways, with relative paths.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// What each leads to.
    targets: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// The links to each file or folder.
    links: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl Links {
    pub(crate) fn of(top: &Folder, tree: &Tree) -> Self {
        let mut found = Self::default();
        for (path, status) in tree.0.iter().filter(|(_, status)| status.is_link()) {
            let Ok(Entry::Link(target)) = Entry::read(top, path, status) else {
                continue;
            };
            let around = path.parent().unwrap_or(Path::new(""));
            if let Some(target) = plain(&around.join(target)) {
                let links = found.links.entry(target.clone()).or_default();
                links.insert(path.clone());
                found.targets.insert(path.clone(), [target].into());
            }
        }
        found
    }

    /// Returns a path, and the paths that links lead it to.
    pub(crate) fn ends(&self, path: &Path) -> Vec<PathBuf> {
        followed(&self.targets, path)
    }

    /// Returns a path, and the names that it has through links.
    pub(crate) fn names(&self, path: &Path) -> Vec<PathBuf> {
        followed(&self.links, path)
    }
}

fn followed(ways: &BTreeMap<PathBuf, BTreeSet<PathBuf>>, path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut at = 0;
    while at < found.len() && !ways.is_empty() {
        let from = found[at].clone();
        for above in from.ancestors() {
            for to in ways.get(above).into_iter().flatten() {
                let rest = from.strip_prefix(above).unwrap_or(Path::new(""));
                let next: PathBuf = to.components().chain(rest.components()).collect();
                if found.len() < MAX_NAMES && !found.contains(&next) {
                    found.push(next);
                }
            }
        }
        at += 1;
    }
    found
}

/// Returns a relative path without `.` and `..`; `None` if it leaves the project.
pub(crate) fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}
