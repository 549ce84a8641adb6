//! The folders of a project, and the entries in them that programs obey. A folder is read again only if it has changed,
//! so that looking before and after each command is cheap.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};

/// Largest number of folders that are read at once.
const FOLDERS: usize = 1000;
/// Folders whose content is not looked at: what is in them is not worked on.
const PASSED_BY: [&str; 5] = [".git", "node_modules", "target", ".venv", "__pycache__"];
/// A folder that was changed less than this many nanoseconds ago may change again at the same time, as its file system
/// counts.
const TICK: i128 = 100_000_000;
/// How a folder is opened to look at those in it.
const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Folders of a project.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    at: HashMap<PathBuf, Arc<Folder>>,
    /// Whether all folders were read.
    pub is_complete: bool,
}

#[derive(Debug)]
struct Folder {
    /// `None` if it may have changed since.
    stamp: Option<Stamp>,
    folders: Vec<OsString>,
    found: Vec<Found>,
}

/// Time of a folder's last change in seconds and nanoseconds, and its number.
type Stamp = (i64, i64, u64);

/// Entry that programs obey.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Found {
    /// `.git`: a folder, a file or a link.
    Git(PathBuf),
    /// A folder that git takes for a repository without a work tree.
    Bare(PathBuf),
    /// A name that steers another program.
    Steering(PathBuf),
}

impl Found {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Git(path) | Self::Bare(path) | Self::Steering(path) => path,
        }
    }
}

impl Folders {
    /// Reads the folders of a project. `steering` are the names that steer other programs.
    pub fn read(root: &Path, steering: &[String]) -> Self {
        Self::default().refresh(root, steering, &mut |_| true)
    }

    /// Returns the folders as they are now. Folders that were there before and were not read then are not read now, or
    /// their content would count as new.
    pub fn read_again(&self, root: &Path, steering: &[String]) -> Self {
        self.refresh(root, steering, &mut |folder| {
            let around = folder.parent().and_then(|around| self.at.get(around));
            let name = folder.file_name().unwrap_or_default();
            !around.is_some_and(|around| around.folders.iter().any(|other| other == name))
        })
    }

    /// Returns what was found in all of them.
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        self.at.values().flat_map(|folder| &folder.found)
    }

    fn refresh(
        &self,
        root: &Path,
        steering: &[String],
        is_new: &mut dyn FnMut(&Path) -> bool,
    ) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        let mut folders = Self {
            at: HashMap::with_capacity(self.at.len()),
            is_complete: true,
        };
        let mut reads = 0;
        let mut waiting: VecDeque<_> = { stamp_of(CWD, root.as_os_str()).into_iter() }
            .map(|stamp| (root.to_owned(), stamp))
            .collect();
        while let Some((path, stamp)) = waiting.pop_front() {
            let before = self.at.get(&path);
            let folder = match before {
                Some(folder) if folder.stamp == Some(stamp) => folder.clone(),
                None if !is_new(&path) => {
                    folders.is_complete = false;
                    continue;
                }
                None if reads == FOLDERS => {
                    folders.is_complete = false;
                    continue;
                }
                _ => {
                    reads += 1;
                    let changed = i128::from(stamp.0) * 1_000_000_000 + i128::from(stamp.1);
                    let is_settled = now - changed > TICK;
                    Arc::new(Folder::read(&path, is_settled.then_some(stamp), steering))
                }
            };
            // Relative to an open folder: each costs the kernel one step then.
            if !folder.folders.is_empty()
                && let Ok(opened) = openat(CWD, &path, FOLDER, Mode::empty())
            {
                waiting.extend(folder.folders.iter().filter_map(|name| {
                    let found = stamp_of(&opened, name)?;
                    Some((path.join(name), found))
                }));
            }
            folders.at.insert(path, folder);
        }
        folders
    }
}

/// Returns the stamp of a folder; `None` if there is none of this name.
fn stamp_of(around: impl AsFd, name: &OsStr) -> Option<Stamp> {
    let stat = statat(around, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    // Unlike the time of modification, that of change cannot be set.
    let stamp = (stat.st_ctime, stat.st_ctime_nsec as _, stat.st_ino);
    FileType::from_raw_mode(stat.st_mode)
        .is_dir()
        .then_some(stamp)
}

impl Folder {
    fn read(path: &Path, stamp: Option<(i64, i64, u64)>, steering: &[String]) -> Self {
        let mut folder = Self {
            stamp,
            folders: Vec::new(),
            found: Vec::new(),
        };
        let mut of_git = Vec::new();
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is = |other: &&str| name == **other;
            if name == ".git" {
                folder.found.push(Found::Git(entry.path()));
            } else if steering.iter().any(|other| name == **other) {
                folder.found.push(Found::Steering(entry.path()));
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !PASSED_BY.iter().any(is)
            {
                folder.folders.push(name.clone());
            }
            if ["HEAD", "objects", "refs", "commondir"].iter().any(is) {
                of_git.push(name);
            }
        }
        let has = |name: &str| of_git.iter().any(|other| other == OsStr::new(name));
        if has("HEAD") && (has("commondir") || (has("objects") && has("refs"))) {
            folder.found.push(Found::Bare(path.to_owned()));
        }
        folder
    }
}
