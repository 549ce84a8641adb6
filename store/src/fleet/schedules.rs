//! Runs that are queued at certain times, again and again.

use ah_conversation::{MessageId, SessionId, StoreError, Time};
use async_trait::async_trait;

use super::new_run::NewRun;

/// The schedules of a fleet.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Returns the time by the clock that decides what is due.
    async fn now(&self) -> Result<Time, StoreError>;

    /// Adds a schedule, whose first run is due at `due`; returns its number. The session and the message of `run` stand
    /// for those of every start, which are new.
    async fn schedule(&self, cron: &str, due: Time, run: &NewRun) -> Result<i64, StoreError>;

    /// Removes a schedule; returns whether there was one.
    async fn unschedule(&self, number: i64) -> Result<bool, StoreError>;

    /// Returns the schedules, oldest first.
    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError>;

    /// Queues the run of a schedule that is due in a new session, and moves it to `next`, both or none; returns whether
    /// it was this caller: however many try, each due time starts one session.
    async fn start(
        &self,
        schedule: &Schedule,
        start: &Start,
        next: Time,
    ) -> Result<bool, StoreError>;
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its number.
    pub number: i64,
    /// The times, as a crontab has them, and their zone.
    pub cron: String,
    /// When it is due next.
    pub due: Time,
    /// The task.
    pub prompt: String,
}

/// Ids of what a start makes. They follow from the schedule and the time, so a start that was cut off is made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The session.
    pub session: SessionId,
    /// The message with the prompt.
    pub message: MessageId,
}

impl Start {
    /// Returns the ids of the start of a schedule at its due time.
    pub fn of(schedule: &Schedule) -> Self {
        let id = |what: &str| {
            let seed = format!("{} {} {what}", schedule.number, schedule.prompt);
            ah_ids::id_from(schedule.due, &seed)
        };
        Self {
            session: SessionId::from(id("session")),
            message: MessageId::from(id("message")),
        }
    }
}
