//! Paths through an open directory, so that a symbolic link that is put into the path meanwhile leads nowhere else: the
//! file that was checked is the one that is touched.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, ResolveFlags};
use rustix::fs::{Mode, OFlags};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// A path through an open directory or file; valid as long as this value lives.
pub(crate) struct Held {
    path: PathBuf,
    _open: Option<OwnedFd>,
}

impl Held {
    /// Opens the folder of a resolved path. The entry itself need not exist, and may be a link.
    pub(crate) fn entry(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("it has no name"));
        };
        let Self { path, _open } = Self::folder(folder)?;
        Ok(Self {
            path: path.join(name),
            _open,
        })
    }

    /// Opens the folder at a resolved path.
    pub(crate) fn folder(path: &Path) -> io::Result<Self> {
        let open = open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self::of(open, path))
    }

    /// Returns the path through what was opened at a resolved path.
    pub(crate) fn of(open: OwnedFd, path: &Path) -> Self {
        let through = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        match fs::symlink_metadata(&through) {
            Ok(_) => Self {
                path: through,
                _open: Some(open),
            },
            // Without `/proc` there is no such path.
            Err(_) => Self {
                path: path.to_owned(),
                _open: None,
            },
        }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens what is at a resolved path. It has no symbolic links, so one that is met was put there since, and is refused.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    // The kernel refuses a mode where no file can be created.
    let mode = if flags.contains(OFlags::CREATE) {
        mode
    } else {
        Mode::empty()
    };
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // The kernel, or a filter around this process, does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return Ok(opened?),
    }
    Ok(rustix::fs::open(path, flags | OFlags::NOFOLLOW, mode)?)
}

/// Creates the folder at a resolved path and its parents, where they are missing.
pub(crate) fn make_folders(folder: &Path) -> io::Result<()> {
    let missing: Vec<_> = folder
        .ancestors()
        .take_while(|folder| fs::symlink_metadata(folder).is_err())
        .collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(Held::entry(folder)?.path()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_was_put_into_the_path_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in ["inside", "outside"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let held = Held::entry(&root.join("inside/file")).unwrap();
        fs::rename(root.join("inside"), root.join("moved")).unwrap();
        symlink("outside", root.join("inside")).unwrap();
        fs::write(held.path(), "text").unwrap();
        assert!(root.join("moved/file").exists());
        assert!(!root.join("outside/file").exists());
        assert!(Held::entry(&root.join("inside/file")).is_err());
        assert!(make_folders(&root.join("inside/a/b")).is_err());
        assert!(!root.join("outside/a").exists());
        make_folders(&root.join("moved/a/b")).unwrap();
        assert!(root.join("moved/a/b").is_dir());
    }
}
