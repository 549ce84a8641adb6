//! Ends the orphans of an `ah` process that was killed before it could end its children itself.
//!
//! Children outlive a parent that dies by SIGKILL. The process that resumes its session ends them first; their mark
//! holds the pid of the dead parent.

use std::collections::HashSet;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::tree::{GRACE, POLL_INTERVAL, Process, marks, processes, with_descendants};

/// Ends the orphans of the dead process `owner`: SIGTERM, and SIGKILL after a second. Returns when all are gone. Does
/// nothing if a process with that pid is alive, since its children are not orphans.
pub fn finish_orphans(owner: u32) {
    let kill_at = Instant::now() + GRACE;
    let (mut asked, mut are_killed) = (HashSet::new(), false);
    loop {
        let (left, are_all) = orphans(owner);
        let now = Instant::now();
        if left.is_empty() && are_all || are_killed && now > kill_at + GRACE {
            return;
        }
        are_killed = now >= kill_at;
        for pid in left {
            if now >= kill_at {
                let _ = kill_process(pid, Signal::KILL);
            } else if asked.insert(pid) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the orphans that are found, and whether they are all: what a process is cannot be seen at every moment.
fn orphans(owner: u32) -> (Vec<Pid>, bool) {
    let all = processes();
    let is_owner = |process: &Process| process.pid.as_raw_pid().unsigned_abs() == owner;
    let is_alive = all
        .iter()
        .any(|process| is_owner(process) && !process.is_dead);
    // This process may itself be such an orphan: a command that runs this program.
    if is_alive || is_marked(getpid(), owner) == Some(true) {
        return (Vec::new(), true);
    }
    let mut are_all = true;
    let (marked, others) = all
        .into_iter()
        .filter(|process| !process.is_dead)
        .partition(|process| {
            let is_marked = is_marked(process.pid, owner);
            are_all &= is_marked.is_some();
            is_marked == Some(true)
        });
    let orphans = with_descendants(marked, others)
        .into_iter()
        .map(|process| process.pid)
        .collect();
    (orphans, are_all)
}

fn is_marked(pid: Pid, owner: u32) -> Option<bool> {
    let own = format!("{owner:x}-");
    let marks = marks(pid)?;
    Some(marks.iter().any(|name| name.starts_with(&own)))
}
