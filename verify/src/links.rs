//! Symbolic links of a project to its own files and folders: what a link leads to has its name as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use ah_beneath::Folder;

use crate::copy::Entry;
use crate::tree::Tree;

/// Most names that are looked for: links can lead in circles.
const MAX_NAMES: usize = 64;

/// The links of a project, both ways, with relative paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// What each leads to: nothing, if that is outside the project.
    targets: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    /// The links to each file or folder.
    links: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl Links {
    pub(crate) fn of(top: &Folder, tree: &Tree) -> Self {
        let mut found = Self::default();
        for (path, status) in tree.0.iter().filter(|(_, status)| status.is_link()) {
            if let Ok(entry) = Entry::read(top, path, status) {
                found.add(path, &entry);
            }
        }
        found
    }

    /// Adds what stands at a path, if it is a link.
    pub(crate) fn add(&mut self, path: &Path, entry: &Entry) {
        let Entry::Link(target) = entry else {
            return;
        };
        let around = path.parent().unwrap_or(Path::new(""));
        let targets = self.targets.entry(path.to_owned()).or_default();
        if let Some(target) = plain(&around.join(target)) {
            let links = self.links.entry(target.clone()).or_default();
            links.insert(path.to_owned());
            targets.insert(target);
        }
    }

    /// Returns the links that are followed on the way from a path to where it leads.
    pub(crate) fn way(&self, path: &Path) -> BTreeSet<PathBuf> {
        let ends = self.ends(path);
        let above = ends.iter().flat_map(|end| end.ancestors());
        let ways = above.filter(|above| self.targets.contains_key(*above));
        ways.map(Path::to_owned).collect()
    }

    /// Whether a link on a path leads out of the project, or to what is left out of it.
    pub(crate) fn leads_out(&self, path: &Path, tree: &Tree) -> bool {
        let mut targets = path.ancestors().filter_map(|above| self.targets.get(above));
        targets.any(|targets| !targets.iter().any(|target| tree.has(target)))
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
