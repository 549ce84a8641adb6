//! The users of a new user namespace, each with the number that it has outside.

use std::ffi::CStr;
use std::fs;
use std::io::{self, Write as _};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, Uid, WaitOptions, getpid, waitpid};

use super::setup::{DescribeError as _, SetupResult};

/// Maps of a user namespace, made before the process is forked.
pub(super) struct Users {
    users: String,
    groups: String,
    /// Whether all users are mapped, not only the own one. The process that writes such maps has to be outside.
    has_all: bool,
}

impl Users {
    /// Returns the maps for a process of this user: for root all users, so that it can go on giving files to them.
    pub(super) fn same(user: Uid, group: Gid) -> SetupResult<Self> {
        if user.is_root() {
            return Ok(Self {
                users: all("/proc/self/uid_map")?,
                groups: all("/proc/self/gid_map")?,
                has_all: true,
            });
        }
        Ok(Self {
            users: format!("{user} {user} 1\n"),
            groups: format!("{group} {group} 1\n"),
            has_all: false,
        })
    }

    /// Has this process enter the namespace by `unshare`. Allocates nothing.
    pub(super) fn enter(&self, unshare: impl Fn() -> Result<(), Errno>) -> io::Result<()> {
        if self.has_all {
            return self.enter_with_all(unshare);
        }
        unshare()?;
        write(c"/proc/self/setgroups", "deny")?;
        write(c"/proc/self/uid_map", &self.users)?;
        write(c"/proc/self/gid_map", &self.groups)
    }

    fn enter_with_all(&self, unshare: impl Fn() -> Result<(), Errno>) -> io::Result<()> {
        let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let own = getpid();
        // SAFETY: the child makes system calls only, and ends.
        let helper = unsafe { libc::fork() };
        if helper == 0 {
            drop(go);
            let is_asked = rustix::io::read(&wait, &mut [0; 1]).is_ok_and(|count| count == 1);
            let is_written = is_asked && self.write_for(own).is_ok();
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
    fn write_for(&self, process: Pid) -> io::Result<()> {
        let process = process.as_raw_nonzero();
        for (name, map) in [("uid_map", &self.users), ("gid_map", &self.groups)] {
            let mut path = [0_u8; 64];
            // The last byte stays zero.
            let end = path.len() - 1;
            write!(&mut path[..end], "/proc/{process}/{name}")?;
            let path =
                CStr::from_bytes_until_nul(&path).map_err(|_| io::ErrorKind::InvalidInput)?;
            write(path, map)?;
        }
        Ok(())
    }
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

fn write(path: &CStr, text: &str) -> io::Result<()> {
    let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}
