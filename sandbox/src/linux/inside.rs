//! First process inside the sandbox: drops its rights, forks the process that becomes the command, and reaps all
//! processes.
//!
//! It applies the same restrictions to itself as to the command, so that no process inside has more rights. When the
//! command ends, it kills what is left of it, and tells the status once nothing is left. If it is killed itself, the
//! kernel kills everything in the process namespace.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem::zeroed;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
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

use super::mounts::{NewRoot, out_of_place};
use super::setup::{DescribeError, NO_SANDBOX, SetupResult};
use super::signals::Signals;
use super::wire::{LauncherMessage, ParentMessage};
use super::{filter, landlock};
use crate::environment::PROXY_PORT;
use crate::plan::{Layout, Plan, ResourceLimits};

/// Longest wait for a signal; a child's exit is one too.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Completes the sandbox around this process, runs the command in it, and exits with it.
///
/// `report` receives a byte when there is a command, and then its wait status.
pub(crate) fn begin(
    plan: &Plan,
    makes_network: bool,
    link: &OwnedFd,
    go: PipeReader,
    mut report: PipeWriter,
) -> ! {
    let forked = enter(plan, makes_network, link, go)
        .and_then(|layout| fork_command(plan, &layout, link, &mut report));
    let command = match forked {
        Ok(Some(command)) => command,
        Ok(None) => exit(),
        Err(reason) => {
            let _ = LauncherMessage::Failed(reason).send(link);
            let _ = report.write_all(&(NO_SANDBOX << 8).to_ne_bytes());
            exit()
        }
    };
    let _ = LauncherMessage::Running.send(link);
    let status = reap_until_exit(plan, command);
    let has_ended_all = if plan.tier.has_namespaces() {
        end_others()
    } else {
        end_descendants();
        true
    };
    if has_ended_all {
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

/// Sets up what does not depend on the command, and restricts this process as the layout demands.
fn enter(
    plan: &Plan,
    makes_network: bool,
    link: &OwnedFd,
    mut go: PipeReader,
) -> SetupResult<Layout> {
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    // At end of file, the parent died before this process could be tied to its life.
    go.read_exact(&mut [0])
        .describe("the launcher has exited")?;
    let root = if plan.tier.has_namespaces() {
        let mut flags = UnshareFlags::NEWNS
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS
            | UnshareFlags::NEWCGROUP;
        if makes_network {
            flags |= UnshareFlags::NEWNET;
        }
        // SAFETY: this process has one thread, which shares nothing with another.
        unsafe { unshare_unsafe(flags) }.describe("create namespaces")?;
        if makes_network {
            network()?.send(link).describe("report the network")?;
        }
        Some(NewRoot::begin(plan.limits)?)
    } else {
        None
    };
    let message = ParentMessage::receive(link).describe("read the layout")?;
    let Some(ParentMessage::Layout(layout, is_recorded)) = message else {
        // There is no command.
        exit()
    };
    if let Some(root) = root
        && let Err(reason) = root.complete(&layout)
    {
        let _ = LauncherMessage::Stale(reason).send(link);
        exit()
    }
    limit(plan.limits)?;
    give_up_capabilities()?;
    set_no_new_privs(true).describe("no_new_privs")?;
    if plan.tier.has_landlock() {
        landlock::restrict(plan.tier, &layout)?;
    }
    if !plan.tier.has_namespaces() {
        // What the command leaves running becomes a child of this process, which ends it.
        set_child_subreaper(Some(getpid())).describe("prctl")?;
    }
    if let Some(listener) = filter::apply(plan.tier, is_recorded)? {
        LauncherMessage::Changes(listener)
            .send(link)
            .describe("report the listener")?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).describe("prctl")?;
    // Some of the changes above reset it.
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    Ok(layout)
}

/// Forks the process that becomes the command, ahead of the order: only executing the program is left then. Returns
/// when the program runs; `None` if there is none, of which the parent has been told.
fn fork_command(
    plan: &Plan,
    layout: &Layout,
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
                && let Some(message) = become_command(plan, own, layout, &link, report)
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

/// Creates a network with only a loopback interface, and the listener that the parent serves as proxy.
fn network() -> SetupResult<LauncherMessage> {
    // SAFETY: an interface request of zeroes is valid; the name fits, and the request outlives the call.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error()).describe("socket");
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[0] = b'l'.cast_signed() as _;
        request.ifr_name[1] = b'o'.cast_signed() as _;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as _;
        if libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as _,
            &raw const request,
        ) != 0
        {
            return Err(io::Error::last_os_error()).describe("bring up the loopback");
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", PROXY_PORT)).describe("listen for the proxy")?;
    let namespace =
        |name: &str| std::fs::File::open(format!("/proc/self/ns/{name}")).map(OwnedFd::from);
    let user = namespace("user").describe("user namespace")?;
    let network = namespace("net").describe("network namespace")?;
    Ok(LauncherMessage::Network(vec![
        listener.into(),
        user,
        network,
    ]))
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

fn give_up_capabilities() -> SetupResult<()> {
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
    layout: &Layout,
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
    // The layout may have been mounted long before, and while another command renamed folders.
    if plan.tier.has_namespaces()
        && let Some(path) = out_of_place(layout)
    {
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

/// Kills and reaps all other processes of the process namespace; their orphans are children of this one. Returns whether
/// none is left. Else the kernel ends them when this process exits.
fn end_others() -> bool {
    // In any other process namespace it would be all processes of the user.
    if getpid() != Pid::INIT {
        return false;
    }
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return true,
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => {
                // SAFETY: it takes numbers.
                if unsafe { libc::kill(-1, libc::SIGKILL) } != 0 {
                    return false;
                }
                // The others end at the same time.
                let _ = wait(WaitOptions::empty());
            }
            Err(_) => return false,
        }
    }
}

/// Kills what a command has left running, without a process namespace.
fn end_descendants() {
    /// Bounds the time for a command that starts processes faster than they can be killed.
    const GENERATIONS: usize = 10_000;
    for _ in 0..GENERATIONS {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        // Without such a file in the kernel, nothing is known of them; waiting could take forever.
        if children.is_empty() {
            return;
        }
        let children = children.split_whitespace();
        for pid in children.filter_map(|word| word.parse().ok().and_then(Pid::from_raw)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        // The children of each that ends become ours.
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
