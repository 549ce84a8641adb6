//! The users of a new user namespace, each with the number that it has outside.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, Uid, WaitOptions, getgid, getpid, getuid, waitpid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::mounts::write;
use super::numbers::numbers_of_commands;
use super::setup::{DescribeError as _, SetupResult};

/// How a process enters a user namespace, made before it is forked.
pub(super) enum Users {
    /// All users are mapped by the maps of users and groups. The process that writes them has to be outside.
    All { users: String, groups: String },
    /// Only the own one is mapped, in a namespace that there is already: a process that keeps its memory from others, as the
    /// agent does, cannot write the map of its own.
    Own(&'static OwnedFd),
}

impl Users {
    /// Returns the way for a process of this user: for root with all users, so that it can go on giving files to them.
    pub(super) fn same(user: Uid, group: Gid) -> SetupResult<Self> {
        static OWN: OnceLock<SetupResult<OwnedFd>> = OnceLock::new();
        if user.is_root() {
            return Ok(Self::All {
                users: all("/proc/self/uid_map")?,
                groups: all("/proc/self/gid_map")?,
            });
        }
        match OWN.get_or_init(|| namespace(user, group)) {
            Ok(own) => Ok(Self::Own(own)),
            Err(reason) => Err(reason.clone()),
        }
    }

    /// Has this process enter the namespace, and a mount namespace of its own. Allocates nothing.
    pub(super) fn enter(&self) -> io::Result<()> {
        // SAFETY: this process was forked and has one thread.
        let unshare = |flags| unsafe { unshare_unsafe(flags) };
        match self {
            Self::All { users, groups } => {
                let maps = [("uid_map", users.as_str()), ("gid_map", groups.as_str())];
                mapped_from_outside(maps, || {
                    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
                })
            }
            Self::Own(namespace) => {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
                Ok(unshare(UnshareFlags::NEWNS)?)
            }
        }
    }
}

/// Has this process enter a user namespace of its own below that of its session, in which no other can be made. It can then
/// look into no process of another command, whatever that one may do, since it is in another one. `proc` is what the kernel
/// tells of processes, where settings can be written.
pub(super) fn stay_apart(proc: &OwnedFd) -> SetupResult<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let (as_user, as_group) = numbers_of_commands().unwrap_or((user, group));
    // SAFETY: this process was forked and has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.describe("create a user namespace")?;
    for (name, text) in [
        ("self/uid_map", format!("{as_user} {user} 1\n")),
        ("self/gid_map", format!("{as_group} {group} 1\n")),
        ("sys/user/max_user_namespaces", "0".to_owned()),
    ] {
        write(proc, name, text).describe(name)?;
    }
    Ok(())
}

/// Makes a user namespace in which only this user is mapped. It lives as long as it is open.
fn namespace(user: Uid, group: Gid) -> SetupResult<OwnedFd> {
    let mut holder = Command::new("/bin/cat");
    holder.stdin(Stdio::piped()).stdout(Stdio::null());
    // SAFETY: it makes one system call.
    let unshare = || Ok(unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?);
    // SAFETY: as above.
    unsafe { holder.pre_exec(unshare) };
    let mut holder = holder.spawn().describe("create a user namespace")?;
    let place = format!("/proc/{}", holder.id());
    let made = || -> SetupResult<OwnedFd> {
        fs::write(format!("{place}/setgroups"), "deny").describe("setgroups")?;
        fs::write(format!("{place}/uid_map"), format!("{user} {user} 1\n")).describe("uid_map")?;
        fs::write(format!("{place}/gid_map"), format!("{group} {group} 1\n"))
            .describe("gid_map")?;
        let opened = fs::File::open(format!("{place}/ns/user"));
        Ok(opened.describe("the user namespace")?.into())
    };
    let made = made();
    // It ends with its input.
    drop(holder.stdin.take());
    let _ = holder.wait();
    made
}

/// Has this process leave its user namespace, and another one write the maps of the new one.
fn mapped_from_outside(
    maps: [(&str, &str); 2],
    unshare: impl Fn() -> Result<(), Errno>,
) -> io::Result<()> {
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
    let own = getpid();
    // SAFETY: the child makes system calls only, and ends.
    let helper = unsafe { libc::fork() };
    if helper == 0 {
        drop(go);
        let is_asked = rustix::io::read(&wait, &mut [0; 1]).is_ok_and(|count| count == 1);
        let is_written = is_asked && write_for(own, maps).is_ok();
        // SAFETY: it ends without destructors, as is right for a process that was forked.
        unsafe { libc::_exit(i32::from(!is_written)) };
    }
    if helper < 0 {
        return Err(io::Error::last_os_error());
    }
    let asked = unshare().and_then(|()| rustix::io::write(&go, b"g"));
    drop(go);
    let ended = loop {
        match waitpid(Pid::from_raw(helper), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            ended => break ended?,
        }
    };
    asked?;
    match ended {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Writes the maps of the namespace that a process has entered.
fn write_for(process: Pid, maps: [(&str, &str); 2]) -> io::Result<()> {
    let process = process.as_raw_nonzero();
    for (name, map) in maps {
        let mut path = [0_u8; 64];
        // The last byte stays zero.
        let end = path.len() - 1;
        write!(&mut path[..end], "/proc/{process}/{name}")?;
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| io::ErrorKind::InvalidInput)?;
        let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, map.as_bytes())?;
    }
    Ok(())
}

/// Returns the map of all users that this process knows to themselves.
fn all(map: &str) -> SetupResult<String> {
    let text = fs::read_to_string(map).describe(map)?;
    let line = |line: &str| {
        let mut numbers = line.split_whitespace();
        let (inside, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(format!("{inside} {inside} {count}\n"))
    };
    Ok(text.lines().filter_map(line).collect())
}
