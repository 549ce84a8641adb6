//! What ends a run from outside: a person, the embedder, the clock, or whoever was asked about a call.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ah_conversation::{Clock, ExitReason, Time};
use tokio_util::sync::CancellationToken;

/// What ends a run from outside.
#[derive(Debug, Clone)]
pub struct Stop {
    token: CancellationToken,
    reason: ExitReason,
    deadline: Option<Time>,
    /// Cancelled when the deadline was waited for: the timer and the clock need not agree to the millisecond.
    timed_out: CancellationToken,
    /// Set by an answer that ends the run.
    halted: Arc<OnceLock<ExitReason>>,
}

impl Stop {
    /// Ends the run as interrupted when a person cancels `token`.
    pub fn interrupt(token: CancellationToken) -> Self {
        Self::new(token, ExitReason::Interrupted)
    }

    /// Ends the run as aborted when the program that embeds the engine cancels `token`.
    pub fn abort(token: CancellationToken) -> Self {
        Self::new(token, ExitReason::Aborted)
    }

    fn new(token: CancellationToken, reason: ExitReason) -> Self {
        Self {
            token,
            reason,
            deadline: None,
            timed_out: CancellationToken::new(),
            halted: Arc::default(),
        }
    }

    /// The same, and as timed out at `deadline`.
    pub(crate) fn at(&self, deadline: Option<Time>) -> Self {
        Self {
            deadline,
            timed_out: CancellationToken::new(),
            halted: Arc::default(),
            ..self.clone()
        }
    }

    /// Ends the run before its next step.
    pub(crate) fn halt(&self, reason: ExitReason) {
        // What comes later follows from the first.
        let _ = self.halted.set(reason);
    }

    /// Why the run must end now, if it must.
    pub(crate) fn reason(&self, now: Time) -> Option<ExitReason> {
        if self.token.is_cancelled() {
            return Some(self.reason.clone());
        }
        if let Some(reason) = self.halted.get() {
            return Some(reason.clone());
        }
        let is_late = self.deadline.is_some_and(|deadline| now >= deadline);
        (is_late || self.timed_out.is_cancelled()).then_some(ExitReason::Timeout)
    }

    /// Returns when the run must end.
    pub(crate) async fn wait(&self, clock: &dyn Clock) {
        let timed_out = async {
            match self.deadline {
                Some(deadline) => {
                    tokio::time::sleep(Duration::from_millis(deadline.since(clock.now()))).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.token.cancelled() => {}
            () = timed_out => self.timed_out.cancel(),
        }
    }
}
