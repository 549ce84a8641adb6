//! Only one process works on a session at a time. The lock is the operating system's, on a file of its own, and ends
//! with the process however it ends: there is no such thing as a stale lock.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::paths::open_or_create;

/// Who holds a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The process, if it has had the time to say so.
    pub pid: Option<u32>,
}

/// A held lock; dropping it frees it.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    predecessor: Option<u32>,
}

/// What trying gave.
pub(super) enum Attempt {
    Held(Lock),
    Busy(Holder),
}

impl Lock {
    /// Takes the lock at `path` unless another process has it. The file is not removed afterwards: another process
    /// might have opened it already, and would then lock a file that nobody else sees.
    pub(super) fn try_take(path: &Path) -> io::Result<Attempt> {
        loop {
            let mut file = open_or_create(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&file);
                    return Ok(Attempt::Busy(Holder { pid }));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if is_still_at(&file, path) {
                let predecessor = read_pid(&file);
                file.set_len(0)?;
                file.rewind()?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Attempt::Held(Self { file, predecessor }));
            }
        }
    }

    /// The process that held the lock before and died with it.
    pub(super) fn predecessor(&self) -> Option<u32> {
        self.predecessor
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only who dies leaves a number behind.
        let _ = self.file.set_len(0);
        // Closing alone would not do: a child that is just being started has the file open until it runs its program.
        let _ = self.file.unlock();
    }
}

/// The number that the holder has written.
fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(20).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether `path` still names the open `file`: a session may have been removed in between.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
