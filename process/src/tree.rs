//! The process tree of a child: all its descendants, including those that left its process group or became daemons.
//!
//! This process adopts orphans (it is a child subreaper), so every descendant is either below the child or below an
//! orphan among the children of this process. Such an orphan belongs to the child if it is in its group or has its mark
//! in the environment. A process that leaves its group, drops its environment and loses its parent is not found; only a
//! process namespace prevents that.

use std::collections::HashSet;
use std::fs;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
    set_child_subreaper, waitid, waitpgid, waitpid,
};

use crate::living;

/// Environment variable that marks a child and its descendants: the names of nested children, outermost first, joined
/// by colons, since a child may run this program again.
pub(crate) const MARK: &str = "AH_CALL";

/// Time a process has to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Number of times that the children are looked at until they are twice the same.
const LOOKS: usize = 8;

/// Makes this process the parent of its children's orphans.
pub(crate) fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // If it fails, only daemons go unnoticed.
        let _ = set_child_subreaper(Some(getpid()));
    });
}

/// A child, its group and its descendants.
pub(crate) struct Tree {
    leader: Pid,
    name: String,
    is_reaped: bool,
    /// Processes that were sent SIGTERM; many programs take a second one as a request to hurry.
    terminated: HashSet<Pid>,
}

impl Tree {
    /// Creates the tree of the child `leader`, marked with `name`.
    pub(crate) fn new(leader: Pid, name: String) -> Self {
        Self {
            leader,
            name,
            is_reaped: false,
            terminated: HashSet::new(),
        }
    }

    /// Sends SIGTERM to all processes that have not been sent one yet.
    pub(crate) fn terminate(&mut self) {
        self.terminate_group();
        let members = self.members(processes());
        self.terminate_each(&members);
    }

    /// Kills all processes.
    pub(crate) fn kill(&self) {
        if !self.is_reaped {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        kill_each(&self.members(processes()));
    }

    /// Terminates the group and forgets the dead leader, which the caller reaps next: its pid may be reused then, and
    /// the rest of the tree descends from orphans among the children of this process.
    pub(crate) fn leave_leader(&mut self) {
        self.terminate_group();
        self.is_reaped = true;
    }

    /// Ends the descendants that the leader has left: SIGTERM, and SIGKILL at `kill_at`. Blocks until none is left, or those
    /// that were killed do not end.
    pub(crate) fn clear(&mut self, kill_at: Instant) {
        // It may be late: what the leader has written is on the disk by now.
        let kill_at = kill_at.max(Instant::now());
        let mut are_killed = false;
        while has_children() {
            let children = children();
            self.reap_orphans(&children);
            let now = Instant::now();
            if !self.may_have_root_in(&children) || are_killed && now > kill_at + GRACE {
                return;
            }
            let survivors = self.members(processes());
            if now < kill_at {
                self.terminate_each(&survivors);
            } else {
                kill_each(&survivors);
                are_killed = true;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Reaps the rest of the group, whose members are dead or dying and have become children of this process. A kill of the
    /// group ends a launcher before it can reap them, and their process namespace stays until somebody does.
    pub(crate) fn reap_group(&self) {
        let last = Instant::now() + GRACE;
        loop {
            match waitpgid(self.leader, WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) if Instant::now() < last => thread::sleep(Duration::from_millis(1)),
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn terminate_group(&mut self) {
        if !self.is_reaped && self.terminated.insert(self.leader) {
            let _ = kill_process_group(self.leader, Signal::TERM);
        }
    }

    fn terminate_each(&mut self, members: &[Process]) {
        for member in members {
            let is_in_group = member.group == Some(self.leader);
            if self.terminated.insert(member.pid) && !is_in_group {
                let _ = kill_process(member.pid, Signal::TERM);
            }
        }
    }

    /// Returns the processes of the tree that are alive.
    fn members(&self, all: Vec<Process>) -> Vec<Process> {
        let leaders = living::groups();
        let is_root = |process: &Process| self.is_root(process, &leaders) == Some(true);
        let (roots, others) = all.into_iter().partition(is_root);
        let mut members = with_descendants(roots, others);
        members.retain(|process| !process.is_dead);
        members
    }

    /// Returns whether a process of the tree may be alive: each is one of these children of this process, or below one.
    fn may_have_root_in(&self, children: &[Process]) -> bool {
        let leaders = living::groups();
        let may_be_root =
            |child: &Process| !child.is_dead && self.is_root(child, &leaders) != Some(false);
        children.iter().any(may_be_root)
    }

    /// Returns whether a process is one that all others of the tree are below; `None` if that cannot be seen just now.
    fn is_root(&self, process: &Process, leaders: &[Pid]) -> Option<bool> {
        if process.pid == self.leader {
            Some(!self.is_reaped)
        } else if process.is_orphan(leaders) {
            self.owns(process)
        } else {
            Some(false)
        }
    }

    fn owns(&self, orphan: &Process) -> Option<bool> {
        if orphan.group == Some(self.leader) {
            Some(true)
        } else {
            marks(orphan.pid).map(|marks| marks.contains(&self.name))
        }
    }

    /// Reaps dead orphans. A dead process has no environment any more, so it is recognised by its group, or by a
    /// session other than that of this process: other children are reaped by the code that waits for them.
    fn reap_orphans(&self, children: &[Process]) {
        // One that is just being started may have a session of its own already.
        let is_starting = living::is_starting();
        let leaders = living::groups();
        let session = process("self").and_then(|own| own.session);
        let is_ours = |process: &&Process| {
            let is_known = process
                .group
                .is_some_and(|group| group == self.leader || leaders.contains(&group));
            process.is_dead
                && process.is_orphan(&leaders)
                && (is_known || !is_starting && process.session != session)
        };
        for orphan in children.iter().filter(is_ours) {
            let _ = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
        }
    }
}

/// Returns the names of the children that the process descends from, as its environment tells; `None` while it goes from
/// one program to the next or ends, when the kernel shows no environment, or a part of it.
pub(crate) fn marks(pid: Pid) -> Option<Vec<String>> {
    let pid = pid.as_raw_pid();
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        // It is gone, or of another user.
        return Some(Vec::new());
    };
    let is_whole = |now: Process| now.is_dead || now.environment == Some(environment.len());
    if !process(&pid.to_string()).is_none_or(is_whole) {
        return None;
    }
    let marks = environment
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .filter(|(name, _)| *name == MARK)
        .flat_map(|(_, names)| names.split(':').map(str::to_owned))
        .collect();
    Some(marks)
}

fn kill_each(members: &[Process]) {
    for member in members {
        let _ = kill_process(member.pid, Signal::KILL);
    }
}

/// Returns `roots` with all their descendants among `others`.
pub(crate) fn with_descendants(roots: Vec<Process>, mut others: Vec<Process>) -> Vec<Process> {
    let mut members = roots;
    let mut next = 0;
    while let Some(parent) = members.get(next).map(|process| process.pid) {
        members.extend(others.extract_if(.., |process| process.parent == Some(parent)));
        next += 1;
    }
    members
}

/// Returns whether this process has any child, dead or alive, its own or adopted. Far cheaper than listing them.
fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

/// Flag of a thread of the kernel (`PF_KTHREAD` in the kernel's `sched.h`).
const KERNEL_THREAD: usize = 0x0020_0000;

/// A process as the kernel lists it.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
    /// Process group; `None` if it was created outside of this process namespace, as the first program of a container
    /// can be. The same goes for the session.
    group: Option<Pid>,
    session: Option<Pid>,
    /// Length of its environment in bytes; `None` while it has no program: it is replacing its own, or it ends.
    environment: Option<usize>,
    pub(crate) is_dead: bool,
}

impl Process {
    /// Parses `/proc/PID/stat`, see `proc_pid_stat(5)`: pid, name in parentheses, which may hold anything, and fields that
    /// are counted from 3. Returns `None` for a thread of the kernel, and for a process that the kernel is just removing,
    /// whose group and session are -1.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = rest.trim_end().split(' ').collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let size = |number| field(number)?.parse::<usize>().ok();
        if size(9)? & KERNEL_THREAD != 0 {
            return None;
        }
        // The address of the code is the last thing that is set when a program is replaced.
        let has_program = size(26)? != 0;
        let environment = size(51)?.checked_sub(size(50)?);
        Some(Self {
            pid: number(pid)??,
            parent: number(field(4)?)?,
            group: number(field(5)?)?,
            session: number(field(6)?)?,
            environment: environment.filter(|_| has_program),
            is_dead: matches!(field(3)?, "Z" | "X" | "x"),
        })
    }

    /// Returns whether it is an adopted child of this process.
    fn is_orphan(&self, leaders: &[Pid]) -> bool {
        self.parent == Some(getpid()) && !leaders.contains(&self.pid)
    }
}

/// Parses a pid field; the inner value is `None` for 0, which means no process.
fn number(field: &str) -> Option<Option<Pid>> {
    let number = field.parse().ok().filter(|number| *number >= 0)?;
    Some(Pid::from_raw(number))
}

/// Returns the children of this process, its own and adopted; all processes where the kernel does not list children. They
/// are few, while a container whose first process reaps nothing collects thousands of dead processes.
fn children() -> Vec<Process> {
    let mut before = None;
    // A child that ends while a list is read may hide another one.
    for _ in 0..LOOKS {
        let Some(ids) = child_ids() else { break };
        if before.as_ref() == Some(&ids) {
            return ids.split_whitespace().filter_map(process).collect();
        }
        before = Some(ids);
    }
    processes()
}

/// Returns the ids of the children of this process, each followed by a blank; `None` where the kernel does not list them.
fn child_ids() -> Option<String> {
    fs::metadata("/proc/thread-self/children").ok()?;
    let threads = fs::read_dir("/proc/self/task").ok()?.flatten();
    // A thread that ends meanwhile leaves its children to another one.
    let children = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
    Some(threads.filter_map(children).collect())
}

/// Returns all processes of the machine.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let ids = names.filter(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    ids.filter_map(|id| process(id.to_str()?)).collect()
}

/// Returns the process with this name below `/proc`, unless it has ended meanwhile.
fn process(name: &str) -> Option<Process> {
    let stat = fs::read(format!("/proc/{name}/stat")).ok()?;
    // The name of its program need not be UTF-8.
    Process::parse(&String::from_utf8_lossy(&stat))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;

    use super::*;

    /// Returns a line of `/proc/PID/stat` with its fields before the ninth, and its flags, code and environment.
    fn stat(start: &str, flags: usize, code: usize, environment: [usize; 2]) -> String {
        let [from, to] = environment;
        let zeros = |number| "0 ".repeat(number);
        format!(
            "{start} {flags} {}{code} {}{from} {to} 0",
            zeros(16),
            zeros(23)
        )
    }

    #[test]
    fn a_stat_line_is_parsed() {
        let dead = stat("12 (a) b) Z 1 12 0 0 -1", 4_194_304, 0, [0, 0]);
        let dead = Process::parse(&dead).unwrap();
        assert_eq!(dead.pid, Pid::from_raw(12).unwrap());
        assert_eq!(dead.parent, Pid::from_raw(1));
        assert_eq!((dead.group, dead.session), (Some(dead.pid), None));
        assert!(dead.is_dead);
        assert_eq!(dead.environment, None);
        let live = Process::parse(&stat("12 (sh) S 1 12 12 0 -1", 0, 1, [5, 7])).unwrap();
        assert!(!live.is_dead);
        assert_eq!(live.environment, Some(2));
    }

    #[test]
    fn a_process_between_two_programs_has_no_environment() {
        for environment in [[0, 0], [5, 0], [5, 5]] {
            let between = Process::parse(&stat("12 (sh) R 1 12 12 0 -1", 0, 0, environment));
            assert_eq!(between.unwrap().environment, None);
        }
    }

    /// While the kernel replaces a program by another one, the process shows no environment: one look in a hundred here.
    #[test]
    fn the_marks_of_a_process_that_starts_programs_are_found_or_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "exec /bin/sh \"$0\"").unwrap();
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "echo; exec /bin/sh \"$0\""])
            .arg(&script)
            .env(MARK, "a:b")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Until its first program runs, its environment may be the one of this test.
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut [0]).unwrap();
        let pid = Pid::from_child(&child);
        let found: HashSet<_> = (0..3_000).filter_map(|_| marks(pid)).collect();
        child.kill().unwrap();
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), look).unwrap();
        assert_eq!(marks(pid), Some(Vec::new()), "it is dead");
        child.wait().unwrap();
        assert_eq!(marks(pid), Some(Vec::new()), "it is gone");
        assert_eq!(found, HashSet::from([vec!["a".into(), "b".into()]]));
    }

    #[test]
    fn the_marks_of_a_process_without_variables_are_known() {
        let mut child = std::process::Command::new("/bin/cat")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        input.write_all(b"\n").unwrap();
        output.read_exact(&mut [0]).unwrap();
        assert_eq!(marks(Pid::from_child(&child)), Some(Vec::new()));
        drop(input);
        child.wait().unwrap();
    }

    /// Processes that `docker exec` starts in a container have a group and a session of another namespace.
    #[test]
    fn a_group_and_a_session_of_another_namespace_are_none() {
        let foreign = Process::parse(&stat("12 (ah) S 0 0 0 0 -1", 0, 1, [5, 7])).unwrap();
        assert_eq!((foreign.group, foreign.session), (None, None));
    }

    #[test]
    fn a_child_is_found_among_the_children_and_among_all() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let is_child = |process: &Process| process.pid == pid;
        let found = children();
        assert!(found.iter().any(is_child) && processes().iter().any(is_child));
        assert!(found.iter().all(|it| it.parent == Some(getpid())));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children().iter().any(is_child));
    }

    #[test]
    fn threads_of_the_kernel_and_processes_that_are_being_removed_are_ignored() {
        let kernel = stat("12 (kworker) I 2 0 0 0 -1", 0x0420_8060, 0, [0, 0]);
        assert!(Process::parse(&kernel).is_none());
        for start in [
            "12 (sh) X 0 -1 -1 0 -1",
            "12 (sh) Z 1 12 -1 0 -1",
            "-1 (sh) S 1 1 1 0 -1",
        ] {
            assert!(
                Process::parse(&stat(start, 0, 1, [5, 7])).is_none(),
                "{start}"
            );
        }
        for stat in ["", "12 (sh", "12 (sh) S 1 12 12"] {
            assert!(Process::parse(stat).is_none(), "{stat}");
        }
    }
}
