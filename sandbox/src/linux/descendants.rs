//! Ends all that a process has below it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// Bounds the time for a command that starts processes faster than they can be killed.
const GENERATIONS: usize = 10_000;
/// Time that killed processes have to end before the list is read again.
const PAUSE: Duration = Duration::from_micros(200);

/// The children of this process: its own, and those that it has adopted.
pub(super) struct Children {
    /// Open from the start, since a command may take the right to open files from processes of its user.
    list: Result<File, Errno>,
}

impl Children {
    /// Opens the list of the children of this process, which has one thread. `proc` is what the kernel tells of processes by
    /// the numbers that they have here.
    pub(super) fn listed_in(proc: impl AsFd) -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let list = openat(proc, "thread-self/children", flags, Mode::empty());
        Self {
            list: list.map(File::from),
        }
    }

    /// Kills and reaps all children, and theirs, which become children of this process. Returns whether none is left: it
    /// cannot be seen which there are on kernels without such a list.
    pub(super) fn end(&self) -> bool {
        for _ in 0..GENERATIONS {
            match wait(WaitOptions::NOHANG) {
                Err(Errno::CHILD) => return true,
                Ok(Some(_)) | Err(Errno::INTR) => continue,
                Ok(None) => {}
                Err(_) => return false,
            }
            let children = self.read();
            if children.is_empty() {
                return false;
            }
            for child in children {
                let _ = kill_process(child, Signal::KILL);
            }
            // One may be withheld from its parent by a process that traces it, which is listed once its own parent is dead: none
            // is waited for alone.
            thread::sleep(PAUSE);
        }
        false
    }

    fn read(&self) -> Vec<Pid> {
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(list) = &self.list
            && let Ok(length @ 1..) = list.read_at(&mut part, text.len() as u64)
        {
            text.extend_from_slice(&part[..length]);
        }
        let text = String::from_utf8_lossy(&text);
        let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    }
}
