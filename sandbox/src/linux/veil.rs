//! Hidden files in folders that a command can write, for the tier without mounts.
//!
//! A rule of Landlock holds for all below a folder, so the folders above a hidden file have none for reading, and each of the
//! other files in them has one of its own. What a command makes there itself, it can write, and read only the next can. The
//! kernel lets nothing be moved from there to where it could be read. Where it can still be moved, the next command might read it:
//! so it is put back after a command and before the next, found by its inode. While one runs, the next one can read no
//! file that this one has made there, and neither can make further names of files.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use rustix::fs::{Mode, RenameFlags, mkdirat, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::quarantine::{move_aside, parts};
use crate::listing::{entries, look, open, permit};
use crate::plan::{Identity, Layout};

/// Most files that are hidden in such folders, those in hidden folders included.
const MOST_HIDDEN: usize = 20_000;
/// Most files beside them, each of which is a rule.
const MOST_BESIDE: usize = 100_000;
/// Most names that are looked at for a file that was moved.
const MOST_SEARCHED: usize = 1_000_000;

/// What is hidden, and the folders above it, with what each is known by.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Veil {
    /// The folders that can be written, in which it all is.
    tops: Vec<Vec<u8>>,
    /// Those above others first.
    places: Vec<(Vec<u8>, Known)>,
}

/// What a file is known by, under whatever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Known {
    inode: Identity,
    /// Time at which it was made, in nanoseconds since 1970, where the file system tells: inodes are used again.
    born: Option<u64>,
}

impl Known {
    fn of(found: &Metadata) -> Self {
        let born = found.created().ok();
        let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Self {
            inode: (found.dev(), found.ino()),
            born: born.and_then(|born| born.as_nanos().try_into().ok()),
        }
    }
}

/// What the commands that run can read beside hidden files.
#[derive(Debug, Default, Clone)]
pub(super) struct Readable(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Whether what a command has moved could not be put back.
    is_lost: bool,
    beside: HashSet<Identity>,
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Running(Arc<Mutex<State>>);

impl Veil {
    /// Finds what is hidden in folders that can be written, and gives the layout the files beside it.
    pub fn over(layout: &mut Layout) -> io::Result<Self> {
        let writable = { layout.mounts.iter() }.filter(|mount| !mount.access.is_read_only());
        let tops: HashSet<PathBuf> = writable.map(|mount| mount.path.clone()).collect();
        let mut veil = Self::default();
        let mut beside = Vec::new();
        for top in &tops {
            let hidden = layout.masked.iter();
            let hidden: Vec<&Path> = hidden
                .filter(|path| path.starts_with(top) && *path != top)
                .map(PathBuf::as_path)
                .collect();
            if hidden.is_empty() {
                continue;
            }
            veil.tops.push(top.as_os_str().as_bytes().to_vec());
            for path in &hidden {
                veil.add_all(path)?;
            }
            let mut folders = vec![top.clone()];
            while let Some(folder) = folders.pop() {
                if folder != *top {
                    veil.add(&folder)?;
                }
                for entry in entries(&folder)?.flatten() {
                    let (path, Ok(found)) = (entry.path(), entry.metadata()) else {
                        continue;
                    };
                    if hidden.contains(&&*path) || found.is_symlink() {
                        continue;
                    }
                    if found.is_dir() && hidden.iter().any(|hidden| hidden.starts_with(&path)) {
                        folders.push(path);
                    } else {
                        beside.push((path, (found.dev(), found.ino())));
                    }
                }
                layout.way.push(folder);
                if beside.len() > MOST_BESIDE {
                    return Err(io::Error::other(
                        "too many files are beside hidden ones for this tier",
                    ));
                }
            }
        }
        let known: HashSet<Identity> = veil.places.iter().map(|(_, known)| known.inode).collect();
        beside.retain(|(_, known_by)| !known.contains(known_by));
        layout.beside = beside;
        veil.sort();
        Ok(veil)
    }

    /// Adds what another one hides.
    pub fn join(&mut self, other: &Self) {
        let is_new = |top: &&_| !self.tops.contains(top);
        let tops: Vec<_> = other.tops.iter().filter(is_new).cloned().collect();
        self.tops.extend(tops);
        let held: HashSet<_> = self.places.iter().cloned().collect();
        let places = { other.places.iter() }.filter(|place| !held.contains(place));
        self.places.extend(places.cloned());
        self.sort();
    }

    fn sort(&mut self) {
        self.places
            .sort_by_key(|(path, _)| (bytes(path).components().count(), path.clone()));
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        let known = Known::of(&look(path)?);
        let path = path.as_os_str().as_bytes().to_vec();
        self.places.push((path, known));
        match self.places.len() > MOST_HIDDEN {
            true => Err(io::Error::other(
                "too many files are hidden in the project for this tier",
            )),
            false => Ok(()),
        }
    }

    /// Adds a file, or a folder with all that is in it. What others remove meanwhile is nowhere, and what nobody here can list no
    /// command can take apart.
    fn add_all(&mut self, path: &Path) -> io::Result<()> {
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            match self.add(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                added => added?,
            }
            if let Ok(inside) = entries(&path) {
                waiting.extend(inside.flatten().map(|entry| entry.path()));
            }
        }
        Ok(())
    }

    /// Puts back what was moved, and what has taken its place aside. Returns the new names of that.
    ///
    /// # Errors
    ///
    /// If something that was moved cannot be put back, or perhaps not be found.
    pub fn restore(&self) -> io::Result<Vec<PathBuf>> {
        let mut aside = Vec::new();
        let mut places = self.places.clone();
        // What lies in a folder comes back with it.
        loop {
            let gone = places.iter().filter(|(path, known)| {
                let now = look(bytes(path)).ok();
                now.is_none_or(|now| Known::of(&now) != *known)
            });
            let gone: HashSet<Known> = gone.map(|(_, known)| *known).collect();
            if gone.is_empty() {
                return Ok(aside);
            }
            let found = self.search(&gone)?;
            // What is nowhere was removed.
            places.retain(|(_, known)| !gone.contains(known) || found.contains_key(known));
            for (path, known) in &places {
                let Some(at) = found.get(known) else {
                    continue;
                };
                // It has come back with its folder; the others are looked for once more.
                if !look(at).is_ok_and(|now| Known::of(&now) == *known) {
                    break;
                }
                put_back(at, bytes(path), &mut aside)?;
            }
        }
    }

    /// Looks for files by what they are known by.
    fn search(&self, wanted: &HashSet<Known>) -> io::Result<HashMap<Known, PathBuf>> {
        let mut found = HashMap::new();
        let mut left = MOST_SEARCHED;
        let mut folders: Vec<PathBuf> = self.tops.iter().map(|top| bytes(top).into()).collect();
        while let Some(folder) = folders.pop() {
            for entry in entries(&folder).into_iter().flatten().flatten() {
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                left = left.checked_sub(1).ok_or_else(|| {
                    io::Error::other("a hidden file was moved, and cannot be found among so many")
                })?;
                let known = Known::of(&metadata);
                if wanted.contains(&known) {
                    found.insert(known, entry.path());
                }
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Ok(found)
    }
}

/// Moves a file back to where it was, and aside what is in the way. The folders around are opened without following links.
fn put_back(from: &Path, to: &Path, aside: &mut Vec<PathBuf>) -> Result<(), Errno> {
    let ((around, name), (folder, wanted)) = (parts(from)?, parts(to)?);
    let (around, folder) = (open(around)?, folder_at(folder, aside)?);
    if look(to).is_ok() {
        aside.push(move_aside(to));
    }
    let rename = || renameat_with(&around, name, &folder, wanted, RenameFlags::NOREPLACE);
    match rename() {
        // The command may have closed one of them.
        Err(Errno::ACCESS) => {
            let opened = permit(&around, 0o700).and(permit(&folder, 0o700));
            opened.and_then(|()| rename())
        }
        renamed => renamed,
    }
}

/// Opens a folder, and makes those that are missing; a file or a link in its place is the command's.
fn folder_at(path: &Path, aside: &mut Vec<PathBuf>) -> Result<OwnedFd, Errno> {
    match open(path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            let (above, name) = parts(path)?;
            let above = folder_at(above, aside)?;
            if look(path).is_ok() {
                aside.push(move_aside(path));
            }
            mkdirat(above, name, Mode::RWXU)?;
            open(path)
        }
        opened => opened,
    }
}

fn bytes(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}

impl Readable {
    /// Returns whether something hidden may have been moved by a command and not be back.
    pub fn is_at_stake(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.running > 0 || state.is_lost
    }

    /// Notes that all is back.
    pub fn is_restored(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_lost = false;
    }

    /// Leaves in the layout, of the files beside hidden ones, those that all commands can read which run.
    pub fn begin(&self, layout: &mut Layout) -> Running {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.running {
            0 => state.beside = layout.beside.iter().map(|(_, known)| *known).collect(),
            _ => layout
                .beside
                .retain(|(_, known)| state.beside.contains(known)),
        }
        state.running += 1;
        Running(self.0.clone())
    }
}

impl Running {
    /// Notes that what the command has moved could not be put back.
    pub fn has_lost(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_lost = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::access::Access;
    use crate::plan::{Mount, MountSource};

    /// A project with hidden files, and its layout.
    fn laid() -> (tempfile::TempDir, PathBuf, Layout) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["sub/deep", "vault/in", "other"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["sub/deep/secret", "vault/in/key", "sub/beside", "other/x"] {
            fs::write(root.join(name), name).unwrap();
        }
        let layout = Layout {
            mounts: vec![Mount {
                path: root.clone(),
                source: MountSource::Same,
                access: Access::ALL,
                identity: None,
            }],
            masked: ["sub/deep/secret", "vault"]
                .map(|name| root.join(name))
                .into(),
            ..Layout::default()
        };
        (folder, root, layout)
    }

    #[test]
    fn what_was_moved_comes_back_and_what_was_removed_does_not() {
        type Move = fn(&Path);
        let moves: [(&str, Move, &[&str]); 7] = [
            ("nothing", |_| (), &[]),
            (
                "a file",
                |root| fs::rename(root.join("sub/deep/secret"), root.join("t")).unwrap(),
                &[],
            ),
            (
                "a folder above, and another in its place",
                |root| {
                    fs::rename(root.join("sub"), root.join("t")).unwrap();
                    fs::create_dir_all(root.join("sub/deep")).unwrap();
                },
                &["sub.quarantined"],
            ),
            (
                "all of it, deep into another folder",
                |root| {
                    fs::rename(root.join("vault"), root.join("other/v")).unwrap();
                    fs::rename(root.join("other/v/in/key"), root.join("k")).unwrap();
                    fs::rename(root.join("sub/deep"), root.join("other/v/deep")).unwrap();
                },
                &[],
            ),
            (
                "a file whose folder was removed",
                |root| {
                    fs::rename(root.join("sub/deep/secret"), root.join("t")).unwrap();
                    fs::remove_dir_all(root.join("sub")).unwrap();
                },
                &[],
            ),
            (
                "a file, into a folder that is closed then, and a file in the place of its own",
                |root| {
                    fs::create_dir(root.join("x")).unwrap();
                    fs::rename(root.join("sub/deep/secret"), root.join("x/t")).unwrap();
                    fs::set_permissions(root.join("x"), fs::Permissions::from_mode(0o500)).unwrap();
                    fs::remove_dir(root.join("sub/deep")).unwrap();
                    fs::write(root.join("sub/deep"), "").unwrap();
                },
                &["sub/deep.quarantined"],
            ),
            (
                "a folder behind a link to it",
                |root| {
                    fs::rename(root.join("vault"), root.join("t")).unwrap();
                    std::os::unix::fs::symlink("t", root.join("vault")).unwrap();
                },
                &["vault.quarantined"],
            ),
        ];
        for (what, change, aside) in moves {
            let (_folder, root, mut layout) = laid();
            let veil = Veil::over(&mut layout).unwrap();
            change(&root);
            let aside: Vec<_> = aside.iter().map(|name| root.join(name)).collect();
            assert_eq!(veil.restore().unwrap(), aside, "{what}");
            for name in ["sub/deep/secret", "vault/in/key"] {
                let found = fs::read_to_string(root.join(name));
                assert_eq!(found.unwrap(), name, "{what}");
            }
        }
        let (_folder, root, mut layout) = laid();
        let veil = Veil::over(&mut layout).unwrap();
        fs::remove_dir_all(root.join("vault")).unwrap();
        fs::rename(root.join("sub"), root.join("t")).unwrap();
        assert_eq!(veil.restore().unwrap(), Vec::<PathBuf>::new());
        assert!(root.join("sub/deep/secret").exists() && !root.join("vault").exists());
        assert_eq!(veil.restore().unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_made_while_a_command_runs_no_other_can_read() {
        let (_folder, root, mut layout) = laid();
        let names = |layout: &Layout| {
            let names = layout
                .beside
                .iter()
                .map(|(path, _)| path.strip_prefix(&root).unwrap());
            let mut names: Vec<_> = names.map(|name| name.display().to_string()).collect();
            names.sort();
            names
        };
        let look = || {
            let mut layout = Layout {
                way: Vec::new(),
                beside: Vec::new(),
                ..layout.clone()
            };
            Veil::over(&mut layout).unwrap();
            layout
        };
        let readable = Readable::default();
        let mut first = look();
        let running = readable.begin(&mut first);
        assert_eq!(names(&first), ["other", "sub/beside"]);
        fs::create_dir(root.join("made")).unwrap();
        let mut second = look();
        assert_eq!(names(&second), ["made", "other", "sub/beside"]);
        drop(readable.begin(&mut second));
        assert_eq!(names(&second), ["other", "sub/beside"]);
        drop(running);
        let mut third = look();
        let _running = readable.begin(&mut third);
        assert_eq!(names(&third), ["made", "other", "sub/beside"]);
        // A further name of a hidden file is hidden as well.
        fs::hard_link(root.join("sub/deep/secret"), root.join("sub/hard")).unwrap();
        assert_eq!(names(&look()), ["made", "other", "sub/beside"]);
        layout.masked.clear();
        let mut plain = layout.clone();
        assert_eq!(Veil::over(&mut plain).unwrap(), Veil::default());
        assert!(plain.way.is_empty() && plain.beside.is_empty());
    }
}
