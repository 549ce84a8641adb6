//! What moves with a folder: each name below it goes, and comes elsewhere.
//!
//! A command can make a tree of any depth and number. So the folders that are left to read are a list, none of them stays
//! open, and what is beyond a bound is told as missed.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::call::PATH_MAX;
use crate::recorder::{Recorder, UpcomingChange};

/// Most names that are told of one move; what a command makes with more is no work of a person.
const MAX_NAMES: usize = 1 << 20;

/// Most folders within each other that are told of: trees of projects have fewer than a hundred.
const MAX_DEPTH: usize = 256;

/// A file or folder, and what its new name replaces. That can be a folder with entries: two exchange their places, or the call
/// fails.
#[derive(Clone, Copy)]
struct Moved<'a> {
    from: &'a Path,
    found: BorrowedFd<'a>,
    to: &'a Path,
    replaced: Option<BorrowedFd<'a>>,
}

/// Tells of what is moved, and of all below it: each old name goes, and each new one comes, over what is `replaced`.
pub(super) fn tell(
    recorder: &dyn Recorder,
    (from, found): (&Path, BorrowedFd<'_>),
    (to, replaced): (&Path, Option<BorrowedFd<'_>>),
) {
    let top = Moved {
        from,
        found,
        to,
        replaced,
    };
    top.tell(recorder);
    let mut folders = vec![PathBuf::new()];
    let (mut names, mut is_too_deep) = (0, false);
    while let Some(below) = folders.pop() {
        let entries = match top.entries(&below) {
            Ok(entries) => entries,
            // It is no folder, or gone.
            Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => continue,
            Err(error) => {
                recorder.missed(&from.join(below), &error.to_string());
                continue;
            }
        };
        for (path, is_folder) in entries.below(&below) {
            names += 1;
            if names > MAX_NAMES {
                let reason = format!("more than {MAX_NAMES} names are moved with it");
                return recorder.missed(from, &reason);
            }
            let is_too_long = |top: &Path| top.join(&path).as_os_str().len() >= PATH_MAX;
            if path.iter().count() > MAX_DEPTH || is_too_long(from) || is_too_long(to) {
                is_too_deep = true;
                continue;
            }
            entries.tell(recorder, top, &path);
            if is_folder {
                folders.push(path);
            }
        }
    }
    if is_too_deep {
        let reason = format!("it lies more than {MAX_DEPTH} folders or {PATH_MAX} bytes deep");
        recorder.missed(&from.join("…"), &reason);
    }
}

impl Moved<'_> {
    fn tell(self, recorder: &dyn Recorder) {
        for (path, found) in [(self.from, Some(self.found)), (self.to, self.replaced)] {
            if recorder.covers(path) {
                recorder.before(UpcomingChange {
                    path,
                    found,
                    is_in_place: false,
                });
            }
        }
    }

    /// Opens a folder below, and the one that it replaces.
    fn entries(&self, below: &Path) -> Result<Entries, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = |top: BorrowedFd<'_>, flags| {
            let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat2(
                top,
                Path::new(".").join(below),
                flags,
                Mode::empty(),
                resolve,
            )
        };
        Ok(Entries {
            folder: open(self.found, OFlags::RDONLY)?,
            replaced: { self.replaced }.and_then(|top| open(top, OFlags::PATH).ok()),
        })
    }
}

/// A folder that moves.
struct Entries {
    folder: OwnedFd,
    replaced: Option<OwnedFd>,
}

impl Entries {
    /// Returns the paths of the entries of the folder `below`, and whether each may be a folder.
    fn below(&self, below: &Path) -> impl Iterator<Item = (PathBuf, bool)> {
        let entries = Dir::read_from(&self.folder).into_iter().flatten();
        entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let kind = entry.file_type();
            let may_be_folder = matches!(kind, FileType::Directory | FileType::Unknown);
            (name != c"." && name != c"..").then(|| {
                let name = OsStr::from_bytes(name.to_bytes());
                (below.join(name), may_be_folder)
            })
        })
    }

    /// Tells of the entry with the name at the end of `path`.
    fn tell(&self, recorder: &dyn Recorder, top: Moved<'_>, path: &Path) {
        let entry = |folder: &OwnedFd| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(folder, path.file_name()?, flags, Mode::empty()).ok()
        };
        let Some(found) = entry(&self.folder) else {
            return;
        };
        let replaced = self.replaced.as_ref().and_then(entry);
        let moved = Moved {
            from: &top.from.join(path),
            found: found.as_fd(),
            to: &top.to.join(path),
            replaced: replaced.as_ref().map(OwnedFd::as_fd),
        };
        moved.tell(recorder);
    }
}
