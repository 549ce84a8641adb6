//! Private temporary folders. A killed run leaves them behind; a later one removes them.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

/// File in the folder that its run keeps locked. If it is not locked, the run was killed.
const LOCK: &str = ".lock";

/// A private temporary folder; removed when this value is dropped.
#[derive(Debug)]
pub struct OwnFolder {
    folder: TempDir,
    _lock: File,
}

impl OwnFolder {
    /// Creates a folder whose name begins with `prefix`. Abandoned folders with that prefix are removed.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn make(prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        sweep(folder.path(), prefix);
        let lock = lock(folder.path())?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks the folder. The lock file gets its name only once it is locked, so a new folder is never taken for an
/// abandoned one.
fn lock(folder: &Path) -> io::Result<File> {
    let unnamed = folder.join(".locking");
    let lock = File::create_new(&unnamed)?;
    lock.lock()?;
    fs::rename(unnamed, folder.join(LOCK))?;
    Ok(lock)
}

/// Removes the user's abandoned folders beside `own`.
fn sweep(own: &Path, prefix: &str) {
    let Some((beside, user)) = own.parent().zip(user(own)) else {
        return;
    };
    for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let folder = entry.path();
        if !name.to_string_lossy().starts_with(prefix) || self::user(&folder) != Some(user) {
            continue;
        }
        // Locked until the folder is removed, so that only one of two runs removes it. Failing to remove it does no
        // harm.
        let lock = File::open(folder.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok() && fs::remove_dir_all(&folder).is_ok()) {
            tracing::debug!(folder = %folder.display(), "left by a run that was killed, and removed");
        }
    }
}

/// Returns the owner of a folder; `None` for anything else, links included.
fn user(folder: &Path) -> Option<u32> {
    let metadata = fs::symlink_metadata(folder).ok()?;
    metadata.is_dir().then(|| metadata.uid())
}
