//! Port: a queue of runs that several workers share, and the sessions that it is about.
//!
//! A row is the truth and a hint only wakes: with every hint lost, work begins a little later. A worker says with each
//! beat that it is alive; the runs of one that has stopped beating are given to another. What is safe about a session is
//! in its lease, not here: if two workers take the same run, only one of them can write.

pub mod command;
mod limits;
mod new_run;
mod questions;
mod schedules;
mod waker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{MailKind, Message, MessageId, SessionId, StoreError, Time};
use async_trait::async_trait;

use crate::{Collected, OpenError, SessionStore};
pub use limits::{ALL, Admission, Limit, Limits};
pub use new_run::NewRun;
pub use questions::{Asker, Questions, Waiting, digest};
pub use schedules::{Schedule, Schedules, Start};
pub use waker::Waker;

/// A queue of runs, and their sessions. It wakes those who watch it.
#[async_trait]
pub trait Fleet: Limits + Questions + Schedules + Waker {
    /// Returns the intervals of beats.
    fn timing(&self) -> Timing;

    /// Queues a run, with its prompt as a message for the session; returns its number. Over PostgreSQL in one transaction; in a
    /// folder the message comes first, so a crash in between leaves a message that nobody reads until the next run.
    async fn enqueue(&self, run: &NewRun) -> Result<RunId, StoreError>;

    /// Takes the run that is next: due, of the highest priority, oldest. That of another worker that no longer beats is
    /// due.
    async fn claim(&self, worker: &str) -> Result<Option<Run>, StoreError>;

    /// Renews the claim of `worker` on `run`; returns the request that waits for it, or [`Wish::Leave`] if another worker has taken
    /// it over.
    async fn beat(&self, run: RunId, worker: &str) -> Result<Wish, StoreError>;

    /// Ends the part of `worker` in a run; returns whether it was still its own. One that is done is queued again if a
    /// message came at its end.
    async fn end(&self, run: RunId, worker: &str, end: &End) -> Result<bool, StoreError>;

    /// Opens a session for writing, or makes it.
    async fn open(
        self: Arc<Self>,
        session: &SessionId,
        worker: &str,
    ) -> Result<SessionStore, OpenError>;

    /// Gives a session back that [`Fleet::open`] has opened, and that is closed.
    async fn close(&self, session: &SessionId, worker: &str) -> Result<(), StoreError>;

    /// Removes a session that `worker` has open, with its runs; returns whether it is gone. It stays if there is mail
    /// besides `moved`.
    async fn forget(
        &self,
        session: &SessionId,
        worker: &str,
        moved: &[MessageId],
    ) -> Result<bool, StoreError>;

    /// Removes the sessions in which nothing has happened since `before`, unless runs or messages wait in them or they are
    /// in use, and all that no session uses any more. With `None` sessions stay, but for those of a folder without a message.
    async fn collect(&self, before: Option<Time>) -> Result<Collected, StoreError>;

    /// Queues a message for a session. If its last run is done, that is queued again.
    async fn send(
        &self,
        session: &SessionId,
        kind: MailKind,
        text: &str,
    ) -> Result<MessageId, StoreError>;

    /// Asks for something of the run of a session; to cancel concerns also those that wait. Returns the number of runs
    /// that it concerns.
    async fn wish(&self, session: &SessionId, wish: Wish) -> Result<u64, StoreError>;

    /// Returns the sessions whose ids begin with `prefix`, at most two.
    async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, StoreError>;

    /// Returns the runs, newest first, at most `limit`; those of one session, or all.
    async fn runs(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError>;

    /// Returns the number of runs in each state.
    async fn counts(&self) -> Result<Vec<(RunState, u64)>, StoreError>;

    /// Returns whether no run waits or runs. Unlike [`Fleet::counts`], it takes no longer when many are over.
    async fn is_idle(&self) -> Result<bool, StoreError>;

    /// Returns the messages of a session after the place `after`, and the new place. The first place is 0.
    async fn messages(
        &self,
        session: &SessionId,
        after: i64,
    ) -> Result<(Vec<Arc<Message>>, i64), StoreError>;

    /// Returns what wakes a worker: the fleet itself, or something that gives each hint to one worker only.
    async fn waker(self: Arc<Self>) -> Result<Arc<dyn Waker>, StoreError>;

    /// Returns the longest pause between two looks while no run is open and nothing is scheduled: as long as a hint that is
    /// lost may delay the next run.
    fn rest(&self) -> Duration;
}

/// Intervals of a fleet; all its workers must have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two beats of a worker, and between two looks at the queue.
    pub beat: Duration,
    /// After the last beat, when a worker counts as dead.
    pub dead: Duration,
}

impl Timing {
    /// Returns the intervals with which a worker counts as dead after `dead`: six beats.
    pub fn of(dead: Duration) -> Self {
        Self {
            beat: dead / 6,
            dead,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::of(Duration::from_secs(3))
    }
}

/// Number of a run.
pub type RunId = i64;

/// A run that a worker has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// Its session.
    pub session: SessionId,
    /// The folder to work in.
    pub folder: PathBuf,
    /// The model; that of the worker's settings if `None`.
    pub model: Option<String>,
    /// The attempt: 1 is the first.
    pub attempt: u32,
    /// How many attempts there may be.
    pub attempts: u32,
    /// Words of a command line of this program to run in the place of an agent; none for a prompt.
    pub command: Vec<String>,
    /// How long a question waits for its answer; nobody is asked if `None`.
    pub answer_within: Option<Duration>,
}

/// A request to a run in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// None: it goes on.
    GoOn,
    /// It stops after what it is doing; the session can be continued.
    Interrupt,
    /// It stops at once and does not begin again.
    Cancel,
    /// This worker drops it: another has it.
    Leave,
}

impl Wish {
    /// Returns the word that is stored, if it is stored.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Interrupt => Some("interrupt"),
            Self::Cancel => Some("cancel"),
            Self::GoOn | Self::Leave => None,
        }
    }

    /// Returns the wish of a stored word.
    pub fn of(word: Option<&str>) -> Self {
        match word {
            Some("interrupt") => Self::Interrupt,
            Some("cancel") => Self::Cancel,
            _ => Self::GoOn,
        }
    }
}

/// How a worker leaves a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is done, and this is what its check has shown, if it had one.
    Done(Option<String>),
    /// It failed, and no attempt is left.
    Failed(String),
    /// It failed, and is attempted again after this time.
    Again(String, Duration),
    /// It was interrupted or cancelled.
    Cancelled,
    /// Another worker is to go on after this time. It does not count as an attempt.
    HandedOn(Duration),
    /// It goes on when its tenant has a budget again. It does not count as an attempt.
    Spent,
}

/// What the end of an attempt changes in the queue.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The state.
    pub state: RunState,
    /// The error, or what the check of a run that is done has shown, if there is one.
    pub reason: Option<&'a str>,
    /// When a run that waits is due.
    pub after: Duration,
    /// Whether it counts as an attempt.
    pub counts: bool,
}

impl End {
    /// Returns what it changes.
    pub fn part(&self) -> Part<'_> {
        let (state, reason, after) = match self {
            Self::Done(known) => (RunState::Done, known.as_deref(), Duration::ZERO),
            Self::Failed(error) => (RunState::Failed, Some(error.as_str()), Duration::ZERO),
            Self::Again(error, after) => (RunState::Queued, Some(error.as_str()), *after),
            Self::Cancelled => (RunState::Cancelled, None, Duration::ZERO),
            Self::HandedOn(after) => (RunState::Queued, None, *after),
            Self::Spent => (
                RunState::Queued,
                Some("the budget is spent"),
                Duration::ZERO,
            ),
        };
        Part {
            state,
            reason,
            after,
            counts: !matches!(self, Self::HandedOn(_) | Self::Spent),
        }
    }
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// It waits.
    Queued,
    /// A worker has it.
    Running,
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It was interrupted or cancelled.
    Cancelled,
}

impl RunState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns the word that is stored and shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the state of a stored word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Returns whether it is over.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its number.
    pub id: RunId,
    /// Its session.
    pub session: SessionId,
    /// What it is about, in one short line.
    pub title: String,
    /// Its state.
    pub state: RunState,
    /// The attempt, 0 before the first.
    pub attempt: u32,
    /// The worker that has it, or had it last.
    pub worker: Option<String>,
    /// When it was queued.
    pub queued_at: Time,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// What its check has shown, if it had one and is done.
    pub known: Option<String>,
    /// Questions that wait for an answer.
    pub questions: u32,
    /// Cost of its session so far, in 10⁻¹² US dollars, where the store knows it.
    pub cost: Option<i64>,
}

/// Returns the error of a run and what its check has shown, of the reason that its state was stored with.
pub fn error_or_known(state: RunState, reason: Option<String>) -> (Option<String>, Option<String>) {
    match state {
        RunState::Done => (None, reason),
        RunState::Queued | RunState::Running | RunState::Failed | RunState::Cancelled => {
            (reason, None)
        }
    }
}

/// Longest pause before another attempt.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Returns the pause before an attempt: one second, and twice as long each time, up to the longest.
pub fn backoff(attempt: u32) -> Duration {
    let doubled = 1_u64
        .checked_shl(attempt.saturating_sub(1))
        .unwrap_or(u64::MAX);
    Duration::from_secs(doubled).min(LONGEST_PAUSE)
}
