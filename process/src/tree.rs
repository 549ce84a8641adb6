//! A child and all that came from it, also what left its process group or became a daemon.
//!
//! This process adopts orphans (it is a child subreaper), so whatever a child started is either below the child or
//! below an orphan among our own children. Such an orphan is the child's if it is in its group, or has its mark in
//! the environment. A process that leaves its group, drops its environment and loses its parent is not found; where
//! that must not be, a process namespace helps.

use std::collections::HashSet;
use std::fs;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    set_child_subreaper, waitid, waitpid,
};

use crate::living;

/// The variable that marks a child and all that it starts: the names of the children from the outermost on, joined
/// by colons, for one of them may be such a program as this.
pub(crate) const MARK: &str = "AH_CALL";

/// How long a process may take to end once it was asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Makes this process the parent of its children's orphans.
pub(crate) fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where it fails, daemons go unnoticed and all else works.
        let _ = set_child_subreaper(Some(getpid()));
    });
}

/// A child, its group and its descendants.
pub(crate) struct Tree {
    leader: Pid,
    name: String,
    is_reaped: bool,
    /// Who was asked to end already; a second TERM means haste to many.
    asked: HashSet<Pid>,
}

impl Tree {
    /// The tree of the child `leader`, marked with `name`.
    pub(crate) fn new(leader: Pid, name: String) -> Self {
        Self {
            leader,
            name,
            is_reaped: false,
            asked: HashSet::new(),
        }
    }

    /// Asks all that were not asked yet to end.
    pub(crate) fn terminate(&mut self) {
        self.terminate_group();
        let members = self.members(processes());
        self.terminate_each(&members);
    }

    /// Ends all that is there.
    pub(crate) fn kill(&self) {
        if !self.is_reaped {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        kill_each(&self.members(processes()));
    }

    /// Asks the group to end and says goodbye to the dead leader, which the caller reaps next: its number may be
    /// given to another process then, and what is left of the tree descends from orphans among our children.
    pub(crate) fn leave_leader(&mut self) {
        self.terminate_group();
        self.is_reaped = true;
    }

    /// Ends what the leader has left behind: asks, and kills at `kill_at`. Blocks until nothing is left.
    pub(crate) fn clear(&mut self, kill_at: Instant) {
        let give_up_at = kill_at + GRACE;
        while has_children() {
            let all = processes();
            self.reap_orphans(&all);
            let survivors = self.members(all);
            let now = Instant::now();
            if survivors.is_empty() || now > give_up_at {
                return;
            }
            if now < kill_at {
                self.terminate_each(&survivors);
            } else {
                kill_each(&survivors);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn terminate_group(&mut self) {
        if !self.is_reaped && self.asked.insert(self.leader) {
            let _ = kill_process_group(self.leader, Signal::TERM);
        }
    }

    fn terminate_each(&mut self, members: &[Process]) {
        for member in members {
            let had_it_with_the_group = member.group == Some(self.leader);
            if self.asked.insert(member.pid) && !had_it_with_the_group {
                let _ = kill_process(member.pid, Signal::TERM);
            }
        }
    }

    /// The processes of the tree that are alive.
    fn members(&self, all: Vec<Process>) -> Vec<Process> {
        let leaders = living::groups();
        let is_root = |process: &Process| match process.pid == self.leader {
            true => !self.is_reaped,
            false => process.is_orphan(&leaders) && self.owns(process),
        };
        let (mut members, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_root);
        let mut next = 0;
        while let Some(parent) = members.get(next).map(|process| process.pid) {
            members.extend(others.extract_if(.., |process| process.parent == Some(parent)));
            next += 1;
        }
        members.retain(|process| !process.is_dead);
        members
    }

    fn owns(&self, orphan: &Process) -> bool {
        orphan.group == Some(self.leader) || marks(orphan.pid).contains(&self.name)
    }

    /// Takes dead orphans off the list of processes. A dead one has no environment any more, so whose it was is told
    /// by its group, or by a session that is not ours: other children of this process stay with those who wait for
    /// them.
    fn reap_orphans(&self, all: &[Process]) {
        let leaders = living::groups();
        let own = all.iter().find(|process| process.pid == getpid());
        let session = own.and_then(|process| process.session);
        let is_ours = |process: &&Process| {
            let is_known = process
                .group
                .is_some_and(|group| group == self.leader || leaders.contains(&group));
            process.is_dead
                && process.is_orphan(&leaders)
                && (is_known || process.session != session)
        };
        for orphan in all.iter().filter(is_ours) {
            let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
        }
    }
}

/// The names of the children that the process descends from, as far as it can be seen.
pub(crate) fn marks(pid: Pid) -> Vec<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .filter(|(name, _)| *name == MARK)
        .flat_map(|(_, names)| names.split(':').map(str::to_owned))
        .collect()
}

fn kill_each(members: &[Process]) {
    for member in members {
        let _ = kill_process(member.pid, Signal::KILL);
    }
}

/// Whether this process has any child, dead or alive, its own or adopted. Far cheaper than to look at them all.
fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

/// A process as the kernel lists it.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
    /// `None` where it was made outside of our process namespace, as that of a container's first program can be; so
    /// for the session.
    group: Option<Pid>,
    session: Option<Pid>,
    pub(crate) is_dead: bool,
}

impl Process {
    /// Reads a line of `/proc/PID/stat`: the number, the name in parentheses, which may hold anything, the state,
    /// and the numbers of parent, group and session. `None` also for a process that the kernel is taking down just
    /// now, whose group and session it gives as -1.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        let mut number = || number(fields.next()?);
        Some(Self {
            pid: self::number(pid)??,
            parent: number()?,
            group: number()?,
            session: number()?,
            is_dead: matches!(state, "Z" | "X" | "x"),
        })
    }

    /// Whether it is a child of this process that we did not start.
    fn is_orphan(&self, leaders: &[Pid]) -> bool {
        self.parent == Some(getpid()) && !leaders.contains(&self.pid)
    }
}

/// The process that a field names, if 0 does not say that there is none.
fn number(field: &str) -> Option<Option<Pid>> {
    let number = field.parse().ok().filter(|number| *number >= 0)?;
    Some(Pid::from_raw(number))
}

/// All processes that there are.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        // A process that ends meanwhile is no fault. Its name need not be text.
        .filter_map(|entry| fs::read(entry.path().join("stat")).ok())
        .filter_map(|stat| Process::parse(&String::from_utf8_lossy(&stat)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let dead = Process::parse("12 (a) b) Z 1 12 0 0 -1 4194304").unwrap();
        assert_eq!(dead.pid, Pid::from_raw(12).unwrap());
        assert_eq!(dead.parent, Pid::from_raw(1));
        assert_eq!((dead.group, dead.session), (Some(dead.pid), None));
        assert!(dead.is_dead);
        assert!(!Process::parse("12 (sh) S 1 12 12 0").unwrap().is_dead);
    }

    /// So it is for all that `docker exec` starts in a container.
    #[test]
    fn a_group_and_a_session_of_another_namespace_have_no_number() {
        let foreign = Process::parse("12 (ah) S 0 0 0 0").unwrap();
        assert_eq!((foreign.group, foreign.session), (None, None));
    }

    #[test]
    fn a_process_that_is_being_taken_down_is_none() {
        for stat in [
            "12 (sh) X 0 -1 -1 0",
            "12 (sh) Z 1 12 -1 0",
            "-1 (sh) S 1 1 1",
            "",
            "12 (sh",
        ] {
            assert!(Process::parse(stat).is_none(), "{stat}");
        }
    }
}
