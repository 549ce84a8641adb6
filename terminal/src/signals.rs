//! What stops a run from outside: Ctrl-C ends the turn cleanly and a second one leaves at once; SIGTERM and SIGHUP end
//! the turn as cleanly. The first one decides the exit code.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::exit::{self, Interrupt};
use ah_conversation::{ExitReason, Interface};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that have arrived.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    token: CancellationToken,
    first: Arc<OnceLock<Interrupt>>,
}

impl Signals {
    /// Listens from now on, on the present runtime. `leave` is called at the second Ctrl-C with the exit code.
    pub fn listen(leave: impl FnOnce(u8) + Send + 'static) -> io::Result<Self> {
        let signals = Self::listen_to_ends()?;
        let interrupts = signal(SignalKind::interrupt())?;
        tokio::spawn(signals.clone().stop_or_leave(interrupts, leave));
        Ok(signals)
    }

    /// Listens from now on to what wants the program gone, and leaves Ctrl-C to others.
    pub fn listen_to_ends() -> io::Result<Self> {
        let signals = Self::default();
        for (kind, interrupt) in [
            (SignalKind::terminate(), Interrupt::Terminate),
            (SignalKind::hangup(), Interrupt::Hangup),
        ] {
            tokio::spawn(signals.clone().stop_at(signal(kind)?, interrupt));
        }
        Ok(signals)
    }

    /// Is cancelled when the first signal arrives. Whoever notices another reason to end cancels it too.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The first signal, if one arrived.
    pub fn interrupt(&self) -> Option<Interrupt> {
        self.first.get().copied()
    }

    async fn stop_at(self, mut signal: Signal, interrupt: Interrupt) {
        signal.recv().await;
        self.stop(interrupt);
    }

    async fn stop_or_leave(self, mut signal: Signal, leave: impl FnOnce(u8)) {
        signal.recv().await;
        self.stop(Interrupt::Interrupt);
        signal.recv().await;
        let interrupted = Some(Interrupt::Interrupt);
        leave(exit::code(
            Interface::Native,
            &ExitReason::Interrupted,
            interrupted,
        ));
    }

    fn stop(&self, interrupt: Interrupt) {
        // Only the first one counts.
        let _ = self.first.set(interrupt);
        self.token.cancel();
    }
}

/// The second Ctrl-C: children end first, then the program, at once.
pub fn leave(code: u8) {
    ah_process::finish_all();
    std::process::exit(code.into());
}
