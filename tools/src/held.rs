//! An entry of a folder that is held open, so that nothing that is put on its way meanwhile leads elsewhere: what was
//! looked at is what is touched.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, ResolveFlags};
use rustix::fs::{Mode, OFlags};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// A path that goes through what is held. It is good as long as this value is.
pub(crate) struct Held {
    path: PathBuf,
    _open: Option<OwnedFd>,
}

impl Held {
    /// The entry at a resolved path, which need not be there; its folder must. The entry may be a link.
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

    /// The folder at a resolved path.
    pub(crate) fn folder(path: &Path) -> io::Result<Self> {
        let open = open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self::of(open, path))
    }

    /// What was opened at a resolved path.
    pub(crate) fn of(open: OwnedFd, path: &Path) -> Self {
        let through = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        match fs::symlink_metadata(&through) {
            Ok(_) => Self {
                path: through,
                _open: Some(open),
            },
            // A system without it has no way that holds.
            Err(_) => Self {
                path: path.to_owned(),
                _open: None,
            },
        }
    }

    /// How it is reached.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens what is at a resolved path. It has no symbolic links, so one that is met was put there since, to lead elsewhere.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    // Without a new file there is no mode, and the kernel insists on that.
    let mode = match flags.contains(OFlags::CREATE) {
        true => mode,
        false => Mode::empty(),
    };
    #[cfg(target_os = "linux")]
    match rustix::fs::openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // A kernel, or a filter around us, that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return Ok(opened?),
    }
    Ok(rustix::fs::open(path, flags | OFlags::NOFOLLOW, mode)?)
}

/// Makes the folder at a resolved path, and those above it, where they are missing.
pub(crate) fn make_folders(folder: &Path) -> io::Result<()> {
    let missing: Vec<_> = { folder.ancestors() }
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
    fn a_link_that_was_put_on_the_way_leads_nowhere() {
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
