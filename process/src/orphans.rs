//! What a program of ours has left running that was killed before it could end its children itself.
//!
//! Nobody is told when a process dies by `kill -9`, so its children go on. Whoever takes its work up ends them first:
//! they carry its number in their mark.

use std::collections::HashSet;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::tree::{GRACE, LOOK_EVERY, Process, marks, processes};

/// Ends what the dead process `owner` has left running: asks, and kills what is still there after a second. Returns
/// when all is gone. If a process of that number lives, nothing is done: what runs is its own.
pub fn finish_orphans(owner: u32) {
    let kill_at = Instant::now() + GRACE;
    let mut asked = HashSet::new();
    loop {
        let left = orphans(owner);
        let now = Instant::now();
        if left.is_empty() || now > kill_at + GRACE {
            return;
        }
        for pid in left {
            if now >= kill_at {
                let _ = kill_process(pid, Signal::KILL);
            } else if asked.insert(pid) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn orphans(owner: u32) -> Vec<Pid> {
    let all = processes();
    let is_owner = |process: &Process| process.pid.as_raw_pid().unsigned_abs() == owner;
    let is_alive = all
        .iter()
        .any(|process| is_owner(process) && !process.is_dead);
    // We may be one of them ourselves: a command that runs this program.
    if is_alive || is_marked(getpid(), owner) {
        return Vec::new();
    }
    let (mut members, mut others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(|process| !process.is_dead)
        .partition(|process| is_marked(process.pid, owner));
    let mut next = 0;
    while let Some(parent) = members.get(next).map(|process| process.pid) {
        members.extend(others.extract_if(.., |process| process.parent == Some(parent)));
        next += 1;
    }
    members.into_iter().map(|process| process.pid).collect()
}

fn is_marked(pid: Pid, owner: u32) -> bool {
    let own = format!("{owner:x}-");
    marks(pid).iter().any(|name| name.starts_with(&own))
}
