//! Schedules of runs.

use ah_conversation::{StoreError, Time};
use ah_store::fleet::{NewRun, Schedule, Schedules, Start, command};
use async_trait::async_trait;
use tokio_postgres::types::Type;

use crate::connection::{Parameters, Postgres};

/// Moves a schedule from one due time to the next, and queues its run only if it was moved.
const START: &str = "
    WITH due AS (
        UPDATE ah.schedules SET next_at = $3 WHERE tenant = current_user AND number = $1 AND next_at = $2
        RETURNING prompt, folder, model, priority, attempts, answer_within, title, command),
    session AS (INSERT INTO ah.sessions (id) SELECT $4 FROM due),
    letter AS (INSERT INTO ah.mail (session, id, kind, content) SELECT $4, $5, 'followup', prompt FROM due)
    INSERT INTO ah.runs (session, folder, model, priority, attempts, answer_within, title, command)
    SELECT $4, folder, model, priority, attempts, answer_within, title, command FROM due
    RETURNING id, pg_notify('ah', '')";

#[async_trait]
impl Schedules for Postgres {
    async fn now(&self) -> Result<Time, StoreError> {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        Ok(Time(self.row("cannot read", now, &[]).await?.get(0)))
    }

    async fn schedule(&self, cron: &str, due: Time, run: &NewRun) -> Result<i64, StoreError> {
        let attempts = i32::try_from(run.attempts).unwrap_or(i32::MAX);
        let row = self
            .row(
                "cannot write",
                "INSERT INTO ah.schedules
                     (cron, next_at, prompt, folder, model, priority, attempts, answer_within, title, command, request)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                 ON CONFLICT (tenant, request) DO UPDATE SET request = excluded.request RETURNING number",
                &[
                    (&cron, Type::TEXT),
                    (&due.0, Type::INT8),
                    (&run.prompt, Type::TEXT),
                    (&run.folder.to_string_lossy().as_ref(), Type::TEXT),
                    (&run.model, Type::TEXT),
                    (&run.priority, Type::INT4),
                    (&attempts, Type::INT4),
                    (
                        &run.answer_within.map(|within| within.as_secs_f64()),
                        Type::FLOAT8,
                    ),
                    (&run.title(), Type::TEXT),
                    (&command::stored(&run.command), Type::TEXT),
                    (&run.message.as_str(), Type::TEXT),
                ],
            )
            .await?;
        Ok(row.get(0))
    }

    async fn unschedule(&self, number: i64) -> Result<bool, StoreError> {
        let delete =
            "DELETE FROM ah.schedules WHERE tenant = current_user AND number = $1 RETURNING number";
        let parameters: Parameters<'_> = &[(&number, Type::INT8)];
        let rows = self.rows("cannot write", delete, parameters).await?;
        Ok(!rows.is_empty())
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let all = "SELECT number, cron, next_at, prompt FROM ah.schedules
                   WHERE tenant = current_user ORDER BY number";
        let rows = self.rows("cannot read", all, &[]).await?;
        let schedule = rows.iter().map(|row| Schedule {
            number: row.get(0),
            cron: row.get(1),
            due: Time(row.get(2)),
            prompt: row.get(3),
        });
        Ok(schedule.collect())
    }

    async fn start(
        &self,
        schedule: &Schedule,
        start: &Start,
        next: Time,
    ) -> Result<bool, StoreError> {
        let parameters: Parameters<'_> = &[
            (&schedule.number, Type::INT8),
            (&schedule.due.0, Type::INT8),
            (&next.0, Type::INT8),
            (&start.session.as_str(), Type::TEXT),
            (&start.message.as_str(), Type::TEXT),
        ];
        let rows = self.rows("cannot write", START, parameters).await?;
        Ok(!rows.is_empty())
    }
}
