//! Temporary folders of ours, which only the user can enter. A run that is killed leaves them behind; a later one removes
//! them.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

/// The file in the folder that its run holds locked. Where nobody does, the run was killed.
const LOCK: &str = ".lock";

/// A folder that is there as long as this value is.
#[derive(Debug)]
pub struct OwnFolder {
    folder: TempDir,
    _lock: File,
}

impl OwnFolder {
    /// A new folder whose name begins with `prefix`. Others of that beginning are removed if nobody needs them.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks the folder. The lock has its name only once it is held, so nobody takes a folder that begins for one that was
/// left.
fn lock(folder: &Path) -> io::Result<File> {
    let unnamed = folder.join(".locking");
    let lock = File::create_new(&unnamed)?;
    lock.lock()?;
    fs::rename(unnamed, folder.join(LOCK))?;
    Ok(lock)
}

/// Removes the folders beside `own` that runs of the same user have left which could not clean up.
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
        // Held until the folder is gone, so that of two runs one removes it. What cannot be removed does no harm.
        let lock = File::open(folder.join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok() && fs::remove_dir_all(&folder).is_ok()) {
            tracing::debug!(folder = %folder.display(), "left by a run that was killed, and removed");
        }
    }
}

/// Whose folder it is, if it is one: a link leads to what nobody has left.
fn user(folder: &Path) -> Option<u32> {
    let metadata = fs::symlink_metadata(folder).ok()?;
    metadata.is_dir().then(|| metadata.uid())
}
