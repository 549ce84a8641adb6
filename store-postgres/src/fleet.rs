//! The queue of runs. A worker takes a row that no other has locked (`SKIP LOCKED`) and keeps it by beating.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Clock as _, MailKind, Message, MessageId, SessionId, StoreError, Time};
use ah_ids::SystemClock;
use ah_store::fleet::{
    End, Fleet, NewRun, Run, RunId, RunRow, RunState, Timing, Waker, Wish, command, error_or_known,
};
use ah_store::{Collected, Holder, OpenError, SessionStore, log};
use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Postgres;
use crate::error::refused;
#[cfg(feature = "graphile")]
use crate::graphile::Graphile;
use crate::lease::{self, Lease};

/// Queues the session, the prompt and the run in one statement. The same message is queued once, so it may run twice.
const ENQUEUE: &str = "
    WITH session AS (INSERT INTO ah.sessions (id) VALUES ($1) ON CONFLICT DO NOTHING),
    letter AS (
        INSERT INTO ah.mail (session, id, kind, content) VALUES ($1, $2, 'followup', $3)
        ON CONFLICT DO NOTHING RETURNING 1),
    run AS (
        INSERT INTO ah.runs (session, folder, model, priority, due_at, attempts, answer_within, title, command)
        SELECT $1, $4, $5, $6, clock_timestamp() + make_interval(secs => $7), $8, $9, $10, $11 FROM letter RETURNING id)
    SELECT coalesce((SELECT id FROM run),
                    (SELECT max(id) FROM ah.runs WHERE tenant = current_user AND session = $1)), pg_notify('ah', '')";

#[async_trait]
impl Fleet for Postgres {
    fn timing(&self) -> Timing {
        self.timing
    }

    async fn enqueue(&self, run: &NewRun) -> Result<RunId, StoreError> {
        if run.prompt.contains('\0') {
            let reason = "a prompt cannot have a NUL character";
            return Err(refused("cannot write", self.name(), reason, None));
        }
        let attempts = i32::try_from(run.attempts).unwrap_or(i32::MAX);
        let row = self
            .row(
                "cannot write",
                ENQUEUE,
                &[
                    (&run.session.as_str(), Type::TEXT),
                    (&run.message.as_str(), Type::TEXT),
                    (&run.prompt, Type::TEXT),
                    (&run.folder.to_string_lossy().as_ref(), Type::TEXT),
                    (&run.model, Type::TEXT),
                    (&run.priority, Type::INT4),
                    (&run.delay.as_secs_f64(), Type::FLOAT8),
                    (&attempts, Type::INT4),
                    (
                        &run.answer_within.map(|within| within.as_secs_f64()),
                        Type::FLOAT8,
                    ),
                    (&run.title(), Type::TEXT),
                    (&command::stored(&run.command), Type::TEXT),
                ],
            )
            .await?;
        Ok(row.get(0))
    }

    async fn claim(&self, worker: &str) -> Result<Option<Run>, StoreError> {
        let dead = self.timing.dead.as_secs_f64();
        // The same for all attempts to ask.
        let request = SystemClock::default().message_id();
        let parameters: crate::connection::Parameters<'_> = &[
            (&worker, Type::TEXT),
            (&dead, Type::FLOAT8),
            (&request.as_str(), Type::TEXT),
        ];
        let claim = "SELECT id, session, folder, model, attempt, attempts, answer_within, command FROM ah.claim($1, $2, $3)";
        let taken = self.rows("cannot take a run of", claim, parameters).await?;
        Ok(taken.first().map(|row| Run {
            id: row.get(0),
            session: SessionId::from(row.get::<_, String>(1)),
            folder: PathBuf::from(row.get::<_, String>(2)),
            model: row.get(3),
            attempt: count(row.get(4)),
            attempts: count(row.get(5)),
            answer_within: row.get::<_, Option<f64>>(6).map(Duration::from_secs_f64),
            command: command::of(row.get(7)),
        }))
    }

    async fn beat(&self, run: RunId, worker: &str) -> Result<Wish, StoreError> {
        let rows = self
            .rows(
                "cannot write",
                "WITH mine AS (
                     UPDATE ah.runs SET beat_at = clock_timestamp()
                     WHERE tenant = current_user AND id = $1 AND owner = $2 AND state = 'running'
                     RETURNING session, wish),
                 held AS (
                     UPDATE ah.sessions SET beat_at = clock_timestamp() FROM mine
                     WHERE tenant = current_user AND sessions.id = mine.session AND owner = $2)
                 SELECT wish FROM mine",
                &[(&run, Type::INT8), (&worker, Type::TEXT)],
            )
            .await?;
        Ok(match rows.first() {
            Some(row) => Wish::of(row.get(0)),
            None => Wish::Leave,
        })
    }

    async fn end(&self, run: RunId, worker: &str, end: &End) -> Result<bool, StoreError> {
        let part = end.part();
        let reason = part.reason.map(|reason| reason.replace('\0', "\u{fffd}"));
        let row = self
            .row(
                "cannot write",
                "SELECT ah.finish($1, $2, $3, $4, $5, $6)",
                &[
                    (&run, Type::INT8),
                    (&worker, Type::TEXT),
                    (&part.state.word(), Type::TEXT),
                    (&reason, Type::TEXT),
                    (&part.after.as_secs_f64(), Type::FLOAT8),
                    (&part.counts, Type::BOOL),
                ],
            )
            .await?;
        Ok(row.get(0))
    }

    async fn open(
        self: Arc<Self>,
        session: &SessionId,
        worker: &str,
    ) -> Result<SessionStore, OpenError> {
        match Lease::take(&self, session, worker).await? {
            Some(lease) => {
                let scratch = std::env::temp_dir();
                let id = session.clone();
                Ok(SessionStore::of_log(id, Arc::new(lease), &scratch).await?)
            }
            None => Err(OpenError::Busy(Holder { pid: None })),
        }
    }

    async fn close(&self, session: &SessionId, worker: &str) -> Result<(), StoreError> {
        lease::release(self, session, worker).await
    }

    async fn forget(
        &self,
        session: &SessionId,
        worker: &str,
        moved: &[MessageId],
    ) -> Result<bool, StoreError> {
        let moved: Vec<_> = moved.iter().map(MessageId::as_str).collect();
        let forget = "SELECT ah.forget($1, $2, $3)";
        let parameters: crate::connection::Parameters<'_> = &[
            (&session.as_str(), Type::TEXT),
            (&worker, Type::TEXT),
            (&moved, Type::TEXT_ARRAY),
        ];
        let row = self.row("cannot remove a session of", forget, parameters);
        Ok(row.await?.get(0))
    }

    async fn collect(&self, before: Option<Time>) -> Result<Collected, StoreError> {
        let before = before.map(|time| time.0);
        let select = "SELECT gone_sessions, contents, bytes FROM ah.collect($1)";
        let row = self
            .row("cannot clean up", select, &[(&before, Type::INT8)])
            .await?;
        let sessions: Vec<String> = row.get(0);
        Ok(Collected {
            sessions: sessions.into_iter().map(SessionId::from).collect(),
            files: usize::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
            bytes: u64::try_from(row.get::<_, i64>(2)).unwrap_or_default(),
        })
    }

    async fn send(
        &self,
        session: &SessionId,
        kind: MailKind,
        text: &str,
    ) -> Result<MessageId, StoreError> {
        let id = SystemClock::default().message_id();
        lease::send(self, session, &id, kind, text).await?;
        Ok(id)
    }

    async fn wish(&self, session: &SessionId, wish: Wish) -> Result<u64, StoreError> {
        let row = self
            .row(
                "cannot write",
                "WITH changed AS (
                     UPDATE ah.runs SET wish = $2,
                         state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END,
                         ended_at = CASE state WHEN 'queued' THEN clock_timestamp() END
                     WHERE tenant = current_user AND session = $1
                         AND (state = 'running' OR state = 'queued' AND $2 = 'cancel') RETURNING 1)
                 SELECT (SELECT count(*) FROM changed), pg_notify('ah', '')",
                &[(&session.as_str(), Type::TEXT), (&wish.word(), Type::TEXT)],
            )
            .await?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }

    async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, StoreError> {
        let rows = self
            .rows(
                "cannot read",
                // The index knows no prefixes but bounds, and those of the database's collation: no id is longer than 36.
                "SELECT id FROM ah.sessions
                 WHERE tenant = current_user AND id BETWEEN $1 AND $1 || repeat('z', 36) AND starts_with(id, $1)
                 ORDER BY id LIMIT 2",
                &[(&prefix, Type::TEXT)],
            )
            .await?;
        let id = |row: &Row| SessionId::from(row.get::<_, String>(0));
        Ok(rows.iter().map(id).collect())
    }

    async fn runs(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        let rows = self
            .rows(
                "cannot read",
                "SELECT r.id, session, state, attempt, r.owner, (extract(epoch FROM queued_at) * 1000)::bigint, error,
                        s.cost, (SELECT count(*) FROM ah.questions q
                                 WHERE q.tenant = r.tenant AND q.session = r.session AND answer IS NULL),
                        title
                 FROM ah.runs r JOIN ah.sessions s ON s.tenant = r.tenant AND s.id = r.session
                 WHERE r.tenant = current_user AND ($1 IS NULL OR session = $1) ORDER BY r.id DESC LIMIT $2",
                &[
                    (&session.map(SessionId::as_str), Type::TEXT),
                    (&i64::from(limit), Type::INT8),
                ],
            )
            .await?;
        Ok(rows.iter().filter_map(listed).collect())
    }

    async fn counts(&self) -> Result<Vec<(RunState, u64)>, StoreError> {
        let rows = self
            .rows(
                "cannot read",
                "SELECT state, count(*) FROM ah.runs WHERE tenant = current_user GROUP BY state",
                &[],
            )
            .await?;
        let counted = rows.iter().filter_map(|row| {
            let count = u64::try_from(row.get::<_, i64>(1)).ok()?;
            Some((RunState::of(row.get(0))?, count))
        });
        Ok(counted.collect())
    }

    async fn is_idle(&self) -> Result<bool, StoreError> {
        let none = "SELECT NOT EXISTS (
                        SELECT FROM ah.runs WHERE tenant = current_user AND state IN ('queued', 'running'))";
        Ok(self.row("cannot read", none, &[]).await?.get(0))
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: i64,
    ) -> Result<(Vec<Arc<Message>>, i64), StoreError> {
        let rows = self
            .rows(
                "cannot read",
                "SELECT seq + 1, body::text FROM ah.changes
                 WHERE tenant = current_user AND session = $1 AND seq >= $2 ORDER BY seq LIMIT 1000",
                &[(&session.as_str(), Type::TEXT), (&after, Type::INT8)],
            )
            .await?;
        let mut messages = Vec::new();
        for row in &rows {
            let found = log::messages(row.get(1));
            messages.extend(
                found.map_err(|error| {
                    refused("cannot read", self.name(), error.to_string(), None)
                })?,
            );
        }
        Ok((messages, rows.last().map_or(after, |row| row.get(0))))
    }

    async fn waker(self: Arc<Self>) -> Result<Arc<dyn Waker>, StoreError> {
        #[cfg(feature = "graphile")]
        if let Some(graphile) = Graphile::of(&self).await? {
            return Ok(Arc::new(graphile));
        }
        Ok(self)
    }

    fn rest(&self) -> Duration {
        self.timing.beat
    }
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn listed(row: &Row) -> Option<RunRow> {
    let state = RunState::of(row.get(2))?;
    let questions = u32::try_from(row.get::<_, i64>(8)).unwrap_or(0);
    let (error, known) = error_or_known(state, row.get(6));
    Some(RunRow {
        id: row.get(0),
        session: SessionId::from(row.get::<_, String>(1)),
        title: row.get(9),
        state,
        attempt: count(row.get(3)),
        worker: row.get(4),
        queued_at: Time(row.get(5)),
        error,
        known,
        questions: if state.is_over() { 0 } else { questions },
        cost: Some(row.get(7)),
    })
}
