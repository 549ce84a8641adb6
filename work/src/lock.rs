//! Lock file that admits one worker per repository. The operating system releases it when the process ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use ah_git::own_files::open_lock;

/// Number of attempts, and the interval between them, to get the lock of a holder that has died: a child that it was
/// just starting keeps the file open until its `exec`.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

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
        Self::take_pausing(path, || thread::sleep(PAUSE))
    }

    /// Takes the lock, and ends what its killed holder has left running.
    ///
    /// # Errors
    ///
    /// If another process holds it.
    pub async fn take_over(path: &Path) -> Result<Self, LockError> {
        let lock = Self::take(path)?;
        if let Some(killed) = lock.killed {
            let ended = tokio::task::spawn_blocking(move || ah_process::finish_orphans(killed));
            ended.await.map_err(std::io::Error::other)?;
        }
        Ok(lock)
    }

    fn take_pausing(path: &Path, mut pause: impl FnMut()) -> Result<Self, LockError> {
        let mut file = open_lock(path)?;
        let mut tries = 0;
        loop {
            let locked = file.try_lock();
            let mut text = String::new();
            file.rewind()?;
            file.read_to_string(&mut text)?;
            let holder = text.trim().to_owned();
            match locked {
                Ok(()) => {
                    file.set_len(0)?;
                    file.rewind()?;
                    file.write_all(std::process::id().to_string().as_bytes())?;
                    let killed = holder.parse().ok();
                    return Ok(Self { file, killed });
                }
                Err(TryLockError::WouldBlock) => {
                    tries += 1;
                    if tries == TRIES || !has_died(&holder) {
                        return Err(LockError::Held(holder));
                    }
                    pause();
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // An empty file tells the next holder that this process was not killed.
        let _ = self.file.set_len(0);
        // Closing is not enough: a child that is just being started has the file open until it executes its program.
        let _ = self.file.unlock();
    }
}

/// Returns whether no process has this pid. One of another pid namespace is taken for dead.
fn has_died(pid: &str) -> bool {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
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

    #[test]
    fn a_lock_left_to_a_child_of_a_dead_holder_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        for (holder, is_released) in [
            (child.id(), true),
            (child.id(), false),
            (std::process::id(), false),
        ] {
            let file = File::create(&path).unwrap();
            file.lock().unwrap();
            std::fs::write(&path, holder.to_string()).unwrap();
            let mut pauses = 0;
            let taken = Lock::take_pausing(&path, || {
                pauses += 1;
                if is_released {
                    file.unlock().unwrap();
                }
            });
            let expected = match (is_released, holder == child.id()) {
                (true, _) => 1,
                (false, true) => TRIES - 1,
                (false, false) => 0,
            };
            assert_eq!((taken.is_ok(), pauses), (is_released, expected));
        }
    }
}
