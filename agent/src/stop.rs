//! Ways to end a run from outside: by the user, the embedding program, the clock, or the answer to a permission
//! request.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ah_conversation::{Clock, ExitReason, Time};
use tokio_util::sync::CancellationToken;

/// Leaves a run to another process, which resumes it.
#[derive(Debug, Clone, Default)]
pub struct Leaving {
    asked: CancellationToken,
    now: CancellationToken,
}

impl Leaving {
    /// Leaves the run once the answer or the calls in progress have ended. Calls that have not begun, or are still being asked
    /// about, are left to the other process.
    pub fn soon(&self) {
        self.asked.cancel();
    }

    /// Leaves it at once: what was said of an answer is dropped, and calls in progress are interrupted.
    pub fn at_once(&self) {
        self.asked.cancel();
        self.now.cancel();
    }

    /// Returns whether the run is to be left.
    pub fn is_asked(&self) -> bool {
        self.asked.is_cancelled()
    }
}

/// Ends a run from outside.
#[derive(Debug, Clone)]
pub struct Stop {
    token: CancellationToken,
    leaving: Leaving,
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
            leaving: Leaving::default(),
            reason,
            deadline: None,
            timed_out: CancellationToken::new(),
            halted: Arc::default(),
        }
    }

    /// Returns the same stop, by which the run can also be left to another process.
    #[must_use]
    pub fn leaving(self, leaving: Leaving) -> Self {
        Self { leaving, ..self }
    }

    /// Returns whether the run is left to another process. One that is ended is not.
    pub(crate) fn is_left(&self) -> bool {
        self.leaving.is_asked() && !self.token.is_cancelled()
    }

    /// Waits until the run is to be left to another process.
    pub(crate) async fn left(&self) {
        self.leaving.asked.cancelled().await;
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
        if self.token.is_cancelled() || self.leaving.now.is_cancelled() {
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
            () = self.leaving.now.cancelled() => {}
            () = timed_out => self.timed_out.cancel(),
        }
    }
}
