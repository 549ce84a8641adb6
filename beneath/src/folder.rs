//! An open folder, and what can be done in it.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
use rustix::fs::ResolveFlags;
use rustix::fs::{AtFlags, CWD, Dir, Gid, Mode, OFlags, RawMode, Uid, fstat, openat, statat};
use rustix::io::Errno;

use crate::names::{check, names, way};
use crate::status::Status;

/// How folders are opened: as places, which needs no right to list them.
#[cfg(target_os = "linux")]
const PLACE: OFlags = OFlags::PATH;
/// How folders are opened.
#[cfg(not(target_os = "linux"))]
const PLACE: OFlags = OFlags::RDONLY;

/// An open folder. It stays the same one, wherever it is moved.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// A folder on the way is a symbolic link.
#[derive(Debug)]
pub struct LinkInPath(PathBuf);

impl fmt::Display for LinkInPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in its path is a symbolic link", self.0.display())
    }
}

impl Error for LinkInPath {}

/// Returns whether something failed because a folder on the way is a symbolic link.
pub fn has_link(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|error| error.is::<LinkInPath>())
}

impl Folder {
    /// Opens the folder at an absolute path without symbolic links.
    ///
    /// # Errors
    ///
    /// If there is no folder, or a symbolic link on the way, which is named.
    pub fn open(path: &Path) -> io::Result<Self> {
        let Ok(below) = path.strip_prefix("/") else {
            let text = format!("`{}` is a relative path", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        Self::top()?.folder(below)
    }

    /// Opens the folder around an absolute path without symbolic links. Returns also the name in it.
    ///
    /// # Errors
    ///
    /// If the path has no name, or as for [`Self::open`].
    pub fn around(path: &Path) -> io::Result<(Self, &OsStr)> {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => Ok((Self::open(folder)?, name)),
            _ => Err(io::Error::other("it has no name")),
        }
    }

    /// Opens the folder at a path that is not from data, which may be relative and lead through symbolic links. It is none
    /// itself.
    ///
    /// # Errors
    ///
    /// If there is no folder.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self(open_folder(CWD, path.as_os_str())?))
    }

    /// Opens the folder that a path leads to which is not from data, also if it is a symbolic link itself.
    ///
    /// # Errors
    ///
    /// If there is no folder.
    pub fn follow(path: &Path) -> io::Result<Self> {
        let flags = PLACE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens the root of the file system.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn top() -> io::Result<Self> {
        Ok(Self(open_folder(CWD, OsStr::new("/"))?))
    }

    /// Opens the folder at a path below this one.
    ///
    /// # Errors
    ///
    /// If there is none, a name on the way is a symbolic link, or the path would leave this folder.
    pub fn folder(&self, path: &Path) -> io::Result<Self> {
        match self.descend(path)? {
            (folder, 0) => Ok(folder),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Opens the deepest folder that exists on the way to a path below this one. Returns also how many names are missing
    /// behind it.
    ///
    /// # Errors
    ///
    /// If a name on the way is a symbolic link, or the path would leave this folder.
    pub fn descend(&self, path: &Path) -> io::Result<(Self, usize)> {
        let mut rest = way(path)?;
        let mut folder = open_folder(&self.0, OsStr::new("."))?;
        while !rest.is_empty() {
            // Several between two names are one.
            if let Some(names) = rest.strip_prefix(b"/") {
                rest = names;
                continue;
            }
            let end = in_one_call(rest);
            if let Some(opened) = open_at_once(&folder, &rest[..end]) {
                folder = opened;
                rest = &rest[end..];
                continue;
            }
            // Of a failure, the single names tell the place.
            let before = path.as_os_str().len() - rest.len();
            let before = OsStr::from_bytes(&path.as_os_str().as_bytes()[..before]);
            let (opened, missing) = descend_by_names(folder, &rest[..end], Path::new(before))?;
            folder = opened;
            rest = &rest[end..];
            if missing > 0 {
                return Ok((Self(folder), missing + count(rest)));
            }
        }
        Ok((Self(folder), 0))
    }

    /// Opens the folder at a path below this one. Creates the folders that are missing on the way, with `mode` less
    /// the umask.
    ///
    /// # Errors
    ///
    /// As for [`Self::folder`], and if a folder cannot be created.
    pub fn make_folders(&self, path: &Path, mode: u32) -> io::Result<Self> {
        let (mut folder, missing) = self.descend(path)?;
        let names = names(path)?;
        for name in &names[names.len() - missing..] {
            match folder.create_folder(name, mode) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => folder = folder.folder(Path::new(name))?,
            }
        }
        Ok(folder)
    }

    /// Opens the folder around a path below this one. Returns also the name in it.
    ///
    /// # Errors
    ///
    /// If the path has no name, or as for [`Self::folder`].
    pub fn entry<'a>(&self, path: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let (around, name) = parts(path)?;
        Ok((self.folder(around)?, name))
    }

    /// Returns what is at a path below this one; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// As for [`Self::folder`], but for a folder that is missing.
    pub fn look(&self, path: &Path) -> io::Result<Option<Status>> {
        let (around, name) = parts(path)?;
        match self.descend(around)? {
            (folder, 0) => folder.status(name),
            _ => Ok(None),
        }
    }

    /// Returns what has this name; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn status(&self, name: &OsStr) -> io::Result<Option<Status>> {
        match statat(&self.0, check(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the names in it.
    ///
    /// # Errors
    ///
    /// If it cannot be listed.
    pub fn list(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.to_list()?)? {
            let name = entry?.file_name().to_owned().into_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Returns the names of the regular files in it, in order.
    ///
    /// # Errors
    ///
    /// If it cannot be listed.
    pub fn files(&self) -> io::Result<Vec<OsString>> {
        let is_file = |name: &OsString| {
            let found = self.status(name);
            found.is_ok_and(|found| found.is_some_and(|found| found.is_file()))
        };
        let mut names = self.list()?;
        names.retain(is_file);
        names.sort();
        Ok(names)
    }

    /// Returns where the symbolic link of this name leads.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.0, check(name)?, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Opens the regular file of this name, without waiting for anybody.
    ///
    /// # Errors
    ///
    /// If it is something else, or the system refuses.
    pub fn open_file(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(&self.0, check(name)?, flags, Mode::empty())?;
        if Status::from(fstat(&opened)?).is_file() {
            return Ok(opened.into());
        }
        Err(io::Error::other("it is not a regular file"))
    }

    /// Creates a file, open for reading and writing, with this mode less the umask.
    ///
    /// # Errors
    ///
    /// If the name is taken, or the system refuses.
    pub fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_bits_truncate(raw(mode));
        Ok(openat(&self.0, check(name)?, flags, mode)?.into())
    }

    /// Creates a folder with this mode less the umask.
    ///
    /// # Errors
    ///
    /// If the name is taken, or the system refuses.
    pub fn create_folder(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let mode = Mode::from_bits_truncate(raw(mode));
        Ok(rustix::fs::mkdirat(&self.0, check(name)?, mode)?)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    ///
    /// If the name is taken, or the system refuses.
    pub fn create_link(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, check(name)?)?)
    }

    /// Gives the file at a path elsewhere, if it is no symbolic link, a further name in this folder (a hard link).
    ///
    /// # Errors
    ///
    /// If the name is taken, the file is on another file system, or the system refuses.
    pub fn add_name(&self, file: &Path, name: &OsStr) -> io::Result<()> {
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(CWD, file, &self.0, check(name)?, flags)?)
    }

    /// Gives the file `from` the name `to`, in the place of what has it.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.move_to(from, self, to)
    }

    /// Moves what has the name `from` into another folder, in the place of what has the name `to` there.
    ///
    /// # Errors
    ///
    /// If the other folder is on another file system, or the system refuses.
    pub fn move_to(&self, from: &OsStr, folder: &Self, to: &OsStr) -> io::Result<()> {
        let (from, to) = (check(from)?, check(to)?);
        Ok(rustix::fs::renameat(&self.0, from, &folder.0, to)?)
    }

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.0,
            check(name)?,
            AtFlags::empty(),
        )?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.0,
            check(name)?,
            AtFlags::REMOVEDIR,
        )?)
    }

    /// Removes what has this name, and all that is in it, however deep. Other processes may change it meanwhile: nothing
    /// outside of it goes.
    ///
    /// # Errors
    ///
    /// If the system refuses. What is left of it stays.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        match self.status(name)? {
            None => return Ok(()),
            Some(found) if !found.is_folder() => return self.remove_file(name),
            Some(_) => {}
        }
        let top = self.folder(Path::new(name))?;
        let mut count = 0_u64;
        loop {
            let names = top.list()?;
            if names.is_empty() {
                return self.remove_folder(name);
            }
            for name in names {
                if top.status(&name)?.is_some_and(|found| found.is_folder()) {
                    top.raise_folders(&name, &mut count)?;
                } else {
                    top.remove_file(&name)?;
                }
            }
        }
    }

    /// Removes a folder with its files. The folders in it come into this one, each under the next number that is free, so
    /// that their depth takes neither memory nor open files.
    fn raise_folders(&self, name: &OsStr, count: &mut u64) -> io::Result<()> {
        let folder = self.folder(Path::new(name))?;
        for below in folder.list()? {
            if !folder
                .status(&below)?
                .is_some_and(|found| found.is_folder())
            {
                folder.remove_file(&below)?;
                continue;
            }
            if folder.remove_folder(&below).is_ok() {
                continue;
            }
            let free = loop {
                *count += 1;
                let free = OsString::from(format!(".removed-{count}"));
                if self.status(&free)?.is_none() {
                    break free;
                }
            };
            // To get another folder above it, its owner must be able to write it.
            let _ = folder.set_mode(&below, 0o700);
            folder.move_to(&below, self, &free)?;
        }
        self.remove_folder(name)
    }

    /// Sets the permission bits of what has this name.
    ///
    /// # Errors
    ///
    /// If it is a symbolic link, or the system refuses.
    pub fn set_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let name = check(name)?;
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            use std::os::unix::fs::PermissionsExt as _;

            let flags = PLACE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = openat(&self.0, name, flags, Mode::empty())?;
            if Status::from(fstat(&opened)?).is_link() {
                return Err(io::Error::other(LinkInPath(name.into())));
            }
            // What was opened as a place has no other name that is safe.
            let place = format!("/proc/self/fd/{}", opened.as_raw_fd());
            std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let mode = Mode::from_bits_truncate(raw(mode));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            Ok(rustix::fs::chmodat(&self.0, name, mode, flags)?)
        }
    }

    /// Gives what has this name another user and group.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn set_owner(&self, name: &OsStr, (user, group): (u32, u32)) -> io::Result<()> {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(
            &self.0,
            check(name)?,
            Some(user),
            Some(group),
            flags,
        )?)
    }

    /// Makes the names in it durable.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.to_list()?)?)
    }

    /// Opens it once more: a place can neither be listed nor synced itself.
    fn to_list(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.0, ".", flags, Mode::empty())
    }

    /// Returns a path of this name through the open folder, for calls that know only paths; they must not follow links. It is
    /// valid as long as this value lives. Where the system has no such paths, it is that of the folder now.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn place(&self, name: &OsStr) -> io::Result<PathBuf> {
        let name = check(name)?;
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            Ok(PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(name))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let folder = rustix::fs::getpath(&self.0)?.into_bytes();
            Ok(PathBuf::from(OsString::from_vec(folder)).join(name))
        }
    }
}

fn open_folder(at: impl std::os::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    crate::between_calls();
    let flags = PLACE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Opens the deepest folder that exists on the way, name by name. Returns also how many names are missing. `before` is the way to
/// the first one.
fn descend_by_names(
    mut folder: OwnedFd,
    way: &[u8],
    before: &Path,
) -> io::Result<(OwnedFd, usize)> {
    let names = names(Path::new(OsStr::from_bytes(way)))?;
    for (at, name) in names.iter().enumerate() {
        let missing = names.len() - at;
        match open_folder(&folder, name) {
            Ok(next) => folder = next,
            Err(Errno::NOENT) => return Ok((folder, missing)),
            Err(errno) => {
                let found = statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW);
                if found.map(Status::from).is_ok_and(|found| found.is_link()) {
                    let link = before.join(names[..=at].iter().collect::<PathBuf>());
                    return Err(io::Error::other(LinkInPath(link)));
                }
                return match errno {
                    Errno::NOTDIR => Ok((folder, missing)),
                    errno => Err(errno.into()),
                };
            }
        }
    }
    Ok((folder, 0))
}

/// Returns how many names a way has.
fn count(way: &[u8]) -> usize {
    Path::new(OsStr::from_bytes(way)).components().count()
}

/// Returns how many bytes of a way one call may have: whole names.
fn in_one_call(way: &[u8]) -> usize {
    /// Bytes of a path, less than the kernel takes.
    const LONGEST: usize = 4_000;
    if way.len() <= LONGEST {
        return way.len();
    }
    let slash = |part: &[u8]| part.iter().position(|byte| *byte == b'/');
    let last = way[..LONGEST].iter().rposition(|byte| *byte == b'/');
    let next = || slash(&way[LONGEST..]).map(|at| LONGEST + at);
    last.or_else(next).map_or(way.len(), |at| at + 1)
}

/// Opens a folder through several others, none of which is a symbolic link; `None` if that fails, or where no call can do it.
fn open_at_once(folder: &OwnedFd, way: &[u8]) -> Option<OwnedFd> {
    crate::between_calls();
    #[cfg(target_os = "linux")]
    {
        let flags = PLACE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(folder, way, flags, Mode::empty(), resolve).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (folder, way);
        None
    }
}

/// Returns the folder and the name of a relative path.
fn parts(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| io::Error::other("it has no name"))
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "the type depends on the system"
)]
fn raw(mode: u32) -> RawMode {
    RawMode::try_from(mode).unwrap_or_default()
}
