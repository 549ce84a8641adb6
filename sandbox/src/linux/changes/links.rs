//! Paths through links of `/proc`, such as `/proc/7/cwd/file` and `/dev/stdout`. The kernel would follow them for the process
//! that asks, which is this one, so they are followed here for the stopped one.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, openat, openat2,
    readlinkat,
};
use rustix::io::Errno;

/// Most links of one path, as in the kernel.
const MAX_FOLLOWED: usize = 40;

/// The file system as a thread of a command sees it.
pub(super) struct Seen<'a> {
    pub(super) root: &'a OwnedFd,
    pub(super) thread: u32,
    /// Whether a path has led through what `/proc` has of another process, which may change it before the call is carried out.
    pub(super) leads_through_others: &'a Cell<bool>,
}

impl Seen<'_> {
    /// Opens a path as the process would, links of `/proc` included.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.open_plain(path, flags) {
            // There is such a link, or one to `/proc/self`, which this process has not in its view.
            Err(Errno::LOOP | Errno::NOENT) => self.open_plain(&self.without_links(path)?, flags),
            opened => opened,
        }
    }

    /// Opens a path without links of `/proc`: they would be those of this process.
    fn open_plain(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(self.root, path, flags, Mode::empty(), resolve)
    }

    /// Returns an absolute path without symbolic links.
    fn without_links(&self, path: &Path) -> Result<PathBuf, Errno> {
        let mut whole = PathBuf::from("/");
        let mut rest = parts(path);
        let mut followed = 0;
        while let Some(name) = rest.pop() {
            if self.is_of_other(&whole) {
                self.leads_through_others.set(true);
            }
            if name == ".." {
                whole.pop();
                continue;
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let folder = self.open_plain(&whole, flags | OFlags::DIRECTORY)?;
            let found = openat(&folder, &name, flags | OFlags::NOFOLLOW, Mode::empty())?;
            if !is_link(&found) {
                whole.push(name);
                continue;
            }
            followed += 1;
            if followed > MAX_FOLLOWED {
                return Err(Errno::LOOP);
            }
            let target = self.target(folder.as_fd(), &whole, &name)?;
            if target.is_absolute() {
                whole = PathBuf::from("/");
            }
            rest.extend(parts(&target));
        }
        Ok(whole)
    }

    /// Returns where the link `name` in `folder` leads the process.
    fn target(&self, folder: BorrowedFd<'_>, path: &Path, name: &OsStr) -> Result<PathBuf, Errno> {
        let read = || readlinkat(folder, name, Vec::new());
        let text = |read: std::ffi::CString| PathBuf::from(OsString::from_vec(read.into_bytes()));
        if !is_of_proc(folder) {
            return Ok(text(read()?));
        }
        let number = |field| self.status(field).ok_or(Errno::PERM);
        match (path == Path::new("/proc"), name.to_str()) {
            (true, Some("self")) => Ok(number("NStgid")?.into()),
            (true, Some("thread-self")) => {
                let (process, thread) = (number("NStgid")?, number("NSpid")?);
                Ok(format!("{process}/task/{thread}").into())
            }
            (true, _) => Ok(text(read()?)),
            (false, _) => {
                // What the process may follow and this one may not is no error of the call.
                let target = text(read().map_err(|_| Errno::PERM)?);
                // A pipe or a socket has no path.
                target.is_absolute().then_some(target).ok_or(Errno::NOENT)
            }
        }
    }

    /// Returns whether a path without links is below the folder in `/proc` of another process.
    pub(super) fn is_of_other(&self, path: &Path) -> bool {
        let below = path.strip_prefix("/proc").ok();
        let process = below.and_then(|below| below.iter().next()?.to_str());
        let is_number = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
        { process.filter(is_number) }
            .is_some_and(|process| self.status("NStgid").as_deref() != Some(process))
    }

    /// Returns a number of the process as it is in its own namespace.
    fn status(&self, field: &str) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.thread)).ok()?;
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let (_, numbers) = lines.find(|(name, _)| *name == field)?;
        numbers.split_whitespace().next_back().map(str::to_owned)
    }
}

/// Returns whether a folder is in `/proc`, whose links are not what they read.
pub(super) fn is_of_proc(folder: BorrowedFd<'_>) -> bool {
    fstatfs(folder).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// Returns whether a file is a symbolic link.
pub(super) fn is_link(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

/// Returns the names of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    });
    names.map(OsStr::to_owned).collect()
}
