//! Signals that stop a run. Ctrl-C, SIGTERM, SIGHUP and SIGQUIT end the turn cleanly; a Ctrl-C after any of them exits at once. The
//! first signal decides the exit code.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};

use crate::exit::{self, Interrupt};
use ah_conversation::{ExitReason, Interface};
use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Number of the signal of a Ctrl-C.
const SIGINT: i32 = rustix::process::Signal::INT.as_raw();
/// Whom each Ctrl-C is for.
static LENT: Mutex<Lent> = Mutex::new(Lent {
    is_lent: false,
    has_seen: false,
    is_due: false,
});

/// Another program at the terminal, which gets each Ctrl-C beside this one.
#[derive(Debug)]
struct Lent {
    /// Whether there is one.
    is_lent: bool,
    /// Whether a Ctrl-C has come meanwhile.
    has_seen: bool,
    /// Whether the Ctrl-C that has ended it is still to come.
    is_due: bool,
}

/// Signals received so far.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    token: CancellationToken,
    first: Arc<OnceLock<Interrupt>>,
}

impl Signals {
    /// Listens from now on, on the current runtime. `leave` is called with the exit code at a Ctrl-C that is not the first
    /// signal.
    pub fn listen(leave: impl FnOnce(u8) + Send + 'static) -> io::Result<Self> {
        let signals = Self::listen_to_ends()?;
        let interrupts = signal(SignalKind::interrupt())?;
        tokio::spawn(signals.clone().stop_or_leave(interrupts, leave));
        Ok(signals)
    }

    /// Listens to SIGTERM, SIGHUP and SIGQUIT only.
    pub fn listen_to_ends() -> io::Result<Self> {
        let signals = Self::default();
        for (kind, interrupt) in [
            (SignalKind::terminate(), Interrupt::Terminate),
            (SignalKind::hangup(), Interrupt::Hangup),
            (SignalKind::quit(), Interrupt::Quit),
        ] {
            tokio::spawn(signals.clone().stop_at(signal(kind)?, interrupt));
        }
        Ok(signals)
    }

    /// Returns the token that the first signal cancels. Other reasons to end may cancel it too.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Returns the first signal, if one arrived.
    pub fn interrupt(&self) -> Option<Interrupt> {
        self.first.get().copied()
    }

    async fn stop_at(self, mut signal: Signal, interrupt: Interrupt) {
        signal.recv().await;
        self.stop(interrupt);
    }

    async fn stop_or_leave(self, mut signal: Signal, leave: impl FnOnce(u8)) {
        interrupted(&mut signal).await;
        if self.interrupt().is_none() {
            self.stop(Interrupt::Interrupt);
            interrupted(&mut signal).await;
        }
        let first = self.interrupt();
        leave(exit::code(
            Interface::Native,
            &ExitReason::Interrupted,
            first,
        ));
    }

    fn stop(&self, interrupt: Interrupt) {
        // Only the first one counts.
        let _ = self.first.set(interrupt);
        self.token.cancel();
    }
}

/// Waits for a Ctrl-C that is for this program.
async fn interrupted(signal: &mut Signal) {
    while signal.recv().await.is_some() && is_of_other() {}
}

/// Whether a Ctrl-C that has come is for the program that has, or had, the terminal.
fn is_of_other() -> bool {
    let mut lent = LENT.lock();
    lent.has_seen |= lent.is_lent;
    lent.is_lent || std::mem::take(&mut lent.is_due)
}

/// Notes that another program has the terminal: it gets each Ctrl-C, which is not for this one then.
pub(crate) fn lend() {
    *LENT.lock() = Lent {
        is_lent: true,
        has_seen: false,
        is_due: false,
    };
}

/// Notes that the terminal is back. If a Ctrl-C has ended the other program, this one gets it too, perhaps only now.
pub(crate) fn take_back(was_interrupted: bool) {
    let mut lent = LENT.lock();
    lent.is_lent = false;
    lent.is_due = was_interrupted && !lent.has_seen;
}

/// Returns whether a program was ended by a Ctrl-C.
pub(crate) fn was_interrupted(status: ExitStatus) -> bool {
    status.signal() == Some(SIGINT) || status.code() == Some(128 + SIGINT)
}

/// Ends child processes and exits at once.
pub fn leave(code: u8) {
    ah_process::finish_all();
    std::process::exit(code.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ctrl_c_is_for_the_program_that_has_the_terminal() {
        assert!(!is_of_other());
        lend();
        assert!(is_of_other());
        take_back(true);
        assert!(!is_of_other());
        // It has ended before this one was told.
        lend();
        take_back(true);
        assert!(is_of_other());
        assert!(!is_of_other());
        lend();
        take_back(false);
        assert!(!is_of_other());
    }
}
