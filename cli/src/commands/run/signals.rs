//! What stops a run from outside: Ctrl-C ends the turn cleanly and a second one leaves at once; SIGTERM and SIGHUP end
//! the turn as cleanly. Each has its exit code.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit codes: 128 and the signal's number.
const HANGUP: u8 = 129;
const INTERRUPT: u8 = 130;
const TERMINATE: u8 = 143;

/// The signals that have arrived.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    token: CancellationToken,
    code: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on, on the present runtime. `leave` is called at the second Ctrl-C with the exit code; it must
    /// not return.
    pub fn listen(leave: impl FnOnce(u8) + Send + 'static) -> io::Result<Self> {
        let signals = Self::default();
        let interrupts = signal(SignalKind::interrupt())?;
        let others = [
            (signal(SignalKind::terminate())?, TERMINATE),
            (signal(SignalKind::hangup())?, HANGUP),
        ];
        for (signal, code) in others {
            tokio::spawn(signals.clone().stop_at(signal, code));
        }
        tokio::spawn(signals.clone().stop_or_leave(interrupts, leave));
        Ok(signals)
    }

    /// Is cancelled when the first signal arrives.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The exit code that the first signal asks for.
    pub fn code(&self) -> Option<u8> {
        Some(self.code.load(Ordering::Relaxed)).filter(|code| *code != 0)
    }

    async fn stop_at(self, mut signal: Signal, code: u8) {
        signal.recv().await;
        self.stop(code);
    }

    async fn stop_or_leave(self, mut signal: Signal, leave: impl FnOnce(u8)) {
        signal.recv().await;
        self.stop(INTERRUPT);
        signal.recv().await;
        leave(INTERRUPT);
    }

    fn stop(&self, code: u8) {
        // Only the first one counts.
        let _ = self.code.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        self.token.cancel();
    }
}
