//! Ways to end a run from outside: by the user, the embedding program, the clock, or the answer to a permission
//! request.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ah_conversation::{Clock, ExitReason, Time};
use tokio_util::sync::CancellationToken;

/// Ends a run from outside.
#[derive(Debug, Clone)]
pub struct Stop {
    token: CancellationToken,
    reason: ExitReason,
    deadline: Option<Time>,
    /// Cancelled once the deadline has been waited for: timer and clock may differ by a millisecond.
    timed_out: CancellationToken,
    /// Set by an answer that ends the run.
    halted: Arc<OnceLock<ExitReason>>,
}

impl Stop {
    /// Ends the run as interrupted when the user cancels `token`.
    pub fn interrupt(token: CancellationToken) -> Self {
        Self::new(token, ExitReason::Interrupted)
    }

    /// Ends the run as aborted when the embedding program cancels `token`.
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

    /// Returns the same stop with a deadline.
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
        // The first reason counts.
        let _ = self.halted.set(reason);
    }

    /// Returns why the run must end now, if so.
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

    /// Waits until the run must end.
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
