//! The files of a project as they are at one moment.
//!
//! In a repository these are all that git does not ignore. What nobody could tell from a result is left out everywhere:
//! compiled files of Python beside their sources. So are folders of version control and of dependencies, and those that said of
//! themselves, when the check was sealed, that they are a cache. What was there then stays part of the tree for as long as it
//! exists, whatever is ignored by now.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::{Folder, Status};
use ah_ignored::{Ignored, Patterns, Sources, Taken};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::compiled::is_compiled;
use crate::dependencies::is_dependency;

/// Most files of a project, and most of their bytes together.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Folders that are no part of the project: of version control, and of `ah`. No repository has files of the first.
const LEFT_OUT: [&str; 4] = [".git", ".hg", ".jj", ".ah"];
/// Marks a folder as a cache (<https://bford.info/cachedir/>).
const CACHE: &str = "CACHEDIR.TAG";

/// What is left out of a project, and what is not, as of the time of sealing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extent {
    /// Absolute paths of files that nobody may read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Absolute paths of folders that are left out: caches, dependencies, those of version control.
    pub(crate) left_out: BTreeSet<PathBuf>,
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
        let present = Arc::new(Ignored::new(sources()));
        let mut extent = Self {
            hidden,
            ..Self::default()
        };
        let (mut paths, mut left_out) = walked(&present, project, &extent, Seen::Present)?;
        let tags = paths.iter().filter(|path| path.ends_with(CACHE));
        let caches = tags.filter_map(|tag| tag.parent().map(Path::to_owned));
        let caches: BTreeSet<_> = caches.filter(|path| *path != Path::new("")).collect();
        paths.retain(|path| !path.ancestors().any(|above| caches.contains(above)));
        left_out.extend(caches.iter().map(|cache| project.join(cache)));
        extent.left_out = left_out;
        let tree = Tree::at(paths, project, &extent)?;
        extent.rules = Rules::of(present.patterns());
        extent.known = tree.0.keys().cloned().collect();
        Ok((extent, tree))
    }
}

/// How much of a project is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Without what is left out by its name.
    Present,
    /// With what has such a name and was not there at the time of sealing.
    New,
}

/// Returns the files of a project that are not ignored, relative to it, and the folders that are left out by their names.
fn walked(
    ignored: &Arc<Ignored>,
    project: &Path,
    extent: &Extent,
    seen: Seen,
) -> Result<(BTreeSet<PathBuf>, BTreeSet<PathBuf>), String> {
    let all = taken();
    let mut walk = ignored.walk(project, all.clone());
    let left_out: Arc<Mutex<BTreeSet<PathBuf>>> = Arc::default();
    walk.filter_entry({
        let (known, ignored, left_out) =
            (extent.left_out.clone(), ignored.clone(), left_out.clone());
        move |entry| {
            let (path, name) = (entry.path(), entry.file_name());
            let is_known = known.contains(path);
            if is_known || is_left_out(name, entry.depth(), seen) {
                let mut left_out = left_out.lock();
                left_out.insert(path.to_owned());
                return false;
            }
            ignored.takes(entry, &all)
        }
    });
    let mut paths = BTreeSet::new();
    for entry in walk.build() {
        let entry = entry.map_err(|error| unreadable(&error))?;
        let is_file = entry.file_type().is_some_and(|kind| !kind.is_dir());
        if let (true, Ok(below)) = (is_file, entry.path().strip_prefix(project)) {
            paths.insert(below.to_owned());
        }
    }
    let left_out = std::mem::take(&mut *left_out.lock());
    Ok((paths, left_out))
}

/// Whether something with this name, so deep in a project, is left out.
fn is_left_out(name: &OsStr, depth: usize, seen: Seen) -> bool {
    let is_always = name == LEFT_OUT[0] || depth == 1 && name == LEFT_OUT[3];
    let is_named = LEFT_OUT.iter().any(|known| name == *known) || is_dependency(name, depth);
    depth > 0 && (is_always || is_named && seen == Seen::Present)
}

fn unreadable(error: &dyn std::fmt::Display) -> String {
    format!("cannot read the project: {error}")
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
        let present = Arc::new(Ignored::new(sources()));
        let (paths, _) = walked(&present, project, extent, Seen::Present)?;
        Self::at(paths, project, extent)
    }

    /// The same, without what git ignored at the time of sealing: what only new patterns or names hide is there.
    pub(crate) fn sealed(project: &Path, extent: &Extent) -> Result<Self, String> {
        let (paths, _) = walked(&extent.rules.0, project, extent, Seen::New)?;
        Self::at(paths, project, extent)
    }

    /// Returns what of [`Self::sealed`] is not in this tree, which is one of [`Self::of`]: what only new patterns or names hide.
    ///
    /// # Errors
    ///
    /// As for [`Tree::of`].
    pub(crate) fn hidden(&self, project: &Path, extent: &Extent) -> Result<Self, String> {
        let mut all = Self::sealed(project, extent)?;
        all.0.retain(|path, _| !self.0.contains_key(path));
        Ok(all)
    }

    /// Whether a file is at this path, or below it.
    pub(crate) fn has(&self, path: &Path) -> bool {
        let next = self.0.range(path.to_owned()..).next();
        next.is_some_and(|(found, _)| found.starts_with(path))
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

    /// Looks at these files, and at those that were known at the time of sealing.
    fn at(mut paths: BTreeSet<PathBuf>, project: &Path, extent: &Extent) -> Result<Self, String> {
        let top = Folder::follow(project).map_err(|error| unreadable(&error))?;
        let (mut files, mut bytes) = (BTreeMap::new(), 0_u64);
        paths.extend(extent.known.iter().cloned());
        let is_hidden = |path: &PathBuf| {
            let path = project.join(path);
            extent.hidden.iter().any(|hidden| path.starts_with(hidden))
        };
        for path in paths.into_iter().filter(|path| !is_hidden(path)) {
            // It may be gone by now, or lead elsewhere.
            let Ok(Some(status)) = top.look(&path) else {
                continue;
            };
            let is_meant = status.is_file() && !is_compiled(&top, &path) || status.is_link();
            if !is_meant {
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

    /// What only looks like compiled is a file like any other.
    #[test]
    fn what_is_not_compiled_counts() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let compiled = "\u{1}\u{d}\r\n";
        write(&top, &[("a/m.py", "")]);
        for (path, text, is_seen) in [
            ("a/__pycache__/m.cpython-312.pyc", compiled, false),
            ("a/__pycache__/m.cpython-312.pyc.140234", compiled, false),
            (
                "a/__pycache__/m.cpython-312-pytest-8.0.pyc",
                compiled,
                false,
            ),
            ("a/__pycache__/m.cpython-312.pyc", "text", true),
            ("a/__pycache__/m.pyc.sh", compiled, true),
            ("a/__pycache__/m.pyc.d", compiled, true),
            ("a/__pycache__/other.cpython-312.pyc", compiled, true),
            ("__pycache__/m.cpython-312.pyc", compiled, true),
            ("a/m.cpython-312.pyc", compiled, true),
        ] {
            write(&top, &[(path, text)]);
            let tree = Tree::of(&top, &Extent::default()).unwrap();
            let is_there = tree.0.contains_key(Path::new(path));
            assert_eq!(is_there, is_seen, "{path}: {text:?}");
            fs::remove_file(top.join(path)).unwrap();
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
