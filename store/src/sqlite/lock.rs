//! The lock that lets only one process write a session. It is an operating system lock on a file of its own, which is
//! released when the process ends in any way, so it is never stale.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::paths::{open_or_create, open_to_read};

/// Number of attempts, and the interval between them, to get the lock of a holder that has died: a child that it was
/// just starting keeps the file open until its `exec`.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

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
        Self::try_take_pausing(path, || thread::sleep(PAUSE))
    }

    fn try_take_pausing(path: &Path, mut pause: impl FnMut()) -> io::Result<LockAttempt> {
        let mut tries = 0;
        loop {
            let mut file = open_or_create(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = read_pid(&file);
                    tries += 1;
                    if tries < TRIES && pid.is_some_and(has_died) {
                        pause();
                        continue;
                    }
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

    /// Returns whether a living process has the lock at `path`. It is not taken for that, unless the pid of a dead holder is
    /// another process's now.
    pub(super) fn is_held(path: &Path) -> bool {
        let Ok(file) = open_to_read(path) else {
            return false;
        };
        read_pid(&file).is_some_and(|pid| !has_died(pid))
            && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
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

/// Returns whether no process has this pid. One of another pid namespace is taken for dead.
fn has_died(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Returns whether the open `file` is still the one at `path`: the session may have been removed in between.
fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A lock file held through `File`, with the pid of `holder` in it.
    fn held(path: &Path, holder: u32) -> File {
        let mut file = open_or_create(path).unwrap();
        file.try_lock().unwrap();
        writeln!(file, "{holder}").unwrap();
        file
    }

    fn pid_of_a_dead_process() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn a_lock_left_to_a_child_of_a_dead_holder_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let dead = pid_of_a_dead_process();
        let file = held(&path, dead);
        let attempt = Lock::try_take_pausing(&path, || file.unlock().unwrap()).unwrap();
        let LockAttempt::Held(lock) = attempt else {
            panic!("the lock of a dead holder stays busy");
        };
        assert_eq!(lock.predecessor(), Some(dead));
    }

    #[test]
    fn a_lock_is_held_by_the_living_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!Lock::is_held(&path));
        let LockAttempt::Held(lock) = Lock::try_take(&path).unwrap() else {
            panic!("nobody has it");
        };
        assert!(Lock::is_held(&path));
        drop(lock);
        assert!(!Lock::is_held(&path));
        let file = held(&path, pid_of_a_dead_process());
        assert!(!Lock::is_held(&path));
        drop(file);
        // The pid is another process's now.
        drop(held(&folder.path().join("other"), std::process::id()));
        assert!(!Lock::is_held(&folder.path().join("other")));
    }

    #[test]
    fn a_lock_of_a_living_holder_is_busy_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let own = std::process::id();
        let _file = held(&path, own);
        let attempt = Lock::try_take_pausing(&path, || panic!("it waits")).unwrap();
        assert!(matches!(attempt, LockAttempt::Busy(Holder { pid: Some(pid) }) if pid == own));
    }

    #[test]
    fn a_lock_that_is_never_released_is_busy_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _file = held(&path, pid_of_a_dead_process());
        let mut pauses = 0;
        let attempt = Lock::try_take_pausing(&path, || pauses += 1).unwrap();
        assert!(matches!(attempt, LockAttempt::Busy(_)));
        assert_eq!(pauses, TRIES - 1);
    }
}
