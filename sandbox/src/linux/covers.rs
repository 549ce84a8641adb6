//! Mounts that withhold files from a command without a sandbox and from all that it starts, whatever program asks: an own
//! user and mount namespace in which they are covered, and the folders above them cannot be moved.
//!
//! A rule of Landlock cannot do it, since one for a folder holds for all that is made in it. Everything else is as outside:
//! the user and, for root, all other users have the same numbers. The mounts cannot be taken off inside: the right to mount
//! is given up, and namespaces made later get them locked.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, accessat, fstat, open, openat2,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, open_tree,
};
use rustix::process::{getgid, getuid};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use super::mounts::{attach, set_attributes};
use super::setup::SetupResult;
use super::users::Users;
use crate::bounds::Withheld;

/// Longest path of a working directory.
const LONGEST: usize = libc::PATH_MAX as usize;

/// What is mounted, made before the process is forked.
pub(super) struct Covers {
    users: Users,
    /// Folders that are mounted over themselves, so that they cannot be moved; those above others first.
    pinned: Vec<CString>,
    unreadable: Vec<CString>,
    read_only: Vec<CString>,
    not_executable: Vec<CString>,
}

impl Covers {
    /// Prepares what is needed; `None` if nothing is withheld.
    pub(super) fn over(withheld: &Withheld) -> SetupResult<Option<Self>> {
        if withheld.is_empty() {
            return Ok(None);
        }
        let paths = |paths: &[PathBuf]| -> SetupResult<Vec<CString>> {
            paths.iter().map(|path| named(path)).collect()
        };
        let placed = withheld.reading.iter().chain(&withheld.editing);
        let mut above: Vec<&Path> = placed.flat_map(|path| movable_above(path)).collect();
        above.sort_by_key(|folder| (folder.components().count(), *folder));
        above.dedup();
        Ok(Some(Self {
            users: Users::same(getuid(), getgid())?,
            pinned: above.into_iter().map(named).collect::<SetupResult<_>>()?,
            unreadable: paths(&withheld.reading)?,
            read_only: paths(&withheld.editing)?,
            not_executable: paths(&withheld.running)?,
        }))
    }

    /// Covers the files for this process for ever. Allocates nothing.
    pub(super) fn spread(&self) -> io::Result<()> {
        self.users.enter()?;
        let mut place = [0; LONGEST];
        // SAFETY: the buffer is as long as it is said to be.
        let is_named = unsafe { libc::getcwd(place.as_mut_ptr(), place.len()) };
        if is_named.is_null() {
            return Err(io::Error::last_os_error());
        }
        for folder in &self.pinned {
            cover(folder, MountAttrFlags::empty())?;
        }
        for path in &self.read_only {
            cover(path, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        }
        for path in &self.not_executable {
            cover(path, MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
        }
        self.hide()?;
        // A relative path would lead to what is below the mounts.
        // SAFETY: the kernel has written a string that ends with a zero.
        if unsafe { libc::chdir(place.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(remove_capability_from_bounding_set(
            CapabilitySet::SYS_ADMIN,
        )?)
    }

    fn hide(&self) -> io::Result<()> {
        if self.unreadable.is_empty() {
            return Ok(());
        }
        for path in &self.unreadable {
            let Some(target) = find(path)? else { continue };
            let is_folder = FileType::from_raw_mode(fstat(&target)?.st_mode).is_dir();
            let tree = if is_folder {
                empty_folder()?
            } else {
                // Where devices do not work, it can be opened by nobody, root included.
                let device = open(c"/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                let tree = clone(&device)?;
                let nodev = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_RDONLY;
                set_attributes(&tree, nodev, false)?;
                tree
            };
            attach(&tree, &target)?;
        }
        Ok(())
    }
}

/// Returns the folders above a path that this process could move.
fn movable_above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|folder| {
        let above = folder.parent();
        above.is_some_and(|above| accessat(CWD, above, Access::WRITE_OK, AtFlags::EACCESS).is_ok())
    })
}

fn named(path: &Path) -> SetupResult<CString> {
    let named = CString::new(path.as_os_str().as_bytes());
    named.map_err(|error| format!("{}: {error}", path.display()))
}

/// Mounts what is at a path over itself.
fn cover(path: &CStr, attributes: MountAttrFlags) -> io::Result<()> {
    let Some(target) = find(path)? else {
        return Ok(());
    };
    let tree = clone(&target)?;
    if !attributes.is_empty() {
        set_attributes(&tree, attributes, true)?;
    }
    Ok(attach(&tree, &target)?)
}

/// Opens what is at a path without symbolic links; `None` if there is nothing, or nothing that this user can reach.
fn find(path: &CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn clone(tree: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(tree.as_fd(), c"", flags)
}

/// Makes an empty folder that nobody can look into.
pub(super) fn empty_folder() -> io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, c"mode", c"0")?;
    fsconfig_set_string(&context, c"size", c"4k")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID;
    Ok(fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}
