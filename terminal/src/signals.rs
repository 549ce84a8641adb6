//! Signals that stop a run. Ctrl-C, SIGTERM, SIGHUP and SIGQUIT end the turn cleanly; a Ctrl-C after any of them exits at once. The
//! first signal decides the exit code.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::exit::{self, Interrupt};
use ah_conversation::{ExitReason, Interface};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whether another program has the terminal, and each Ctrl-C with it.
static IS_LENT: AtomicBool = AtomicBool::new(false);

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
    while signal.recv().await.is_some() && IS_LENT.load(Ordering::Relaxed) {}
}

/// Says whether another program has the terminal: it gets each Ctrl-C, which is not for this one then.
pub(crate) fn lend(is_lent: bool) {
    IS_LENT.store(is_lent, Ordering::Relaxed);
}

/// Ends child processes and exits at once.
pub fn leave(code: u8) {
    ah_process::finish_all();
    std::process::exit(code.into());
}
