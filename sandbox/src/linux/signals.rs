//! Synchronous signal handling for the launcher and the first process inside.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Blocked signals, to be received by waiting.
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks all signals, except those by which a shell stops terminal jobs if `may_be_stopped`.
    pub fn hold(may_be_stopped: bool) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the set is filled before it is read, and lives as long as the calls.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            let mut set = set.assume_init();
            if may_be_stopped {
                for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
                    libc::sigdelset(&raw mut set, signal);
                }
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
            Self(set)
        }
    }

    /// Unblocks all signals, as programs expect. Async-signal-safe, so allowed after a fork.
    pub fn release() {
        let mut set = MaybeUninit::uninit();
        // SAFETY: as above.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
        }
    }

    /// Waits for a signal. Returns its number, and whether a process sent it rather than the terminal.
    pub fn next(&self, patience: Duration) -> Option<(i32, bool)> {
        let time = libc::timespec {
            tv_sec: patience.as_secs().cast_signed(),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: all pointers are to values that outlive the call; zeroes are a valid `siginfo_t`.
        let (signal, info) = unsafe {
            let signal = libc::sigtimedwait(&raw const self.0, info.as_mut_ptr(), &raw const time);
            (signal, info.assume_init())
        };
        (signal > 0).then_some((signal, info.si_code == libc::SI_USER))
    }
}
