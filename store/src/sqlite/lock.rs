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
    _file: File,
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
                    let mut text = String::new();
                    let _ = file.take(20).read_to_string(&mut text);
                    let pid = text.trim().parse().ok();
                    return Ok(Attempt::Busy(Holder { pid }));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if is_still_at(&file, path) {
                file.set_len(0)?;
                file.rewind()?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Attempt::Held(Self { _file: file }));
            }
        }
    }
}

/// Whether `path` still names the open `file`: a session may have been removed in between.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
