//! The folders of a project, and the entries in them that programs obey. A folder is read again only if it has changed,
//! so that looking before and after each command is cheap.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::listing::{is_closed, is_out_of_reach, open_up};
use crate::protected::OF_OTHERS;

/// Largest number of folders that are looked at in a project as it is found. Those that appear later are all looked at:
/// who makes many would otherwise choose what is not.
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
    /// Folders beyond the limit, when the project was read first. They are not read later either, or what is in them
    /// would count as new.
    left_out: HashSet<PathBuf>,
}

#[derive(Debug)]
struct Folder {
    /// `None` if it may have changed since.
    stamp: Option<Stamp>,
    folders: Vec<OsString>,
    found: Vec<Found>,
}

/// How folders are looked at.
#[derive(PartialEq, Eq)]
enum Manner {
    /// As they are found: up to a limit, and nothing is touched.
    First,
    /// To see what has changed.
    Again,
}

/// A folder, seen from outside.
struct Sight {
    stamp: Stamp,
    mode: u32,
    owner: u32,
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
    /// A folder that cannot be looked into.
    Closed(PathBuf),
}

impl Found {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Git(path) | Self::Bare(path) | Self::Steering(path) | Self::Closed(path) => path,
        }
    }
}

impl Folders {
    /// Reads the folders of a project. `steering` are the names that steer other programs.
    pub fn read(root: &Path, steering: &[String]) -> Self {
        Self::default().refresh(root, steering, &Manner::First)
    }

    /// Returns the folders as they are now: all but those that were left out before. Those of this user that have changed
    /// and that nobody can list or search are opened up.
    pub fn read_again(&self, root: &Path, steering: &[String]) -> Self {
        self.refresh(root, steering, &Manner::Again)
    }

    /// Returns folders in which `found` was found once, to be read again. `left_out` are those that were not looked at.
    pub fn recorded(
        root: &Path,
        found: impl IntoIterator<Item = Found>,
        left_out: HashSet<PathBuf>,
    ) -> Self {
        let all = Folder {
            stamp: None,
            folders: Vec::new(),
            found: found.into_iter().collect(),
        };
        Self {
            at: HashMap::from([(root.to_owned(), Arc::new(all))]),
            left_out,
        }
    }

    /// Returns the folders that are not looked at.
    pub fn left_out(&self) -> impl Iterator<Item = &PathBuf> {
        self.left_out.iter()
    }

    /// Returns what was found in all of them.
    pub fn found(&self) -> impl Iterator<Item = &Found> {
        self.at.values().flat_map(|folder| &folder.found)
    }

    /// Returns whether all folders were read.
    pub fn is_complete(&self) -> bool {
        self.left_out.is_empty()
    }

    fn refresh(&self, root: &Path, steering: &[String], manner: &Manner) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        let mut folders = Self {
            at: HashMap::with_capacity(self.at.len()),
            left_out: HashSet::new(),
        };
        let user = geteuid().as_raw();
        let mut waiting: VecDeque<_> = { Sight::of(CWD, root.as_os_str()).into_iter() }
            .map(|sight| (root.to_owned(), sight))
            .collect();
        while let Some((path, sight)) = waiting.pop_front() {
            let is_too_many = *manner == Manner::First && folders.at.len() >= FOLDERS;
            if is_too_many || self.left_out.contains(&path) {
                folders.left_out.insert(path);
                continue;
            }
            let folder = match self.at.get(&path) {
                Some(folder) if folder.stamp == Some(sight.stamp) => folder.clone(),
                _ => {
                    let stamp = sight.stamp;
                    let changed = i128::from(stamp.0) * 1_000_000_000 + i128::from(stamp.1);
                    let mut is_settled = now - changed > TICK;
                    if *manner == Manner::Again
                        && sight.is_closed_to(user)
                        && is_out_of_reach(&path)
                    {
                        // If it fails, it shows when the folder is read.
                        let _ = open_up(&path);
                        is_settled = false;
                    }
                    Arc::new(Folder::read(&path, is_settled.then_some(stamp), steering))
                }
            };
            // Relative to an open folder: each costs the kernel one step then.
            if !folder.folders.is_empty()
                && let Ok(opened) = openat(CWD, &path, FOLDER, Mode::empty())
            {
                waiting.extend(folder.folders.iter().filter_map(|name| {
                    let sight = Sight::of(&opened, name)?;
                    Some((path.join(name), sight))
                }));
            }
            folders.at.insert(path, folder);
        }
        folders
    }
}

impl Sight {
    /// Looks at a folder; `None` if there is none of this name.
    fn of(around: impl AsFd, name: &OsStr) -> Option<Self> {
        let stat = statat(around, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let sight = Self {
            // Unlike the time of modification, that of change cannot be set.
            stamp: (stat.st_ctime, stat.st_ctime_nsec as _, stat.st_ino),
            mode: stat.st_mode,
            owner: stat.st_uid,
        };
        FileType::from_raw_mode(stat.st_mode)
            .is_dir()
            .then_some(sight)
    }

    /// Returns whether the folder is this user's, who lacks the rights to look into it.
    fn is_closed_to(&self, user: u32) -> bool {
        self.owner == user && is_closed(self.mode)
    }
}

impl Folder {
    fn read(path: &Path, stamp: Option<(i64, i64, u64)>, steering: &[String]) -> Self {
        let mut folder = Self {
            stamp,
            folders: Vec::new(),
            found: Vec::new(),
        };
        let mut of_git = Vec::new();
        let entries = fs::read_dir(path);
        if let Err(error) = &entries
            && [Some(Errno::ACCESS), Some(Errno::NAMETOOLONG)]
                .contains(&Errno::from_io_error(error))
        {
            folder.found.push(Found::Closed(path.to_owned()));
        }
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is = |other: &&str| name == **other;
            if name == ".git" {
                folder.found.push(Found::Git(entry.path()));
            } else if steering.iter().any(|other| name == **other) {
                folder.found.push(Found::Steering(entry.path()));
            } else {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let path = entry.path();
                let of_others = of_others(&path, is_folder);
                folder.found.extend(of_others.map(Found::Steering));
                if is_folder && !PASSED_BY.iter().any(is) {
                    folder.folders.push(name.clone());
                }
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

/// Returns the files of a repository of another version control that stand, or may come, at a path or below it. What is no
/// folder may lead to another repository as a whole.
fn of_others(path: &Path, is_folder: bool) -> impl Iterator<Item = PathBuf> {
    OF_OTHERS.into_iter().filter_map(move |file| {
        let mut above = Path::new(file).ancestors().skip(1);
        let reached = above.find(|above| !above.as_os_str().is_empty() && path.ends_with(above))?;
        let rest = Path::new(file).strip_prefix(reached).ok()?;
        match is_folder {
            // Those of the outermost folder are its own.
            true => (reached.components().count() == 1).then(|| path.join(rest)),
            false => Some(path.to_owned()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steering(folders: &Folders) -> HashSet<PathBuf> {
        let found = folders.found().cloned();
        found.map(|found| found.path().to_owned()).collect()
    }

    #[test]
    fn what_is_made_later_is_looked_at_whatever_else_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let (root, names) = (folder.path(), [".claude".to_owned()]);
        fs::create_dir_all(root.join("old/.claude")).unwrap();
        let before = Folders::read(root, &names);
        for number in 0..=FOLDERS {
            fs::create_dir_all(root.join(format!("made/{number}"))).unwrap();
        }
        fs::create_dir_all(root.join("made/y/deep/.claude")).unwrap();
        let now = before.read_again(root, &names);
        assert!(now.is_complete());
        let old = root.join("old/.claude");
        let first = root.join("made/y/deep/.claude");
        assert_eq!(steering(&now), HashSet::from([old.clone(), first.clone()]));
        // They are watched from then on, too.
        let second = root.join("made/1000/.claude");
        fs::create_dir(&second).unwrap();
        let now = now.read_again(root, &names);
        assert_eq!(steering(&now), HashSet::from([old, first, second]));
    }

    #[test]
    fn folders_beyond_the_limit_stay_left_out_and_those_beside_them_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let (root, names) = (folder.path(), [".claude".to_owned()]);
        for number in 0..=FOLDERS {
            fs::create_dir_all(root.join(format!("{number}/.claude"))).unwrap();
        }
        let before = Folders::read(root, &names);
        assert_eq!(before.at.len(), FOLDERS);
        assert_eq!(before.left_out.len(), 2);
        let new = root.join("new/.claude");
        fs::create_dir_all(&new).unwrap();
        let now = before.read_again(root, &names);
        let came: Vec<_> = steering(&now)
            .difference(&steering(&before))
            .cloned()
            .collect();
        assert_eq!(came, [new]);
        // One that is gone and made again is new.
        let again = before.left_out.iter().next().unwrap();
        fs::remove_dir_all(again).unwrap();
        let now = now.read_again(root, &names);
        fs::create_dir_all(again.join(".claude")).unwrap();
        let now = now.read_again(root, &names);
        assert!(steering(&now).contains(&again.join(".claude")));
    }
}
