//! The files of a project as they are at one moment.
//!
//! In a repository these are all that git does not ignore. What nobody could tell from a result is left out everywhere:
//! compiled files beside their sources. So are folders that said of themselves, when the check was sealed, that they are a
//! cache. What was there then stays part of the tree for as long as it exists, whatever is ignored by now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::{Folder, Status};
use ah_ignored::{Ignored, Patterns, Sources, Taken};
use sha2::{Digest as _, Sha256};

use crate::dependencies::is_dependency;

/// Most files of a project, and most of their bytes together.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Folders that are no part of the project: of version control, of `ah`, and compiled files of Python.
const LEFT_OUT: [&str; 5] = [".git", ".hg", ".jj", ".ah", "__pycache__"];
/// Marks a folder as a cache (<https://bford.info/cachedir/>).
const CACHE: &str = "CACHEDIR.TAG";

/// What is left out of a project, and what is not, as of the time of sealing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extent {
    /// Absolute paths of files that nobody may read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Absolute paths of caches.
    pub(crate) caches: BTreeSet<PathBuf>,
    /// Files that were there, relative to the project.
    pub(crate) known: BTreeSet<PathBuf>,
    pub(crate) rules: Rules,
}

/// What git ignored at the time of sealing. What is new since brings no patterns of its own.
#[derive(Debug, Clone)]
pub(crate) struct Rules(Arc<Ignored>);

impl Default for Rules {
    fn default() -> Self {
        Self::of(BTreeMap::new())
    }
}

impl Rules {
    /// Returns those of these patterns, by folder.
    pub(crate) fn of(patterns: BTreeMap<PathBuf, Patterns>) -> Self {
        Self(Arc::new(Ignored::settled(sources(), patterns)))
    }

    /// Returns the patterns of each folder that had some.
    pub(crate) fn patterns(&self) -> BTreeMap<PathBuf, Patterns> {
        self.0.patterns()
    }
}

/// The files with patterns that have a say.
fn sources() -> Sources {
    Sources {
        ignore: false,
        users: false,
        ..Sources::default()
    }
}

impl Extent {
    /// Looks at a project for the first time.
    ///
    /// # Errors
    ///
    /// As for [`Tree::of`].
    pub(crate) fn first(project: &Path, hidden: Vec<PathBuf>) -> Result<(Self, Tree), String> {
        let ignored = Arc::new(Ignored::new(Sources::default()));
        let walk = ignored.walk(project, taken()).build();
        let tags = walk.flatten().filter(|entry| entry.file_name() == CACHE);
        let caches = tags.filter_map(|tag| tag.path().parent().map(Path::to_owned));
        let mut extent = Self {
            hidden,
            caches: caches.filter(|path| path != project).collect(),
            known: BTreeSet::new(),
            rules: Rules::default(),
        };
        let present = Arc::new(Ignored::new(sources()));
        let tree = Tree::by(&present, project, &extent)?;
        extent.rules = Rules::of(present.patterns());
        extent.known = tree.0.keys().cloned().collect();
        Ok((extent, tree))
    }
}

/// Files with any name count.
fn taken() -> Taken {
    Taken {
        hidden: true,
        ..Taken::default()
    }
}

/// Files and symbolic links by their paths relative to the project.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<PathBuf, Status>);

impl Tree {
    /// Looks at all files of `project` within this extent.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read, or there are too many files; the text says which.
    pub(crate) fn of(project: &Path, extent: &Extent) -> Result<Self, String> {
        Self::by(&Arc::new(Ignored::new(sources())), project, extent)
    }

    /// The same, without what git ignored at the time of sealing: what only new patterns hide is there.
    pub(crate) fn sealed(project: &Path, extent: &Extent) -> Result<Self, String> {
        Self::by(&extent.rules.0, project, extent)
    }

    /// Returns what of [`Self::sealed`] is not in this tree, which is one of [`Self::of`]: what only new patterns hide.
    ///
    /// # Errors
    ///
    /// As for [`Tree::of`].
    pub(crate) fn hidden(&self, project: &Path, extent: &Extent) -> Result<Self, String> {
        let mut all = Self::sealed(project, extent)?;
        all.0.retain(|path, _| !self.0.contains_key(path));
        Ok(all)
    }

    /// Returns a digest of another one and of what is known of these files without their contents; the other one if there are
    /// none.
    pub(crate) fn digest(&self, other: [u8; 32]) -> [u8; 32] {
        if self.0.is_empty() {
            return other;
        }
        let mut hash = Sha256::new();
        hash.update(other);
        for (path, status) in &self.0 {
            hash.update(path.as_os_str().as_encoded_bytes());
            hash.update([0]);
            hash.update(format!("{status:?}"));
        }
        hash.finalize().into()
    }

    fn by(ignored: &Arc<Ignored>, project: &Path, extent: &Extent) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot read the project: {error}");
        let top = Folder::follow(project).map_err(|error| failed(&error))?;
        let all = taken();
        let mut walk = ignored.walk(project, all.clone());
        walk.filter_entry({
            let (caches, ignored) = (extent.caches.clone(), ignored.clone());
            move |entry| {
                let name = entry.file_name();
                let is_left_out = LEFT_OUT.iter().any(|known| name == *known);
                let is_cache = caches.contains(entry.path());
                !(is_left_out || is_cache || is_dependency(name, entry.depth()))
                    && ignored.takes(entry, &all)
            }
        });
        let (mut files, mut bytes) = (BTreeMap::new(), 0_u64);
        let mut paths = extent.known.clone();
        for entry in walk.build() {
            let entry = entry.map_err(|error| failed(&error))?;
            let is_file = entry.file_type().is_some_and(|kind| !kind.is_dir());
            if let (true, Ok(below)) = (is_file, entry.path().strip_prefix(project)) {
                paths.insert(below.to_owned());
            }
        }
        let is_hidden = |path: &PathBuf| {
            let path = project.join(path);
            extent.hidden.iter().any(|hidden| path.starts_with(hidden))
        };
        for path in paths.into_iter().filter(|path| !is_hidden(path)) {
            // It may be gone by now, or lead elsewhere.
            let Ok(Some(status)) = top.look(&path) else {
                continue;
            };
            if !status.is_file() && !status.is_link() {
                continue;
            }
            bytes = bytes.saturating_add(status.length);
            files.insert(path, status);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Makes files of these texts, with the folders around them.
    fn write(top: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// However a run hides a file from git: it is known, also to those who continue the session.
    #[test]
    fn what_is_hidden_from_git_is_known() {
        for hiding in [
            &[(".gitignore", "new")][..],
            &[(".git/info/exclude", "new")],
            &[("a/.gitignore", "*")],
            &[("b/.gitignore", "*")],
            &[("b/.git/info/exclude", "new")],
            &[(".git", "gitdir: c"), ("c/info/exclude", "new")],
            &[("a/.jj/x", ""), ("a/.gitignore", "new")],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            write(&top, &[("a/.gitignore", "made")]);
            let is_linked = hiding[0].0 == ".git";
            if !is_linked {
                write(&top, &[(".git/HEAD", "")]);
            }
            let (extent, _) = Extent::first(&top, Vec::new()).unwrap();
            write(&top, &[("a/made", ""), ("a/new", ""), ("b/new", "")]);
            write(&top, hiding);
            let tree = Tree::of(&top, &extent).unwrap();
            let hidden = tree.hidden(&top, &extent).unwrap();
            let is_new = |path: &PathBuf| path.ends_with("new");
            assert!(hidden.0.keys().any(is_new), "{hiding:?}: {hidden:?}");
            // What was ignored then still is.
            let is_made = hidden.0.contains_key(Path::new("a/made"));
            assert_eq!(is_made, is_linked, "{hidden:?}");
            // Each counts, whether it is hidden or not.
            let shown = tree.0.keys().chain(hidden.0.keys());
            assert_eq!(shown.filter(|path| is_new(path)).count(), 2, "{hiding:?}");
            let continued = Extent {
                rules: Rules::of(extent.rules.patterns()),
                ..extent.clone()
            };
            assert_eq!(tree.hidden(&top, &continued).unwrap(), hidden);
        }
    }
}
