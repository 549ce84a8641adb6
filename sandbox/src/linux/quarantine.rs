//! Quarantine: moves forbidden files of a command aside after it has ended.
//!
//! The command can change the project, so no path in it is trusted: directories are opened without following links, and
//! files are renamed relative to the opened directory. Otherwise a command could make us move files of the user.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, RenameFlags, Stat, renameat_with, statat};
use rustix::io::Errno;

use crate::listing::{open, open_way, permit};
use crate::plan::Identity;

/// Longest name in bytes that has room for an ending; of longer ones the first characters are kept.
const LONGEST: usize = 200;

/// State of the protected paths before a command ran.
#[derive(Debug)]
pub(super) struct ProtectedSnapshot(Vec<(PathBuf, Option<Identity>)>);

/// Cache of opened directories: few, and most often the last one is wanted. As texts they are compared faster than as
/// paths.
#[derive(Default)]
struct Folders(Vec<(OsString, Result<OwnedFd, Errno>)>);

impl FromIterator<(PathBuf, Option<Identity>)> for ProtectedSnapshot {
    fn from_iter<I: IntoIterator<Item = (PathBuf, Option<Identity>)>>(paths: I) -> Self {
        Self(paths.into_iter().collect())
    }
}

impl ProtectedSnapshot {
    /// Returns the paths, and what was there before.
    pub fn paths(&self) -> &[(PathBuf, Option<Identity>)] {
        &self.0
    }

    /// Records the files at `paths`, which must be absolute. Of a path through a symbolic link, the link is recorded.
    pub fn take(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut folders = Folders::default();
        let seen = paths.into_iter().filter_map(|path| {
            match folders.identity(&path) {
                // A command may make the folder, too. A new repository is judged as such.
                Err(Errno::NOENT | Errno::NOTDIR) => is_judged(&path).then_some((path, None)),
                Err(Errno::LOOP) => {
                    let link = link_above(&path)?;
                    let before = folders.identity(&link).ok()?;
                    Some((link, before))
                }
                found => Some((path, found.ok()?)),
            }
        });
        Self(seen.collect())
    }

    /// Moves aside protected files that were created or replaced. Returns the new names, or the old one if moving
    /// failed.
    pub fn quarantine(&self) -> Vec<PathBuf> {
        let mut moved = Vec::new();
        let mut folders = Folders::default();
        for (path, before) in &self.0 {
            let found = match folders.identity(path) {
                Ok(Some(now)) if Some(now) != *before => Some(path.clone()),
                // Before the command, this path had no symbolic link, or it would not have been recorded.
                Err(Errno::LOOP) => link_above(path),
                Ok(_) | Err(_) => None,
            };
            if let Some(found) = found {
                moved.push(move_aside(&found));
                // A folder on the way to the next ones may have been renamed by it.
                folders = Folders::default();
            }
        }
        moved
    }
}

impl Folders {
    /// Returns the identity of the file at `path`, also if a command has closed a folder on the way.
    fn identity(&mut self, path: &Path) -> Result<Option<Identity>, Errno> {
        match self.look(path) {
            Err(Errno::ACCESS) if open_way(path) => {
                self.0.clear();
                self.look(path)
            }
            found => found,
        }
    }

    fn look(&mut self, path: &Path) -> Result<Option<Identity>, Errno> {
        let (folder, name) = parts(path)?;
        let known = self
            .0
            .iter()
            .rposition(|(other, _)| folder.as_os_str() == other);
        let at = known.unwrap_or_else(|| {
            self.0.push((folder.into(), open(folder)));
            self.0.len() - 1
        });
        let opened = self.0[at].1.as_ref().map_err(|errno| *errno)?;
        match statat(opened, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(identity(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// Returns what tells a file from another one at its path. Over a symbolic link nothing can be mounted, so a command can replace
/// it by one that gets its inode: the time of its last change counts as well.
fn identity(found: &Stat) -> Identity {
    let time = match FileType::from_raw_mode(found.st_mode).is_symlink() {
        true => u64::try_from(found.st_ctime).unwrap_or_default() << 30 | found.st_ctime_nsec,
        false => 0,
    };
    (found.st_dev, found.st_ino ^ time)
}

/// Returns the folder of a file, and its name there.
pub(super) fn parts(path: &Path) -> Result<(&Path, &OsStr), Errno> {
    path.parent().zip(path.file_name()).ok_or(Errno::INVAL)
}

/// Returns whether a file whose folder is missing is judged when it comes: all but those of a repository that is missing, too.
fn is_judged(path: &Path) -> bool {
    let git = path.ancestors().find(|above| above.ends_with(".git"));
    git.is_none_or(|git| open(git).is_ok())
}

/// Returns the first symbolic link on the way to `path`.
fn link_above(path: &Path) -> Option<PathBuf> {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    let link = above.into_iter().find(|folder| {
        let found = parts(folder).and_then(|(around, name)| {
            let around = open(around)?;
            statat(around, name, AtFlags::SYMLINK_NOFOLLOW)
        });
        found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
    });
    link.map(Path::to_owned)
}

/// Returns whether a file of this name was moved aside.
pub(super) fn is_aside(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let ending = name.rsplit_once(".quarantined").map(|(_, ending)| ending);
    let is_number = |ending: &str| {
        let number = ending.strip_prefix('-').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    ending.is_some_and(|ending| ending.is_empty() || is_number(ending))
}

/// Renames the file at `path` within its directory. Returns the new path, or `path` if that failed.
pub(super) fn move_aside(path: &Path) -> PathBuf {
    let attempt = || {
        let (folder, name) = parts(path)?;
        let opened = open(folder)?;
        let mut stem = name.display().to_string();
        if stem.len() > LONGEST {
            stem = stem.chars().take(LONGEST / 4).collect();
        }
        let name_of = |number: u64| match number {
            0 => format!("{stem}.quarantined"),
            _ => format!("{stem}.quarantined-{number}"),
        };
        // The command may have taken these names, or made the directory read-only.
        let numbers = (0..10).chain([RandomState::new().hash_one(path)]);
        for number in numbers {
            let aside = name_of(number);
            let rename = || renameat_with(&opened, name, &opened, &aside, RenameFlags::NOREPLACE);
            let renamed = match rename() {
                Err(Errno::ACCESS) => permit(&opened, 0o700).and_then(|()| rename()),
                renamed => renamed,
            };
            match renamed {
                Err(Errno::EXIST) => {}
                renamed => return renamed.map(|()| folder.join(aside)),
            }
        }
        Err(Errno::EXIST)
    };
    attempt().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Creates a project and a home directory.
    fn laid() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["project/.git/info", "home"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("project/.git/config"), "[core]\n").unwrap();
        fs::write(root.join("home/attributes"), "the user's").unwrap();
        (folder, root)
    }

    fn watch(root: &Path) -> ProtectedSnapshot {
        let names = [
            ".git/config",
            ".git/commondir",
            ".git/hooks",
            ".git/info/attributes",
            ".vscode",
        ];
        ProtectedSnapshot::take(names.map(|name| root.join("project").join(name)))
    }

    #[test]
    fn a_new_git_control_file_is_moved_aside() {
        let (_folder, root) = laid();
        let snapshot = watch(&root);
        assert_eq!(snapshot.quarantine(), Vec::<PathBuf>::new());
        let made = root.join("project/.git/commondir");
        fs::write(&made, "/evil").unwrap();
        let aside = root.join("project/.git/commondir.quarantined");
        assert_eq!(snapshot.quarantine(), [aside]);
        assert!(!made.exists());
    }

    #[test]
    fn a_link_in_the_path_is_moved_and_not_followed() {
        let (_folder, root) = laid();
        let snapshot = watch(&root);
        let info = root.join("project/.git/info");
        fs::rename(&info, root.join("project/away")).unwrap();
        symlink(root.join("home"), &info).unwrap();
        assert_eq!(
            snapshot.quarantine(),
            [root.join("project/.git/info.quarantined")]
        );
        assert_eq!(
            fs::read_to_string(root.join("home/attributes")).unwrap(),
            "the user's"
        );
    }

    #[test]
    fn taken_names_and_read_only_directories_do_not_prevent_moving() {
        let (_folder, root) = laid();
        let snapshot = watch(&root);
        let project = root.join("project");
        for number in 0..200 {
            let end = if number == 0 {
                String::new()
            } else {
                format!("-{number}")
            };
            fs::write(project.join(format!(".vscode.quarantined{end}")), "").unwrap();
        }
        fs::create_dir(project.join(".vscode")).unwrap();
        fs::set_permissions(&project, Permissions::from_mode(0o555)).unwrap();
        assert_eq!(snapshot.quarantine().len(), 1);
        assert!(!project.join(".vscode").exists());
    }
}
