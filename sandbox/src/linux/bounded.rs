//! Starts a command within [`Bounds`]: a Landlock ruleset and a filter of system calls, both made before the process is
//! forked, so that the child only makes system calls.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::setsid;
use rustix::thread::set_no_new_privs;

use super::setup::SetupResult;
use super::{filter, landlock};
use crate::bounds::Bounds;

impl Bounds {
    /// Returns whether this kernel can keep a command within bounds.
    pub fn can_be_kept() -> bool {
        landlock::is_new_enough()
    }

    /// Has `command` start within these bounds, in a session of its own, without the terminal of this process.
    ///
    /// # Errors
    ///
    /// If the kernel cannot keep them, with the reason.
    pub fn hold(&self, command: &mut Command) -> Result<(), String> {
        let prepared = Prepared::of(self)?;
        // SAFETY: it makes system calls only, with what was made before.
        unsafe { command.pre_exec(move || prepared.enter()) };
        Ok(())
    }
}

/// What the kernel is given.
struct Prepared {
    ruleset: OwnedFd,
    filter: &'static filter::Filter,
}

impl Prepared {
    fn of(bounds: &Bounds) -> SetupResult<Self> {
        Ok(Self {
            ruleset: landlock::bounded(bounds)?,
            filter: filter::bounded(bounds.changes_attributes),
        })
    }

    /// Restricts this process for ever. Allocates nothing.
    fn enter(&self) -> io::Result<()> {
        // It fails only if the process leads one already.
        let _ = setsid();
        set_no_new_privs(true)?;
        // SAFETY: the call takes numbers.
        let restricted = unsafe {
            libc::syscall(
                libc::SYS_landlock_restrict_self,
                self.ruleset.as_raw_fd(),
                0,
            )
        };
        if restricted != 0 {
            return Err(io::Error::last_os_error());
        }
        self.filter.install()
    }
}
