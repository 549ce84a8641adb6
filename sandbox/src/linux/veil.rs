//! Hidden files in folders that a command can write, for the tier without mounts.
//!
//! A rule of Landlock holds for all below a folder, so the folders above a hidden file have none for reading, and each of the
//! other files in them has one of its own. What a command makes there itself, it can write, and read only the next can. The
//! kernel lets nothing be moved from there to where it could be read. Where it can still be moved, the next command might read it:
//! so it is put back after a command and before the next, found by its inode. Into a folder that a command has made it could move
//! it at any time: until it has ended, what others find there are the files that are not hidden, each with a rule of its own. No
//! command can make further names of files.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{Mode, RenameFlags, mkdirat, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::quarantine::{move_aside, parts};
use crate::listing::{entries, look, open, permit};
use crate::plan::{Identity, Known, Layout};

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

/// What the commands that run can read beside hidden files.
#[derive(Debug, Default, Clone)]
pub(super) struct Readable(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Whether what a command has moved could not be put back.
    is_lost: bool,
    /// The folders beside hidden files that all of them can read: the kernel lets none of them move a hidden file there.
    folders: HashSet<Known>,
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
                        beside.push((path, Known::of(&found)));
                    }
                }
                let known = Known::of(&look(&folder)?);
                layout.way.push((folder, known));
                few_enough(beside.len())?;
            }
        }
        let hidden = veil.inodes();
        beside.retain(|(_, known)| !hidden.contains(&known.inode));
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

    /// Returns the same where the number of a device is another one since, as it may be when the machine was started anew.
    pub fn on_device(mut self, before: u64, now: u64) -> Self {
        for (_, known) in &mut self.places {
            if known.inode.0 == before {
                known.inode.0 = now;
            }
        }
        self
    }

    fn inodes(&self) -> HashSet<Identity> {
        { self.places.iter() }
            .map(|(_, known)| known.inode)
            .collect()
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

/// Fails if so many files beside hidden ones are too many rules.
fn few_enough(beside: usize) -> io::Result<()> {
    match beside > MOST_BESIDE {
        true => Err(io::Error::other(
            "there are too many files next to hidden ones for this tier",
        )),
        false => Ok(()),
    }
}

fn bytes(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}

impl Readable {
    /// Returns whether something hidden may have been moved by a command and not be back.
    pub fn is_at_stake(&self) -> bool {
        let state = self.0.lock();
        state.running > 0 || state.is_lost
    }

    /// Notes that all is back.
    pub fn is_restored(&self) {
        let mut state = self.0.lock();
        state.is_lost = false;
    }

    /// Replaces in the layout, of the folders beside hidden files, those that a command which runs may not read by what is in
    /// them. `veil` is what is hidden.
    pub fn begin(&self, layout: &mut Layout, veil: &Veil) -> io::Result<Running> {
        let mut state = self.0.lock();
        if state.running > 0 {
            let hidden = veil.inodes();
            let mut waiting = std::mem::take(&mut layout.beside);
            while let Some((path, known)) = waiting.pop() {
                if !known.is_folder || state.folders.contains(&known) {
                    layout.beside.push((path, known));
                } else {
                    for entry in entries(&path).into_iter().flatten().flatten() {
                        let Ok(found) = entry.metadata() else {
                            continue;
                        };
                        let inside = Known::of(&found);
                        if !found.is_symlink() && !hidden.contains(&inside.inode) {
                            waiting.push((entry.path(), inside));
                        }
                    }
                    layout.way.push((path, known));
                }
                few_enough(layout.beside.len() + layout.way.len() + waiting.len())?;
            }
        }
        let folders = layout.beside.iter().map(|(_, known)| *known);
        state.folders = folders.filter(|known| known.is_folder).collect();
        state.running += 1;
        Ok(Running(self.0.clone()))
    }
}

impl Running {
    /// Notes that what the command has moved could not be put back.
    pub fn has_lost(&self) {
        let mut state = self.0.lock();
        state.is_lost = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock();
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
    fn what_was_moved_comes_back_though_its_device_has_another_number_by_then() {
        let (_folder, root, mut layout) = laid();
        let veil = Veil::over(&mut layout).unwrap();
        let device = Known::of(&look(&root).unwrap()).inode.0;
        let before = veil.on_device(device, device + 1);
        fs::rename(root.join("sub/deep/secret"), root.join("t")).unwrap();
        before.restore().unwrap();
        assert!(!root.join("sub/deep/secret").exists(), "a control");
        before.on_device(device + 1, device).restore().unwrap();
        assert!(root.join("sub/deep/secret").exists());
    }

    #[test]
    fn what_two_commands_have_hidden_from_them_comes_back_together() {
        let (_folder, root, mut layout) = laid();
        let mut other = Layout {
            masked: vec![root.join("other")],
            ..layout.clone()
        };
        let mut veil = Veil::over(&mut layout).unwrap();
        veil.join(&Veil::over(&mut other).unwrap());
        let both = veil.clone();
        veil.join(&both);
        assert_eq!(veil, both);
        fs::rename(root.join("other"), root.join("sub/deep/o")).unwrap();
        fs::rename(root.join("sub"), root.join("s")).unwrap();
        fs::rename(root.join("vault/in/key"), root.join("s/key")).unwrap();
        assert_eq!(veil.restore().unwrap(), Vec::<PathBuf>::new());
        for name in ["sub/deep/secret", "vault/in/key", "other/x"] {
            assert_eq!(fs::read_to_string(root.join(name)).unwrap(), name);
        }
    }

    #[test]
    fn of_a_folder_that_was_made_while_a_command_runs_others_can_read_the_files() {
        let (_folder, root, mut layout) = laid();
        let named = |list: &[(PathBuf, Known)]| {
            let names = list
                .iter()
                .map(|(path, _)| path.strip_prefix(&root).unwrap());
            let mut names: Vec<_> = names.map(|name| name.display().to_string()).collect();
            names.sort();
            names
        };
        let names = |layout: &Layout| named(&layout.beside);
        let look = || {
            let mut layout = Layout {
                way: Vec::new(),
                beside: Vec::new(),
                ..layout.clone()
            };
            let veil = Veil::over(&mut layout).unwrap();
            (layout, veil)
        };
        let readable = Readable::default();
        let (mut first, veil) = look();
        let running = readable.begin(&mut first, &veil).unwrap();
        assert_eq!(names(&first), ["other", "sub/beside"]);
        for name in ["made/in", "other/late"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["made/a", "made/in/b", "sub/new", "other/late/c"] {
            fs::write(root.join(name), name).unwrap();
        }
        // It could have been moved there, and it may be at any time.
        fs::hard_link(root.join("sub/deep/secret"), root.join("made/hard")).unwrap();
        let (mut second, veil) = look();
        assert_eq!(names(&second), ["made", "other", "sub/beside", "sub/new"]);
        let beside = readable.begin(&mut second, &veil).unwrap();
        let found = ["made/a", "made/in/b", "other", "sub/beside", "sub/new"];
        assert_eq!(names(&second), found);
        assert_eq!(
            named(&second.way),
            ["", "made", "made/in", "sub", "sub/deep"]
        );
        // They are those of the first one, not those of the last.
        drop(running);
        let (mut third, veil) = look();
        drop(readable.begin(&mut third, &veil).unwrap());
        assert_eq!(names(&third), found);
        // One that took the place of a folder is another one.
        fs::remove_dir_all(root.join("other")).unwrap();
        fs::create_dir_all(root.join("other")).unwrap();
        let (mut fourth, veil) = look();
        drop(readable.begin(&mut fourth, &veil).unwrap());
        assert!(!names(&fourth).contains(&"other".to_owned()));
        drop(beside);
        let (mut last, veil) = look();
        let _running = readable.begin(&mut last, &veil).unwrap();
        assert_eq!(names(&last), ["made", "other", "sub/beside", "sub/new"]);
        // A further name of a hidden file is hidden as well.
        fs::hard_link(root.join("sub/deep/secret"), root.join("sub/hard")).unwrap();
        assert_eq!(names(&look().0), ["made", "other", "sub/beside", "sub/new"]);
        layout.masked.clear();
        let mut plain = layout.clone();
        assert_eq!(Veil::over(&mut plain).unwrap(), Veil::default());
        assert!(plain.way.is_empty() && plain.beside.is_empty());
    }
}
