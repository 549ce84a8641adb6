//! First process of a command: drops its rights, forks the process that becomes the command, and reaps all that this
//! starts.
//!
//! It applies the same restrictions to itself as to the command, so that no process inside has more rights. When the
//! command ends, it kills what is left of it, and tells the status once nothing is left. If it is killed itself, the first
//! process of the session does that.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getppid, kill_process,
    kill_process_group, set_child_subreaper, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid, wait,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, UnshareFlags,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs, unshare_unsafe,
};

use super::descendants::Children;
use super::landlock::{self, Basis};
use super::mounts::{NewRoot, out_of_place};
use super::own::become_nameless;
use super::setup::{DescribeError, NO_SANDBOX, SetupResult};
use super::signals::Signals;
use super::wire::{LauncherMessage, ParentMessage};
use super::{filter, users};
use crate::access::Tier;
use crate::plan::{Layout, Plan, ResourceLimits};

/// Longest wait for a signal; a child's exit is one too.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Completes the sandbox around this process, runs the command in it, and exits with it.
///
/// `number` receives that of this process in the session, and `report` a byte when there is a command, and then its wait
/// status.
pub(crate) fn begin(
    plan: &Plan,
    number: Option<PipeWriter>,
    link: &OwnedFd,
    go: PipeReader,
    mut report: PipeWriter,
) -> ! {
    let forked = enter(plan, number, link, go).and_then(|held| {
        let proc = File::open("/proc").describe("/proc")?;
        let children = Children::listed_in(&proc);
        drop(proc);
        let command = fork_command(plan, &held, link, &mut report)?;
        Ok(command.map(|command| (command, children)))
    });
    let (command, children) = match forked {
        Ok(Some(forked)) => forked,
        Ok(None) => exit(),
        Err(reason) => {
            let _ = LauncherMessage::Failed(reason).send(link);
            let _ = report.write_all(&(NO_SANDBOX << 8).to_ne_bytes());
            exit()
        }
    };
    let _ = LauncherMessage::Running.send(link);
    let status = reap_until_exit(plan, command);
    if children.end() {
        // The parent need not wait for the end of this process and of the launcher, which unmount and unmap.
        let _ = LauncherMessage::Ended(status).send(link);
    }
    let _ = report.write_all(&status.to_ne_bytes());
    exit()
}

fn exit() -> ! {
    // SAFETY: nothing of this process is to be tidied up: it is a copy of its parent.
    unsafe { libc::_exit(0) }
}

/// What holds a command.
struct Held {
    layout: Layout,
    basis: Basis,
}

impl Held {
    /// Returns a path at which it does not hold any more. It may have been set up long before the order, and while another command
    /// renamed folders.
    fn changed(&self, tier: Tier) -> Option<&Path> {
        match tier.has_namespaces() {
            true => out_of_place(&self.layout),
            false => self.basis.changed(),
        }
    }
}

/// Sets up what does not depend on the command, and restricts this process as the layout demands.
fn enter(
    plan: &Plan,
    number: Option<PipeWriter>,
    link: &OwnedFd,
    mut go: PipeReader,
) -> SetupResult<Held> {
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    // At end of file, the parent died before this process could be tied to its life.
    go.read_exact(&mut [0])
        .describe("the launcher has exited")?;
    // What the command leaves running becomes a child of this process, which ends it.
    set_child_subreaper(Some(getpid())).describe("prctl")?;
    let root = if plan.tier.has_namespaces() {
        if let Some(mut number) = number {
            let own = getpid().as_raw_pid().to_ne_bytes();
            number.write_all(&own).describe("report the process")?;
        }
        become_nameless();
        let flags = UnshareFlags::NEWNS
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS
            | UnshareFlags::NEWCGROUP;
        // SAFETY: this process has one thread, which shares nothing with another.
        unsafe { unshare_unsafe(flags) }.describe("create namespaces")?;
        Some(NewRoot::begin(plan.limits)?)
    } else {
        None
    };
    let message = ParentMessage::receive(link).describe("read the layout")?;
    let Some(ParentMessage::Layout(layout, is_recorded, is_ahead)) = message else {
        // There is no command.
        exit()
    };
    if let Some(root) = root {
        let (root, proc) = root;
        if let Err(reason) = root.complete(&layout) {
            let _ = LauncherMessage::Stale(reason).send(link);
            exit()
        }
        users::stay_apart(&proc)?;
    }
    limit(plan.limits)?;
    give_up_capabilities()?;
    set_no_new_privs(true).describe("no_new_privs")?;
    let mut basis = Basis::default();
    if plan.tier.has_landlock() {
        basis = landlock::restrict(plan.tier, &layout)?;
    }
    if is_ahead && !basis.is_settled() {
        // The command gets another launcher.
        exit()
    }
    // A further name of a hidden file might be one that can be read.
    let refused: &[&str] = match layout.way.is_empty() {
        true => &[],
        false => &["link", "linkat"],
    };
    if let Some(listener) = filter::apply(plan.tier, is_recorded, refused)? {
        LauncherMessage::Changes(listener)
            .send(link)
            .describe("report the listener")?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).describe("prctl")?;
    // Some of the changes above reset it.
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    Ok(Held { layout, basis })
}

/// Forks the process that becomes the command, ahead of the order: only executing the program is left then. Returns
/// when the program runs; `None` if there is none, of which the parent has been told.
fn fork_command(
    plan: &Plan,
    held: &Held,
    link: &OwnedFd,
    report: &mut PipeWriter,
) -> SetupResult<Option<Pid>> {
    let own = getpid();
    // Closed by the execution of the program; a byte says that it has failed.
    let (mut started, mut failed) = io::pipe().describe("pipe")?;
    // SAFETY: this process has one thread, so the child may do whatever it may do.
    let command = match unsafe { libc::fork() } {
        0 => {
            drop(started);
            // The order's standard input takes the place of the socket.
            if let Ok(link) = link.try_clone()
                && let Some(message) = become_command(plan, own, held, &link, report)
            {
                let _ = message.send(&link);
            }
            let _ = failed.write_all(b"f");
            exit()
        }
        child => Pid::from_raw(child)
            .ok_or_else(io::Error::last_os_error)
            .describe("fork")?,
    };
    drop(failed);
    let is_running = matches!(started.read(&mut [0]), Ok(0));
    Ok(is_running.then_some(command))
}

fn limit(limits: ResourceLimits) -> SetupResult<()> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, limits.processes),
    ] {
        // A stricter limit stays in force.
        let most = rustix::process::getrlimit(resource)
            .maximum
            .map_or(most, |now| now.min(most));
        let both = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, both).describe("limits")?;
    }
    // If memory runs out, processes inside are killed first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    Ok(())
}

pub(super) fn give_up_capabilities() -> SetupResult<()> {
    for capability in CapabilitySet::all().iter() {
        // Without privileges there is nothing to remove, and newer kernels have capabilities unknown here.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let _ = clear_ambient_capability_set();
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED;
    let _ = set_capabilities_secure_bits(bits);
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).describe("give up capabilities")
}

/// Waits for the order, and executes its program in this process. Returns if that fails, with what to tell the parent.
fn become_command(
    plan: &Plan,
    above: Pid,
    held: &Held,
    link: &OwnedFd,
    report: &mut PipeWriter,
) -> Option<LauncherMessage> {
    let failed = |reason| Some(LauncherMessage::Failed(reason));
    // Without a process namespace, nothing else would end it with the process above.
    if let Err(reason) = set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl") {
        return failed(reason);
    }
    if getppid() != Some(above) {
        return None;
    }
    let (order, streams) = match ParentMessage::receive(link).describe("read the order") {
        Ok(Some(ParentMessage::Order(order, streams))) => (order, streams),
        // There is no command.
        Ok(_) => return None,
        Err(reason) => return failed(reason),
    };
    if let Some(path) = held.changed(plan.tier) {
        let reason = format!("`{}` was changed in the meantime", path.display());
        return Some(LauncherMessage::Stale(reason));
    }
    let entered = { report.write_all(b"o").describe("pipe") }
        .and_then(|()| rustix::process::chdir(&order.cwd).describe(order.cwd.display()));
    if let Err(reason) = entered {
        return failed(reason);
    }
    let mut command = Command::new(order.program);
    command
        .args(order.arguments)
        .env_clear()
        .envs(order.environment)
        .stdin(streams.stdin)
        .stdout(streams.stdout)
        .stderr(streams.stderr);
    let keeps_terminal = plan.keeps_terminal;
    let prepare = move || {
        Signals::release();
        if !keeps_terminal {
            setsid()?;
        }
        Ok(())
    };
    // SAFETY: it makes system calls only.
    unsafe { command.pre_exec(prepare) };
    if let Some(bounds) = order.bounds
        && let Err(reason) = bounds.hold(&mut command)
    {
        return failed(reason);
    }
    Some(LauncherMessage::NoProgram(command.exec().to_string()))
}

/// Reaps processes until the command has ended; returns its wait status.
fn reap_until_exit(plan: &Plan, command: Pid) -> i32 {
    let signals = Signals::hold(false);
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == command => return status.as_raw(),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return Signal::KILL.as_raw(),
            }
        }
        if let Some((signal, true)) = signals.next(SIGNAL_TIMEOUT)
            && signal != libc::SIGCHLD
            && plan.forwards_signals
            && let Some(signal) = Signal::from_named_raw(signal)
        {
            let _ = if plan.keeps_terminal {
                kill_process(command, signal)
            } else {
                kill_process_group(command, signal)
            };
        }
    }
}
