//! Schedules of the runs of a folder.

use ah_conversation::{MailKind, SessionId, StoreError, Time};
use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::LocalFleet;
use crate::fleet::{NewRun, Schedule, Schedules, Start, command};
use crate::{OpenError, Queue, SessionStore};

#[async_trait]
impl Schedules for LocalFleet {
    async fn now(&self) -> Result<Time, StoreError> {
        Ok(self.clock.now())
    }

    async fn schedule(&self, cron: &str, due: Time, run: &NewRun) -> Result<i64, StoreError> {
        self.with("cannot write", |connection| {
            connection.query_one(
                "INSERT INTO schedules
                     (cron, next_at, prompt, folder, model, priority, attempts, answer_within, title, command)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
                params![
                    cron,
                    due.0,
                    run.prompt,
                    run.folder.to_string_lossy(),
                    run.model,
                    run.priority,
                    run.attempts,
                    run.answer_within.map(|within| within.as_secs_f64()),
                    run.title(),
                    command::stored(&run.command),
                ],
                |row| row.get(0),
            )
        })
    }

    async fn unschedule(&self, number: i64) -> Result<bool, StoreError> {
        let removed = self.with("cannot write", |connection| {
            connection.execute("DELETE FROM schedules WHERE number = ?", [number])
        })?;
        Ok(removed > 0)
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.with("cannot read", |connection| {
            let all = "SELECT number, cron, next_at, prompt FROM schedules ORDER BY number";
            let mut statement = connection.prepare(all)?;
            let rows = statement.query_map([], |row| {
                Ok(Schedule {
                    number: row.get(0)?,
                    cron: row.get(1)?,
                    due: Time(row.get(2)?),
                    prompt: row.get(3)?,
                })
            })?;
            rows.collect()
        })
    }

    async fn start(
        &self,
        schedule: &Schedule,
        start: &Start,
        next: Time,
    ) -> Result<bool, StoreError> {
        // One caller at a time, here and elsewhere. What is made before the transaction ends is made with the same ids
        // again if it is cut off.
        self.alone(|connection| self.started(connection, schedule, start, next))
    }
}

impl LocalFleet {
    fn started(
        &self,
        connection: &Connection,
        schedule: &Schedule,
        start: &Start,
        next: Time,
    ) -> rusqlite::Result<Result<bool, StoreError>> {
        let moved: Option<String> = connection
            .query_row(
                "UPDATE schedules SET next_at = ? WHERE number = ? AND next_at = ? RETURNING prompt",
                params![next.0, schedule.number, schedule.due.0],
                |row| row.get(0),
            )
            .optional()?;
        let Some(prompt) = moved else {
            return Ok(Ok(false));
        };
        if let Err(error) = self.send_first(start, &prompt) {
            return Ok(Err(error));
        }
        connection.execute(
            "INSERT INTO runs
                 (session, folder, model, priority, due_at, attempts, queued_at, answer_within, title, command)
             SELECT ?2, folder, model, priority, 0, attempts, ?3, answer_within, title, command FROM schedules WHERE number = ?1",
            params![schedule.number, start.session.as_str(), self.now_ms()],
        )?;
        Ok(Ok(true))
    }

    fn send_first(&self, start: &Start, prompt: &str) -> Result<(), StoreError> {
        self.prepare(&start.session)?;
        let queue = Queue::open(&self.paths(&start.session)?)?;
        match queue.has_waiting()? {
            true => Ok(()),
            false => queue.send_as(&start.message, MailKind::FollowUp, prompt),
        }
    }

    /// Makes a session, unless it is there.
    pub(super) fn prepare(&self, session: &SessionId) -> Result<(), StoreError> {
        match SessionStore::open(&self.paths(session)?) {
            // A session that is open elsewhere is there already.
            Ok(_) | Err(OpenError::Busy(_)) => Ok(()),
            Err(OpenError::Store(error)) => Err(error),
        }
    }
}
