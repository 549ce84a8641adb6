//! What ends a run from outside: a person, the embedder, or the clock.

use std::time::Duration;

use ah_conversation::{Clock, ExitReason, Time};
use tokio_util::sync::CancellationToken;

/// What ends a run from outside.
#[derive(Debug, Clone)]
pub struct Stop {
    token: CancellationToken,
    reason: ExitReason,
    deadline: Option<Time>,
}

impl Stop {
    /// Ends the run as interrupted when a person cancels `token`.
    pub fn interrupt(token: CancellationToken) -> Self {
        Self {
            token,
            reason: ExitReason::Interrupted,
            deadline: None,
        }
    }

    /// Ends the run as aborted when the program that embeds the engine cancels `token`.
    pub fn abort(token: CancellationToken) -> Self {
        Self {
            token,
            reason: ExitReason::Aborted,
            deadline: None,
        }
    }

    /// The same, and as timed out at `deadline`.
    pub(crate) fn at(&self, deadline: Option<Time>) -> Self {
        Self {
            deadline,
            ..self.clone()
        }
    }

    /// Why the run must end now, if it must.
    pub(crate) fn reason(&self, now: Time) -> Option<ExitReason> {
        if self.token.is_cancelled() {
            return Some(self.reason.clone());
        }
        self.deadline
            .is_some_and(|deadline| now >= deadline)
            .then_some(ExitReason::Timeout)
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
            () = timed_out => {}
        }
    }
}
