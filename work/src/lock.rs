//! Lock file that admits one worker per repository. The operating system releases it when the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// Lock, held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// Previous holder, if it was killed before it released the lock.
    pub killed: Option<u32>,
}

/// Error of taking the lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("process {0} is already working on this repository")]
    Held(String),
    /// The lock file cannot be used.
    #[error("cannot lock the repository: {0}")]
    Io(#[from] io::Error),
}

impl Lock {
    /// Takes the lock with the lock file `path`.
    ///
    /// # Errors
    ///
    /// If another process holds it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let locked = file.try_lock();
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let holder = text.trim().to_owned();
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(std::process::id().to_string().as_bytes())?;
        Ok(Self {
            file,
            killed: holder.parse().ok(),
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // An empty file tells the next holder that this process was not killed.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_exclusive_and_names_a_killed_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        assert_eq!(first.killed, None);
        let held = Lock::take(&path).unwrap_err().to_string();
        let own = std::process::id();
        assert_eq!(
            held,
            format!("process {own} is already working on this repository")
        );
        drop(first);
        assert_eq!(Lock::take(&path).unwrap().killed, None);
        std::fs::write(&path, "4242").unwrap();
        assert_eq!(Lock::take(&path).unwrap().killed, Some(4242));
    }
}
