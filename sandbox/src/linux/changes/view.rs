//! Resolves the paths of a stopped call in the file system that its process sees.

use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;

use super::call::{Deed, PathArgument, deed_of, is_changing};
use crate::recorder::{Recorder, UpcomingChange};

/// Longest path that the kernel takes, in bytes, with its end.
const PATH_MAX: usize = 4096;
/// Most links in a row that lead to something new.
const MAX_LINKS: usize = 8;

/// A change of one path, or of all below a folder that is moved.
pub(super) enum Change {
    Path { place: Place, is_in_place: bool },
    Move { from: Place, to: PathBuf },
}

/// A path, and what is there.
pub(super) struct Place {
    path: PathBuf,
    found: Option<OwnedFd>,
}

/// A stopped process.
struct View {
    thread: u32,
    root: OwnedFd,
}

impl Change {
    /// Returns the changes that a call may make. What cannot be resolved will fail in the kernel too.
    pub fn all_of(notification: &libc::seccomp_notif) -> Vec<Self> {
        let deed = deed_of(notification.data.nr);
        deed.and_then(|deed| of(deed, notification.pid, notification.data.args))
            .unwrap_or_default()
    }

    /// Tells the recorder.
    pub fn tell(&self, recorder: &dyn Recorder) {
        match self {
            Self::Path { place, is_in_place } => {
                if recorder.covers(&place.path) {
                    recorder.before(UpcomingChange {
                        path: &place.path,
                        found: place.found.as_ref().map(OwnedFd::as_fd),
                        is_in_place: *is_in_place,
                    });
                }
            }
            Self::Move { from, to } => {
                if let Some(found) = &from.found
                    && (recorder.covers(&from.path) || recorder.covers(to))
                {
                    tell_moved(recorder, &from.path, to, found.as_fd());
                }
            }
        }
    }
}

/// Tells of what is moved, and of all below it: each old name goes, and each new one comes.
fn tell_moved(recorder: &dyn Recorder, from: &Path, to: &Path, found: BorrowedFd<'_>) {
    for (path, found) in [(from, Some(found)), (to, None)] {
        if recorder.covers(path) {
            recorder.before(UpcomingChange {
                path,
                found,
                is_in_place: false,
            });
        }
    }
    // Anything but a folder is an error here, and a folder that cannot be read is moved without its entries.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(entries) = openat(found, c".", flags, Mode::empty()).and_then(Dir::new) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(below) = openat(found, name, flags, Mode::empty()) {
            let name = OsStr::from_bytes(name.to_bytes());
            tell_moved(recorder, &from.join(name), &to.join(name), below.as_fd());
        }
    }
}

fn of(deed: Deed, thread: u32, arguments: [u64; 6]) -> Option<Vec<Change>> {
    let view = View::of(thread)?;
    let flags = |at: Option<u8>| at.map_or(0, |at| arguments[usize::from(at)]);
    let has = |value: u64, flag: u32| value & u64::from(flag) != 0;
    let place = |argument: PathArgument, follows| view.place(&arguments, argument, follows);
    let opened = |argument, flags: u64| {
        let is_new = has(flags, bits(libc::O_CREAT)) && has(flags, bits(libc::O_EXCL));
        let unnamed = u64::from(bits(libc::O_TMPFILE));
        let is_unnamed = flags & unnamed == unnamed;
        if is_unnamed || !is_changing(flags) {
            return None;
        }
        let follows = !is_new && !has(flags, bits(libc::O_NOFOLLOW));
        Some(vec![place(argument, follows)?.changed()])
    };
    match deed {
        Deed::Open(argument, at) => opened(argument, arguments[usize::from(at)]),
        Deed::OpenHow(argument, at) => opened(argument, view.word(arguments[usize::from(at)])?),
        Deed::Create(argument) | Deed::Change(argument) => {
            Some(vec![place(argument, true)?.changed()])
        }
        Deed::ChangeOpen(at) => {
            let path = view.descriptor(arguments[usize::from(at)] as i32)?;
            Some(vec![view.resolve(&path, true)?.changed()])
        }
        Deed::ChangeBy(argument, at) => {
            let follows = !has(flags(Some(at)), AtFlags::SYMLINK_NOFOLLOW.bits());
            Some(vec![place(argument, follows)?.changed()])
        }
        Deed::Make(argument) => {
            let place = place(argument, false)?;
            // It fails if something is there.
            Some(Vec::from_iter(
                place.found.is_none().then(|| place.renamed()),
            ))
        }
        Deed::Remove(argument) => Some(vec![place(argument, false)?.renamed()]),
        Deed::Move(from, to, at) => {
            const EXCHANGE: u32 = 2;
            let (from, to) = (place(from, false)?, place(to, false)?);
            let is_swap = has(flags(at), EXCHANGE);
            let (old, new) = (from.path.clone(), to.path.clone());
            let back = if is_swap {
                Change::Move { from: to, to: old }
            } else {
                to.renamed()
            };
            Some(vec![back, Change::Move { from, to: new }])
        }
        Deed::Link(from, to, at) => {
            let follows = has(flags(at), AtFlags::SYMLINK_FOLLOW.bits());
            let (from, to) = (place(from, follows)?, place(to, false)?);
            // From now on a change by the new name changes the old one too.
            Some(vec![from.changed(), to.renamed()])
        }
    }
}

fn bits(flags: i32) -> u32 {
    flags.unsigned_abs()
}

impl Place {
    fn changed(self) -> Change {
        Change::Path {
            place: self,
            is_in_place: true,
        }
    }

    fn renamed(self) -> Change {
        Change::Path {
            place: self,
            is_in_place: false,
        }
    }
}

impl View {
    fn of(thread: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{thread}/root"), flags, Mode::empty()).ok()?;
        Some(Self { thread, root })
    }

    /// Resolves a path argument; `follows` says whether the call follows a link at its end.
    fn place(&self, arguments: &[u64; 6], at: PathArgument, follows: bool) -> Option<Place> {
        let path = self.text(arguments[usize::from(at.path)])?;
        let folder = at.folder.map(|at| arguments[usize::from(at)] as i32);
        let path = match folder {
            _ if path.as_bytes().starts_with(b"/") => PathBuf::from(path),
            Some(number) if number != libc::AT_FDCWD => self.descriptor(number)?.join(path),
            _ => self.link("cwd")?.join(path),
        };
        self.resolve(&path, follows)
    }

    fn resolve(&self, path: &Path, follows: bool) -> Option<Place> {
        let mut path = self.own(path)?;
        for _ in 0..MAX_LINKS {
            let flags = match follows {
                true => OFlags::PATH | OFlags::CLOEXEC,
                false => OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            };
            match self.open(&path, flags) {
                Ok(found) => {
                    return Some(Place {
                        path: path_of(&found)?,
                        found: Some(found),
                    });
                }
                Err(Errno::NOENT) => {}
                Err(_) => return None,
            }
            // `file_name` and `parent` leave out a final `/`.
            let (folder, name) = (path.parent()?, path.file_name()?.to_owned());
            let folder = self.open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC);
            let folder = folder.ok()?;
            let full = path_of(&folder)?;
            match readlinkat(&folder, &name, Vec::new()) {
                // Its target is missing, and comes into being.
                Ok(target) if follows => {
                    path = full.join(OsString::from_vec(target.into_bytes()));
                }
                _ => {
                    return Some(Place {
                        path: full.join(name),
                        found: None,
                    });
                }
            }
        }
        None
    }

    /// Opens a path as the process would. Links of `/proc` lead nowhere: they would be those of this process.
    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, path, flags, Mode::empty(), resolve)
    }

    /// Returns the path that a name of an open file stands for, and other paths as they are.
    fn own(&self, path: &Path) -> Option<PathBuf> {
        let number = ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"]
            .iter()
            .find_map(|folder| path.strip_prefix(folder).ok());
        match number.and_then(Path::to_str).map(str::parse) {
            Some(Ok(number)) => self.descriptor(number),
            _ => Some(path.to_owned()),
        }
    }

    fn descriptor(&self, number: i32) -> Option<PathBuf> {
        self.link(&format!("fd/{number}"))
    }

    /// Returns where a link of the process in `/proc` leads, if that is a path.
    fn link(&self, name: &str) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/{}/{name}", self.thread)).ok()?;
        path.is_absolute().then_some(path)
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
        let remote =
            [(address, first), (address + first, length - first)].map(|(start, length)| {
                libc::iovec {
                    iov_base: start as *mut libc::c_void,
                    iov_len: length,
                }
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

/// Returns the path of an open file, if it has one still.
fn path_of(file: &OwnedFd) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let is_gone = fstat(file).ok()?.st_nlink == 0;
    (path.is_absolute() && !is_gone).then_some(path)
}
