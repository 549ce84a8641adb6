//! The lock that lets only one process write a session. It is an operating system lock on a file of its own, which is
//! released when the process ends in any way, so it is never stale.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::paths::open_or_create;

/// The process that has a session open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its pid; `None` if it has not written it yet.
    pub pid: Option<u32>,
}

/// A held lock; dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    predecessor: Option<u32>,
}

/// Result of trying to take a lock.
pub(super) enum LockAttempt {
    Held(Lock),
    Busy(Holder),
}

impl Lock {
    /// Takes the lock at `path` unless another process has it. The file is not removed on release: another process
    /// might have opened it already, and would then lock a file that is no longer at this path.
    pub(super) fn try_take(path: &Path) -> io::Result<LockAttempt> {
        loop {
            let mut file = open_or_create(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&file);
                    return Ok(LockAttempt::Busy(Holder { pid }));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if is_still_at(&file, path) {
                let predecessor = read_pid(&file);
                file.set_len(0)?;
                file.rewind()?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(LockAttempt::Held(Self { file, predecessor }));
            }
        }
    }

    /// Returns the pid of the previous holder, if it died without releasing the lock.
    pub(super) fn predecessor(&self) -> Option<u32> {
        self.predecessor
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A remaining pid means that the holder has died.
        let _ = self.file.set_len(0);
        // Closing is not enough: a child that is just being started has the file open until it executes its program.
        let _ = self.file.unlock();
    }
}

/// Returns the pid that the holder has written.
fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns whether the open `file` is still the one at `path`: the session may have been removed in between.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
