//! One worker per repository: a lock of the operating system, which ends with the process that holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// The process that held it before, if it did not give it back: it was killed.
    pub killed: Option<u32>,
}

/// Why the lock was not got.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("process {0} works on this repository")]
    Held(String),
    /// The file cannot be used.
    #[error("cannot lock the repository: {0}")]
    Io(#[from] io::Error),
}

impl Lock {
    /// Takes the lock whose file is `path`.
    ///
    /// # Errors
    ///
    /// Where another process holds it.
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
        // Who comes next looks for nothing that was left running.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_a_killed_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        assert_eq!(first.killed, None);
        let held = Lock::take(&path).unwrap_err().to_string();
        let own = std::process::id();
        assert_eq!(held, format!("process {own} works on this repository"));
        drop(first);
        assert_eq!(Lock::take(&path).unwrap().killed, None);
        std::fs::write(&path, "4242").unwrap();
        assert_eq!(Lock::take(&path).unwrap().killed, Some(4242));
    }
}
