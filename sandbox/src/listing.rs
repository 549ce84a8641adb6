//! Lists folders, also those that a command has closed to their owner: a program finds a file in them by its name, so what
//! is there counts although nobody can list it.

use std::fs::{self, Metadata, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, accessat};
#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, openat2};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// The right of an owner to search a folder, without which no name in it is found.
const SEARCHED: u32 = 0o100;
/// The rights of an owner to list a folder and to search it.
const LISTED: u32 = 0o400 | SEARCHED;

/// Returns whether a folder of this mode is closed to its owner.
pub(crate) fn is_closed(mode: u32) -> bool {
    mode & LISTED != LISTED
}

/// Returns whether this process cannot list the folder at this path, or find something in it. A privileged one can, whatever
/// the mode is.
pub(crate) fn is_out_of_reach(folder: &Path) -> bool {
    accessat(
        CWD,
        folder,
        Access::READ_OK | Access::EXEC_OK,
        AtFlags::EACCESS,
    )
    .is_err()
}

/// Lists a folder. If it is this user's and out of reach, it is opened up, and stays so.
pub(crate) fn entries(folder: &Path) -> io::Result<ReadDir> {
    open_closed(folder);
    fs::read_dir(folder)
}

/// Opens up the folder at this path if it is closed.
pub(crate) fn open_closed(folder: &Path) {
    if mode_of(folder).is_some_and(is_closed) && is_out_of_reach(folder) {
        // If it fails, it shows when the folder is read.
        let _ = open_up(folder);
    }
}

/// Opens up the folders on the way to `path` that cannot be searched. Returns whether there was one.
pub(crate) fn open_way(path: &Path) -> bool {
    let mut above: Vec<_> = path.ancestors().skip(1).collect();
    above.reverse();
    let opened = above.into_iter().filter(|folder| {
        mode_of(folder).is_some_and(|mode| mode & SEARCHED == 0) && open_up(folder).is_ok()
    });
    opened.count() > 0
}

/// Returns the mode of a folder; `None` if there is none at this path.
fn mode_of(folder: &Path) -> Option<u32> {
    let metadata = fs::symlink_metadata(folder).ok()?;
    metadata.is_dir().then(|| metadata.mode())
}

/// Looks at the file at `path`, also if a folder on the way was closed.
pub(crate) fn look(path: &Path) -> io::Result<Metadata> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && open_way(path) => {
            fs::symlink_metadata(path)
        }
        found => found,
    }
}

/// Returns whether nothing is at `path`, as far as it can be told.
pub(crate) fn is_absent(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};

    fs::symlink_metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// Gives the owner of a folder, if it is this user, the rights to list and to search it.
#[cfg(target_os = "linux")]
pub(crate) fn open_up(folder: &Path) -> io::Result<()> {
    let opened = open(folder)?;
    if fstat(&opened)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::ACCESS.into());
    }
    Ok(permit(&opened, LISTED)?)
}

/// Returns an error: elsewhere nothing is looked at after a command.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_up(_folder: &Path) -> io::Result<()> {
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Opens the folder at this path; fails if there are symbolic links on the way: a command may just be putting them there.
#[cfg(target_os = "linux")]
pub(crate) fn open(folder: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Adds rights to an opened folder.
#[cfg(target_os = "linux")]
pub(crate) fn permit(folder: &OwnedFd, rights: u32) -> Result<(), Errno> {
    use std::os::unix::fs::PermissionsExt as _;

    // What was opened only as a place has no other name that is safe.
    let place = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let metadata = fs::metadata(&place).map_err(|_| Errno::ACCESS)?;
    let mode = metadata.permissions().mode() | rights;
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(place, permissions).map_err(|_| Errno::ACCESS)
}
