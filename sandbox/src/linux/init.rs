//! First process of a session: makes what all its commands share, which are users, network and processes.
//!
//! It runs nothing. Commands join its namespaces, each with a first process of its own that adopts and ends what the
//! command leaves. If that one was killed, the kernel gives what is left to this process, which ends it. If this process
//! ends, with its parent or because the socket is closed, the kernel ends all processes of the session. Commands cannot end
//! or stop it: it is the first of their process namespace.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::mem::zeroed;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, mount_change};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, chroot, fchdir, getgid, getpid, getuid,
    pidfd_open, set_dumpable_behavior, set_parent_process_death_signal, setsid, waitpid,
};
use rustix::thread::{UnshareFlags, set_no_new_privs, unshare_unsafe};

use super::covers::empty_folder;
use super::descendants::Children;
use super::inside::give_up_capabilities;
use super::mounts::new_file_system;
use super::own::become_nameless;
use super::setup::{DescribeError, SetupResult};
use super::signals::Signals;
use super::wire::{LauncherMessage, ParentMessage};
use super::{filter, landlock};
use crate::access::Tier;
use crate::environment::PROXY_PORT;
use crate::plan::Layout;

/// Makes the namespaces of a session, and stays until its first process has ended. The socket is that process's: when it is
/// closed, the session has ended.
pub(super) fn hold(tier: Tier, link: &OwnedFd) -> SetupResult<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    let (user, group) = (getuid(), getgid());
    // SAFETY: this process has one thread, which shares nothing with another.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.describe("create a user namespace")?;
    fs::write("/proc/self/setgroups", "deny").describe("setgroups")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1\n")).describe("uid_map")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1\n")).describe("gid_map")?;
    // SAFETY: as above.
    unsafe { unshare_unsafe(UnshareFlags::NEWPID) }.describe("create a process namespace")?;
    let (go, mut start) = io::pipe().describe("pipe")?;
    // SAFETY: this process has one thread, so the child may do whatever it may do.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(start);
            if let Err(reason) = serve(tier, link, go) {
                let _ = LauncherMessage::Failed(reason).send(link);
            }
            // SAFETY: nothing of this process is to be tidied up: it is a copy of its parent.
            unsafe { libc::_exit(0) }
        }
        child => Pid::from_raw(child)
            .ok_or_else(io::Error::last_os_error)
            .describe("fork")?,
    };
    drop(go);
    set_dumpable_behavior(DumpableBehavior::NotDumpable).describe("prctl")?;
    start.write_all(b"g").describe("pipe")?;
    while matches!(waitpid(Some(child), WaitOptions::empty()), Err(Errno::INTR)) {}
    Ok(())
}

/// A command of the session. Its pipe gets a byte when nothing of it is left; if this process ends first, it gets none.
struct Command {
    stage: Stage,
    gone: PipeWriter,
}

enum Stage {
    /// Its first process is to tell its number.
    Starting(PipeReader),
    /// That process, which is readable once it is dead, and all that is left of the command is given to this one.
    Running(OwnedFd),
}

impl Command {
    fn awaited(&self) -> BorrowedFd<'_> {
        match &self.stage {
            Stage::Starting(number) => number.as_fd(),
            Stage::Running(process) => process.as_fd(),
        }
    }

    /// Returns the command if it was only to start, and what to close if its first process is dead.
    fn go_on(self) -> Result<Self, PipeWriter> {
        let Self { stage, gone } = self;
        let started = match stage {
            Stage::Starting(mut number) => {
                let mut bytes = [0; 4];
                let number = number.read_exact(&mut bytes).ok();
                let process = number.and_then(|()| Pid::from_raw(i32::from_ne_bytes(bytes)));
                process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok())
            }
            Stage::Running(_) => None,
        };
        match started {
            Some(process) => Ok(Self {
                stage: Stage::Running(process),
                gone,
            }),
            None => Err(gone),
        }
    }
}

/// Serves the session until the socket is closed, or what is left of a command cannot be ended.
fn serve(tier: Tier, link: &OwnedFd, mut go: PipeReader) -> SetupResult<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")?;
    // At end of file, the parent died before this process could be tied to its life.
    go.read_exact(&mut [0])
        .describe("the launcher has exited")?;
    let _ = setsid();
    Signals::hold(false);
    become_nameless();
    let namespaces = make_namespaces()?;
    let proc = new_file_system("proc", &[], MountAttrFlags::MOUNT_ATTR_NODEV)?;
    let children = Children::listed_in(&proc);
    drop(proc);
    restrict(tier)?;
    let session = LauncherMessage::Session(namespaces);
    session.send(link).describe("report the session")?;
    // The agent alone serves the proxy, and has the namespaces.
    drop((session, go));
    let mut commands: Vec<Command> = Vec::new();
    loop {
        let ready = until_ready(link, &commands)?;
        let (is_told, of_commands) = (ready[0], &ready[1..]);
        let mut ended = Vec::new();
        for (command, is_ready) in std::mem::take(&mut commands).into_iter().zip(of_commands) {
            match if *is_ready {
                command.go_on()
            } else {
                Ok(command)
            } {
                Ok(command) => commands.push(command),
                Err(gone) => ended.push(gone),
            }
        }
        if !ended.is_empty() && !children.end() {
            return Err("what a command has left cannot be ended".to_owned());
        }
        for mut gone in ended {
            // Nobody may want to know.
            let _ = gone.write_all(b"e");
        }
        if is_told {
            match ParentMessage::receive(link).describe("read of a command")? {
                Some(ParentMessage::Command(number, gone)) => commands.push(Command {
                    stage: Stage::Starting(number),
                    gone,
                }),
                _ => return Ok(()),
            }
        }
    }
}

/// Waits until the socket or a command needs to be looked at; returns which of them do, the socket first.
fn until_ready(link: &OwnedFd, commands: &[Command]) -> SetupResult<Vec<bool>> {
    let all = std::iter::once(link.as_fd()).chain(commands.iter().map(Command::awaited));
    let mut polled: Vec<_> = all
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error).describe("poll"),
    }
    let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
    Ok(polled.iter().map(is_ready).collect())
}

/// Creates a network with only a loopback interface. Returns the listener that the agent serves as proxy, and the
/// namespaces of the session, and this process.
fn make_namespaces() -> SetupResult<Vec<OwnedFd>> {
    let flags = UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP
        | UnshareFlags::NEWNET;
    // SAFETY: this process has one thread, which shares nothing with another.
    unsafe { unshare_unsafe(flags) }.describe("create namespaces")?;
    bring_up_loopback()?;
    let listener = TcpListener::bind(("127.0.0.1", PROXY_PORT)).describe("listen for the proxy")?;
    let mut session = vec![listener.into()];
    for name in ["user", "net", "pid"] {
        let namespace = File::open(format!("/proc/self/ns/{name}")).describe(name)?;
        session.push(namespace.into());
    }
    session.push(pidfd_open(getpid(), PidfdFlags::empty()).describe("open this process")?);
    Ok(session)
}

fn bring_up_loopback() -> SetupResult<()> {
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
    Ok(())
}

/// Gives up all rights, and every file: commands see this process.
fn restrict(tier: Tier) -> SetupResult<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).describe("make mounts private")?;
    let nothing = empty_folder().describe("an empty folder")?;
    fchdir(&nothing).describe("enter an empty folder")?;
    chroot(".").describe("leave the file system")?;
    give_up_capabilities()?;
    set_no_new_privs(true).describe("no_new_privs")?;
    if tier.has_landlock() {
        landlock::restrict(tier, &Layout::default())?;
    }
    filter::apply(tier, false, &[])?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).describe("prctl")?;
    // Some of the changes above reset it.
    set_parent_process_death_signal(Some(Signal::KILL)).describe("prctl")
}
