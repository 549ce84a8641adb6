//! The files of a project as they are at one moment.
//!
//! In a repository these are all that git does not ignore. What nobody could tell from a result is left out everywhere:
//! compiled files beside their sources. So are folders that said of themselves, when the check was sealed, that they are a
//! cache. What was there then stays part of the tree for as long as it exists, whatever is ignored by now.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::{Folder, Status};
use ah_ignored::{Ignored, Sources, Taken};

use crate::dependencies::is_dependency;

/// Most files of a project, and most of their bytes together.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Folders that are no part of the project: of version control, of `ah`, and compiled files of Python.
const LEFT_OUT: [&str; 5] = [".git", ".hg", ".jj", ".ah", "__pycache__"];
/// Marks a folder as a cache (<https://bford.info/cachedir/>).
const CACHE: &str = "CACHEDIR.TAG";
/// Patterns of what git ignores in this working copy alone.
const EXCLUDE: &str = ".git/info/exclude";

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

/// What git ignored at the time of sealing: a folder's patterns are read when it is looked at first.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    ignored: Arc<Ignored>,
    /// The file with patterns that is no part of the project.
    exclude: Option<Status>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ignored: Arc::new(present_rules()),
            exclude: None,
        }
    }
}

impl Rules {
    /// Returns those of a project now; they count once [`Tree::sealed`] has looked at it.
    pub(crate) fn of(project: &Path) -> Self {
        Self {
            exclude: exclude(project),
            ..Self::default()
        }
    }

    /// Whether patterns that are no part of the project have changed since.
    pub(crate) fn have_changed(&self, project: &Path) -> bool {
        exclude(project) != self.exclude
    }
}

fn exclude(project: &Path) -> Option<Status> {
    let top = Folder::follow(project).ok()?;
    top.look(Path::new(EXCLUDE)).ok()?
}

fn present_rules() -> Ignored {
    Ignored::new(Sources {
        ignore: false,
        users: false,
        ..Sources::default()
    })
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
            rules: Rules::of(project),
        };
        let tree = Tree::sealed(project, &extent)?;
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
#[derive(Debug, Default)]
pub(crate) struct Tree(pub(crate) BTreeMap<PathBuf, Status>);

impl Tree {
    /// Looks at all files of `project` within this extent.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read, or there are too many files; the text says which.
    pub(crate) fn of(project: &Path, extent: &Extent) -> Result<Self, String> {
        Self::by(&Arc::new(present_rules()), project, extent)
    }

    /// The same, without what git ignored at the time of sealing: what only new patterns hide is there.
    pub(crate) fn sealed(project: &Path, extent: &Extent) -> Result<Self, String> {
        Self::by(&extent.rules.ignored, project, extent)
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
