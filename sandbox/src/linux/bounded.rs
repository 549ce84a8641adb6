//! Starts a command within [`Bounds`]: mounts over what is withheld, a Landlock ruleset and a filter of system calls. What
//! they need is made before the process is forked, so that the child only makes system calls.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::LazyLock;

use rustix::process::setsid;
use rustix::thread::set_no_new_privs;

use super::covers::Covers;
use super::setup::SetupResult;
use super::{filter, landlock};
use crate::bounds::{Bounds, Withheld};

/// How often it is tried whether files can be withheld.
const TRIES: usize = 3;

impl Bounds {
    /// Returns whether this machine can keep a command within bounds.
    pub fn can_be_kept() -> bool {
        static CAN: LazyLock<bool> =
            LazyLock::new(|| landlock::is_new_enough() && landlock::folders_at_top().is_ok());
        *CAN
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

impl Withheld {
    /// Returns whether this machine can withhold files from a command without a sandbox.
    pub fn can_be_kept() -> bool {
        static CAN: LazyLock<bool> = LazyLock::new(|| {
            let nothing = Bounds {
                anything_else: true,
                withheld: Withheld {
                    reading: vec!["/dev/null".into()],
                    ..Withheld::default()
                },
                ..Bounds::default()
            };
            // What fails once for want of a process or of memory is no property of the machine, and another part of this process
            // may have waited for the child, so its status says nothing. That the program was executed does.
            let is_started = |_| {
                let mut command = Command::new("true");
                let child = nothing
                    .hold(&mut command)
                    .and_then(|()| command.spawn().map_err(|error| error.to_string()));
                child.map(|mut child| _ = child.wait()).is_ok()
            };
            (0..TRIES).any(is_started)
        });
        *CAN
    }
}

/// What the kernel is given.
struct Prepared {
    covers: Option<Covers>,
    limits: Option<Limits>,
}

/// What keeps a process from all that its bounds do not name.
struct Limits {
    ruleset: OwnedFd,
    filter: &'static filter::Filter,
}

impl Prepared {
    fn of(bounds: &Bounds) -> SetupResult<Self> {
        let limits = || -> SetupResult<Limits> {
            Ok(Limits {
                ruleset: landlock::bounded(bounds)?,
                filter: filter::bounded(bounds.changes_attributes),
            })
        };
        Ok(Self {
            covers: Covers::over(&bounds.withheld)?,
            limits: (!bounds.anything_else).then(limits).transpose()?,
        })
    }

    /// Restricts this process for ever. Allocates nothing.
    fn enter(&self) -> io::Result<()> {
        // It fails only if the process leads one already.
        let _ = setsid();
        if let Some(covers) = &self.covers {
            covers.spread()?;
        }
        self.limits.as_ref().map_or(Ok(()), Limits::enter)
    }
}

impl Limits {
    fn enter(&self) -> io::Result<()> {
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
