//! Resolves the paths of a stopped call in the file system that its process sees.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use super::call::{Deed, PATH_MAX, PathArgument, deed_of, is_changing};
use super::links::{Seen, is_link, is_of_proc};
use super::moved;
use crate::recorder::{Recorder, UpcomingChange};

/// Most links in a row that lead to something new.
const MAX_LINKS: usize = 8;

/// The file system that the processes of a command see.
pub(super) struct View {
    root: OwnedFd,
    /// The folder of the last change: most have the same.
    last: RefCell<Option<Rc<OwnedFd>>>,
}

/// A stopped process.
struct Stopped<'a> {
    thread: u32,
    view: &'a View,
    recorder: &'a dyn Recorder,
    leads_through_others: Cell<bool>,
}

/// A path, and what is there.
struct Place {
    path: PathBuf,
    found: Option<OwnedFd>,
}

/// When a change of a path is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interest {
    /// If the recorder covers it and does not know it yet.
    InFile,
    /// If the recorder covers it.
    InName,
    /// In any case: the other path of the call may be covered.
    Always,
}

impl View {
    /// Returns the view of the process with this thread. The processes of a command have the same: the filter refuses
    /// the calls by which one could change its root.
    pub fn of(thread: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{thread}/root"), flags, Mode::empty()).ok()?;
        Some(Self {
            root,
            last: RefCell::default(),
        })
    }

    /// Tells the recorder of the changes that a call may make. What cannot be resolved will fail in the kernel too.
    pub fn tell(&self, notification: &libc::seccomp_notif, recorder: &dyn Recorder) {
        let stopped = Stopped {
            thread: notification.pid,
            view: self,
            recorder,
            leads_through_others: Cell::new(false),
        };
        if let Some(deed) = deed_of(notification.data.nr) {
            stopped.tell(deed, notification.data.args);
        }
    }
}

fn bits(flags: i32) -> u32 {
    flags.unsigned_abs()
}

fn has(value: u64, flag: u32) -> bool {
    value & u64::from(flag) != 0
}

impl Place {
    fn of(found: OwnedFd) -> Option<Self> {
        Some(Self {
            path: path_of(&found).ok()?,
            found: Some(found),
        })
    }
}

impl Stopped<'_> {
    /// Tells the recorder what `deed` with these arguments changes; `None` if that is nothing of interest.
    fn tell(&self, deed: Deed, arguments: [u64; 6]) -> Option<()> {
        use Interest::{Always, InFile, InName};
        let flags = |at: Option<u8>| at.map_or(0, |at| arguments[usize::from(at)]);
        let place =
            |argument, follows, interest| self.place(&arguments, argument, follows, interest);
        let opened = |argument, flags: u64| {
            let is_new = has(flags, bits(libc::O_CREAT)) && has(flags, bits(libc::O_EXCL));
            let unnamed = u64::from(bits(libc::O_TMPFILE));
            let is_unnamed = flags & unnamed == unnamed;
            if is_unnamed || !is_changing(flags) {
                return None;
            }
            let follows = !is_new && !has(flags, bits(libc::O_NOFOLLOW));
            self.change(&place(argument, follows, InFile)?)
        };
        match deed {
            Deed::Open(argument, at) => opened(argument, arguments[usize::from(at)]),
            Deed::OpenHow(argument, at) => opened(argument, self.word(arguments[usize::from(at)])?),
            Deed::Create(argument) | Deed::Change(argument) => {
                self.change(&place(argument, true, InFile)?)
            }
            Deed::ChangeOpen(at) => {
                let path = self.descriptor(arguments[usize::from(at)] as i32)?;
                self.change(&self.resolve(&path, true, InFile)?)
            }
            Deed::ChangeBy(argument, at) => {
                let follows = !has(flags(Some(at)), AtFlags::SYMLINK_NOFOLLOW.bits());
                self.change(&place(argument, follows, InFile)?)
            }
            Deed::Make(argument) => {
                let place = place(argument, false, InName)?;
                // It fails if something is there.
                place.found.is_none().then(|| self.rename(&place))?
            }
            Deed::Remove(argument) => self.rename(&place(argument, false, InName)?),
            Deed::Move(from, to, at) => {
                const EXCHANGE: u32 = 2;
                let (from, to) = (place(from, false, Always)?, place(to, false, Always)?);
                if has(flags(at), EXCHANGE) {
                    self.rename_all(&to, &from);
                }
                self.rename_all(&from, &to)
            }
            Deed::Link(from, to, at) => {
                let follows = has(flags(at), AtFlags::SYMLINK_FOLLOW.bits());
                let (from, to) = (place(from, follows, Always)?, place(to, false, Always)?);
                // From now on a change by the new name changes the old one too.
                self.change(&from);
                self.rename(&to)
            }
        }
    }

    /// Tells that the file at a place changes.
    fn change(&self, place: &Place) -> Option<()> {
        self.tell_of(place, true)
    }

    /// Tells that a name comes or goes.
    fn rename(&self, place: &Place) -> Option<()> {
        self.tell_of(place, false)
    }

    fn tell_of(&self, place: &Place, is_in_place: bool) -> Option<()> {
        self.recorder.covers(&place.path).then(|| {
            self.recorder.before(UpcomingChange {
                path: &place.path,
                found: place.found.as_ref().map(OwnedFd::as_fd),
                is_in_place,
            });
        })
    }

    /// Tells that what is at a place moves with all below it.
    fn rename_all(&self, from: &Place, to: &Place) -> Option<()> {
        let found = from.found.as_ref()?.as_fd();
        let replaced = to.found.as_ref().map(OwnedFd::as_fd);
        if self.recorder.covers(&from.path) || self.recorder.covers(&to.path) {
            moved::tell(self.recorder, (&from.path, found), (&to.path, replaced));
        }
        Some(())
    }

    /// Returns whether a change of this path, which is no symbolic link, need not be recorded.
    fn can_skip(&self, path: &Path, interest: Interest) -> bool {
        match interest {
            Interest::InFile => !self.recorder.covers(path) || self.recorder.is_settled(path),
            Interest::InName => !self.recorder.covers(path),
            Interest::Always => false,
        }
    }

    /// Resolves a path argument; `follows` says whether the call follows a link at its end. `None` if it is of no
    /// interest.
    fn place(
        &self,
        arguments: &[u64; 6],
        at: PathArgument,
        follows: bool,
        interest: Interest,
    ) -> Option<Place> {
        let path = self.text(arguments[usize::from(at.path)])?;
        // By far the most frequent of all.
        if path == "/dev/null" {
            return None;
        }
        let folder = at.folder.map(|at| arguments[usize::from(at)] as i32);
        let path = match folder {
            _ if path.as_bytes().starts_with(b"/") => PathBuf::from(path),
            Some(number) if number != libc::AT_FDCWD => self.descriptor(number)?.join(path),
            _ => self.link("cwd")?.join(path),
        };
        self.resolve(&path, follows, interest)
    }

    fn resolve(&self, path: &Path, follows: bool, interest: Interest) -> Option<Place> {
        let resolved = self.resolved(path, follows, interest);
        if self.leads_through_others.take() {
            let reason = "it leads through another process, which may change where";
            self.recorder.missed(path, reason);
        }
        resolved.unwrap_or_else(|error| {
            let fails = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS];
            // The call of the process fails for the same reason, or only the look at it.
            if !fails.contains(&error) {
                self.missed(path, error);
            }
            None
        })
    }

    fn missed(&self, path: &Path, error: Errno) {
        self.recorder.missed(path, &error.to_string());
    }

    fn resolved(
        &self,
        path: &Path,
        follows: bool,
        interest: Interest,
    ) -> Result<Option<Place>, Errno> {
        const FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
        let Some(mut path) = self.own(path) else {
            return Ok(None);
        };
        for _ in 0..MAX_LINKS {
            // They leave out a final `/`.
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                return Ok(Place::of(self.open(&path, FLAGS)?));
            };
            let (folder, resolved) = self.folder(folder)?;
            let full = resolved.join(name);
            if self.seen().is_of_other(&full) {
                self.leads_through_others.set(true);
            }
            // What is settled is no link.
            let may_be_link = follows && !self.recorder.is_settled(&full);
            if !may_be_link && self.can_skip(&full, interest) {
                return Ok(None);
            }
            let found = match openat(&folder, name, FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(found) => Some(found),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error),
            };
            let is_link = follows && found.as_ref().is_some_and(is_link);
            if !is_link {
                let place = Place { path: full, found };
                return Ok((!self.can_skip(&place.path, interest)).then_some(place));
            }
            match self.open(&full, FLAGS) {
                Ok(found) => return Ok(Place::of(found)),
                // A link of `/proc` leads to no name then.
                Err(Errno::NOENT) if !is_of_proc(folder.as_fd()) => {}
                Err(error) => return Err(error),
            }
            // The link's target is missing, and comes into being.
            let target = readlinkat(&folder, name, Vec::new())?;
            path = resolved.join(OsString::from_vec(target.into_bytes()));
        }
        Err(Errno::LOOP)
    }

    /// Opens a folder; returns its path without links, too.
    fn folder(&self, path: &Path) -> Result<(Rc<OwnedFd>, PathBuf), Errno> {
        let last = self.view.last.take();
        if let Some(folder) = last
            && let Ok(now) = path_of(&folder)
            && now == path
        {
            self.view.last.replace(Some(folder.clone()));
            return Ok((folder, now));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Rc::new(self.open(path, flags)?);
        self.view.last.replace(Some(folder.clone()));
        let now = path_of(&folder)?;
        Ok((folder, now))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.seen().open(path, flags)
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            root: &self.view.root,
            thread: self.thread,
            leads_through_others: &self.leads_through_others,
        }
    }

    /// Returns what a path through the process's own links in `/proc` stands for, and other paths as they are.
    fn own(&self, path: &Path) -> Option<PathBuf> {
        let folders = ["/proc/self", "/proc/thread-self", "/dev"];
        let below = { folders.iter() }.find_map(|folder| path.strip_prefix(folder).ok());
        let Some(below) = below else {
            return Some(path.to_owned());
        };
        let mut parts = below.iter();
        let start = match (parts.next()?.to_str(), path.starts_with("/dev")) {
            (Some("fd"), _) => self.descriptor(parts.next()?.to_str()?.parse().ok()?)?,
            (Some("cwd"), false) => self.link("cwd")?,
            (Some("root"), false) => PathBuf::from("/"),
            _ => return Some(path.to_owned()),
        };
        let rest = parts.as_path();
        Some(match rest.as_os_str().is_empty() {
            true => start,
            false => start.join(rest),
        })
    }

    fn descriptor(&self, number: i32) -> Option<PathBuf> {
        self.link(&format!("fd/{number}"))
    }

    /// Returns where a link of the process in `/proc` leads, if that is a path.
    fn link(&self, name: &str) -> Option<PathBuf> {
        let found = read_link(&format!("/proc/{}/{name}", self.thread));
        if found == Err(Errno::NAMETOOLONG) {
            self.missed(Path::new("…"), Errno::NAMETOOLONG);
        }
        found.ok()
    }

    /// Reads a path from the memory of the process.
    fn text(&self, address: u64) -> Option<OsString> {
        let mut bytes = [0; PATH_MAX];
        let read = self.read(address, &mut bytes)?;
        let text = CStr::from_bytes_until_nul(&bytes[..read]).ok()?;
        Some(OsStr::from_bytes(text.to_bytes()).to_owned())
    }

    /// Reads a number from the memory of the process.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(address, &mut bytes)? == 8).then(|| u64::from_ne_bytes(bytes))
    }

    /// Reads memory of the process up to a page that is not there; returns the number of bytes.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<usize> {
        let page = rustix::param::page_size();
        let address = usize::try_from(address).ok()?;
        let mut local = [IoSliceMut::new(bytes)];
        let length = local[0].len();
        // The kernel reads each piece whole or not at all.
        let first = (page - address % page).min(length);
        let second = address.checked_add(first)?;
        let remote =
            [(address, first), (second, length - first)].map(|(start, length)| libc::iovec {
                iov_base: start as *mut libc::c_void,
                iov_len: length,
            });
        // SAFETY: the local piece is writable memory of this process; `IoSliceMut` has the layout of `iovec`. The
        // remote ones are checked by the kernel.
        let read = unsafe {
            libc::process_vm_readv(
                self.thread.cast_signed(),
                local.as_mut_ptr().cast(),
                1,
                remote.as_ptr(),
                2,
                0,
            )
        };
        usize::try_from(read).ok()
    }
}

/// Returns the path of an open file.
fn path_of(file: &OwnedFd) -> Result<PathBuf, Errno> {
    read_link(&format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn read_link(path: &str) -> Result<PathBuf, Errno> {
    let read = fs::read_link(path);
    let read = read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    // A pipe or a socket has none.
    read.is_absolute().then_some(read).ok_or(Errno::NOENT)
}
