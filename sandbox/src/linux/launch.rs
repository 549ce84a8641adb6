//! Launcher: joins the namespaces of the session, starts the first process of a command in them, and exits as the command
//! does.
//!
//! It stays outside the sandbox, where it watches the memory use of the command. The kernel kills it when its parent
//! dies, and everything inside with it.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, kill_process, set_dumpable_behavior,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::init;
use super::inside;
use super::setup::{DescribeError, NO_SANDBOX, SetupResult};
use super::signals::Signals;
use super::wire::{LauncherMessage, Namespaces, ParentMessage};
use crate::plan::Plan;

/// Interval between checks of the memory use.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Runs as the launcher and never returns. Its standard input is the socket to its parent.
///
/// Must be called first in `main`, while the process has only one thread.
pub fn launcher() -> ! {
    // SAFETY: nothing in this process uses its standard input otherwise, and it has opened nothing yet.
    let link = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        OwnedFd::from_raw_fd(0)
    };
    let failed = |link: &OwnedFd, reason| {
        let _ = LauncherMessage::Failed(reason).send(link);
        std::process::exit(NO_SANDBOX);
    };
    match ParentMessage::receive(&link) {
        Ok(Some(ParentMessage::Plan(plan, namespaces))) => match launch(&plan, namespaces, &link) {
            Ok(status) => end_as(status),
            Err(reason) => failed(&link, reason),
        },
        Ok(Some(ParentMessage::Session(tier))) => match init::hold(tier, &link) {
            Ok(()) => std::process::exit(0),
            Err(reason) => failed(&link, reason),
        },
        // Not started by this crate.
        _ => std::process::exit(NO_SANDBOX),
    }
}

fn launch(plan: &Plan, namespaces: Option<Namespaces>, link: &OwnedFd) -> SetupResult<i32> {
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    let signals = Signals::hold(plan.forwards_signals);
    let number = namespaces.map(join).transpose()?;
    let (go, start) = io::pipe().describe("pipe")?;
    let (mut status, report) = io::pipe().describe("pipe")?;
    // SAFETY: this process has one thread, so the child may do whatever it may do.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop((start, status));
            inside::begin(plan, number, link, go, report)
        }
        child => Pid::from_raw(child)
            .ok_or_else(io::Error::last_os_error)
            .describe("fork")?,
    };
    set_dumpable_behavior(DumpableBehavior::NotDumpable).describe("prctl")?;
    drop((go, report, number));
    // If it was killed before, its status says so.
    let _ = release(start);
    // Sleeps until there is a command; at end of file, the child has ended without one.
    let has_begun = status.read_exact(&mut [0]).is_ok();
    watch(plan, link, child, &signals);
    Ok(read_status(status).unwrap_or_else(|| {
        if has_begun {
            // The command may have killed the first process before that one could tell that it runs.
            let _ = LauncherMessage::Running.send(link);
        }
        Signal::KILL.as_raw()
    }))
}

/// Lets the child continue. If it reads nothing, this process died before the child was tied to its life.
fn release(mut start: PipeWriter) -> SetupResult<()> {
    start.write_all(b"g").describe("pipe")
}

/// Reads the wait status of the command; `None` if the first process was killed.
fn read_status(mut status: PipeReader) -> Option<i32> {
    let mut bytes = [0; 4];
    let read = status.read_exact(&mut bytes);
    read.ok().map(|()| i32::from_ne_bytes(bytes))
}

/// Joins the namespaces of the session; the process namespace with the next child. Returns who is told its number.
fn join(namespaces: Namespaces) -> SetupResult<PipeWriter> {
    for (namespace, kind, name) in [
        (&namespaces.user, LinkNameSpaceType::User, "user"),
        (&namespaces.network, LinkNameSpaceType::Network, "network"),
        (
            &namespaces.processes,
            LinkNameSpaceType::ProcessID,
            "process",
        ),
    ] {
        move_into_link_name_space(namespace.as_fd(), Some(kind))
            .describe(format_args!("join the {name} namespace"))?;
    }
    Ok(namespaces.number)
}

/// Waits for the child to end; kills it if the parent is gone, and its largest process if it uses too much memory.
fn watch(plan: &Plan, link: &OwnedFd, child: Pid, signals: &Signals) {
    loop {
        match signals.next(MEMORY_CHECK_INTERVAL) {
            Some((signal, is_sent)) if signal != libc::SIGCHLD => {
                if is_sent
                    && plan.forwards_signals
                    && let Some(signal) = Signal::from_named_raw(signal)
                {
                    let _ = kill_process(child, signal);
                }
            }
            Some(_) | None => {}
        }
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => return,
        }
        if is_closed(link) {
            let _ = kill_process(child, Signal::KILL);
        } else {
            // A command can stop it, and would then have no end.
            let _ = kill_process(child, Signal::CONT);
            enforce_memory_limit(child, plan.limits.memory_bytes);
        }
    }
}

fn is_closed(link: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(link, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Kills the largest process below `child` if all of them together use more than `limit` bytes.
fn enforce_memory_limit(child: Pid, limit: u64) {
    let mut waiting = vec![child.as_raw_pid()];
    let (mut sum, mut largest) = (0, (0, 0));
    while let Some(pid) = waiting.pop() {
        let used = own_memory(pid);
        sum += used;
        if pid != child.as_raw_pid() {
            largest = largest.max((used, pid));
        }
        let children =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        waiting.extend(
            children
                .split_whitespace()
                .filter_map(|word| word.parse::<i32>().ok()),
        );
    }
    if sum > limit
        && let Some(pid) = Pid::from_raw(largest.1)
    {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns the resident memory of a process that is not backed by shared files, in bytes.
fn own_memory(pid: i32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut fields = pages
        .split(' ')
        .skip(1)
        .map(|field| field.parse().unwrap_or(0_u64));
    let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

/// Exits as the command did, by code or by signal.
fn end_as(status: i32) -> ! {
    if !libc::WIFSIGNALED(status) {
        std::process::exit(libc::WEXITSTATUS(status));
    }
    let signal = libc::WTERMSIG(status);
    // SAFETY: the process ends here whatever these calls do.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        Signals::release();
        libc::raise(signal);
    }
    std::process::exit(128 + signal)
}
