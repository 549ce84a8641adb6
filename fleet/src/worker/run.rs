//! One attempt at a run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ah_agent::{Audience, RunOutcome, Stop};
use ah_config::Error;
use ah_conversation::{ExitReason, PermissionRequest, Verification};
use ah_store::fleet::{End, Fleet, Run, Wish, backoff};
use ah_store::{OpenError, SessionStore};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::around::{Resumed, Surroundings};
use super::asking::{AskFleet, Unwatched};
use super::command::{self, CommandEnd};
use super::pace::{Meter, Paced};
use crate::carried::Workspace;
use ah_engine::model::Around;
use ah_engine::person::Elsewhere;
use ah_engine::warn::Warn;

/// What every run starts with.
pub(super) struct Starts {
    pub around: Arc<dyn Surroundings>,
    pub described: fn(&PermissionRequest) -> String,
    pub runs_commands: bool,
}

/// An attempt at a run.
pub(super) struct Attempt {
    pub run: Run,
    pub worker: String,
    pub fleet: Arc<dyn Fleet>,
    pub starts: Arc<Starts>,
    pub wishes: watch::Receiver<Wish>,
    pub meter: Arc<Meter>,
    pub warn: Warn,
}

impl Attempt {
    /// Runs to the end; returns it, or `None` if the run was lost or left.
    pub(super) async fn perform(&self) -> Option<End> {
        match self.opened().await {
            Ok((store, files)) => self.ended(&store, files.map(Arc::new).as_ref()).await,
            Err(end) => Some(end),
        }
    }

    /// Opens the session, and makes its files if it carries them.
    async fn opened(&self) -> Result<(Arc<SessionStore>, Option<Workspace>), End> {
        let opened = self.fleet.clone().open(&self.run.session, &self.worker);
        let store = match opened.await {
            Ok(store) => Arc::new(store),
            // Its last holder has not been missed for long enough.
            Err(OpenError::Busy(_)) => return Err(End::HandedOn(self.fleet.timing().beat)),
            Err(OpenError::Store(error)) => return Err(self.again(error.to_string())),
        };
        if let Some(killed) = store.predecessor() {
            ah_process::finish_orphans(killed);
        }
        let files = tokio::select! {
            biased;
            () = self.left() => return Err(End::HandedOn(Duration::ZERO)),
            files = self.starts.around.files(&self.run, &store) => files,
        };
        match files {
            Ok(files) => Ok((store, files)),
            Err(error) => Err(self.again(error.to_string())),
        }
    }

    /// Runs to the end, and stores the files as they are then; `None` if the run was lost or left.
    async fn ended(
        &self,
        store: &Arc<SessionStore>,
        files: Option<&Arc<Workspace>>,
    ) -> Option<End> {
        let left = async {
            self.left().await;
            // What the log is being told now is told to the end, or the files could not follow.
            store.at_rest().await;
        };
        let end = tokio::select! {
            biased;
            // Another worker goes on; the rest of this attempt is dropped, as by a crash.
            () = left => None,
            end = self.attempt(store, files) => Some(end),
        };
        if let Err(error) = self.meter.settle().await {
            tracing::warn!("the budget does not know what a run has cost: {error}");
        }
        if let Some(files) = files
            && let Err(error) = files.close(store).await
        {
            // One that was lost cannot store anything.
            return end.map(|_| self.again(format!("cannot store the files: {error}")));
        }
        end
    }

    async fn attempt(&self, store: &Arc<SessionStore>, files: Option<&Arc<Workspace>>) -> End {
        if !self.run.command.is_empty() {
            let ended = self.command(store).await;
            return ended.unwrap_or_else(|error| self.again(error.to_string()));
        }
        match self.outcome(store.clone(), files).await {
            _ if self.meter.is_spent() => End::Spent,
            Ok(outcome) => self.end(outcome),
            Err(error) => self.again(error.to_string()),
        }
    }

    async fn outcome(
        &self,
        store: Arc<SessionStore>,
        files: Option<&Arc<Workspace>>,
    ) -> Result<Option<RunOutcome>, Error> {
        let with = Resumed {
            store,
            files: files.cloned(),
            around: self.paced(),
            audience: self.audience(),
            warn: self.warn.clone(),
        };
        let token = CancellationToken::new();
        let stop = Stop::interrupt(token.clone());
        tokio::select! {
            biased;
            () = self.interrupted(&token) => Ok(None),
            outcome = self.starts.around.resume(&self.run, with, &stop) => outcome,
        }
    }

    async fn command(&self, store: &SessionStore) -> Result<End, Error> {
        if !self.starts.runs_commands {
            let reason = "this worker runs no commands; `ah worker --commands` does";
            return Ok(End::Failed(reason.to_owned()));
        }
        let environment = self.starts.around.environment(&self.run.folder)?;
        let ended = tokio::select! {
            biased;
            ended = command::perform(&self.run, &environment, store) => ended?,
            () = self.stopped() => CommandEnd::Cancelled,
        };
        Ok(match ended {
            CommandEnd::Done => End::Done(None),
            CommandEnd::Cancelled => End::Cancelled,
            CommandEnd::Failed(reason) => End::Failed(reason),
            CommandEnd::CutOff(reason) => self.again(reason),
        })
    }

    fn paced(&self) -> Around {
        let meter = self.meter.clone();
        Arc::new(move |inner| {
            let meter = meter.clone();
            Arc::new(Paced { inner, meter })
        })
    }

    fn audience(&self) -> Audience {
        let is_again = Arc::new(AtomicBool::new(true));
        let audience = Audience::watching(Arc::new(Unwatched {
            meter: self.meter.clone(),
            is_again: is_again.clone(),
        }));
        match self.run.answer_within {
            Some(within) => audience.with_host(Arc::new(Elsewhere {
                ask: AskFleet {
                    fleet: self.fleet.clone(),
                    session: self.run.session.clone(),
                    around: self.starts.around.clone(),
                    within,
                    is_again,
                },
                described: self.starts.described,
            })),
            None => audience,
        }
    }

    fn end(&self, outcome: Option<RunOutcome>) -> End {
        let Some(outcome) = outcome else {
            return End::Done(None);
        };
        let known = outcome.verification.as_ref().map(Verification::line);
        match (&outcome.failure, &outcome.reason) {
            (None, reason) if reason.is_end_of_turn() => End::Done(known),
            (None, ExitReason::Interrupted) => End::Cancelled,
            (None, reason) => {
                End::Failed(known.unwrap_or_else(|| format!("it ended with `{}`", reason.as_str())))
            }
            (Some(failure), _) => self.again(failure.to_string()),
        }
    }

    /// Returns the end of an attempt that failed.
    pub(super) fn again(&self, error: String) -> End {
        again(&self.run, error)
    }

    /// Waits until the run is no longer this worker's.
    async fn left(&self) {
        let mut wishes = self.wishes.clone();
        // The sender lives as long as the run does.
        let _ = wishes.wait_for(|wish| *wish == Wish::Leave).await;
    }

    /// Waits until the run is to stop.
    async fn stopped(&self) {
        let mut wishes = self.wishes.clone();
        let is_stop = |wish: &Wish| matches!(wish, Wish::Interrupt | Wish::Cancel);
        let _ = wishes.wait_for(is_stop).await;
    }

    /// Cancels `token` when the run is to stop. It never returns, so that the run ends by itself.
    async fn interrupted(&self, token: &CancellationToken) {
        self.stopped().await;
        token.cancel();
        std::future::pending::<()>().await;
    }
}

/// Returns the end of an attempt at a run that failed.
pub(super) fn again(run: &Run, error: String) -> End {
    if run.attempt < run.attempts {
        End::Again(error, backoff(run.attempt))
    } else {
        End::Failed(error)
    }
}
