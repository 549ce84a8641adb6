//! The queue of runs of one machine: a database for the sessions of a folder. Lease and mail are the sessions' own.

mod limits;
mod questions;
mod schedules;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Clock, MailKind, Message, MessageId, SessionId, StoreError, Time};
use ah_ids::SystemClock;
use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::Failure;
use super::lock::Lock;
use super::queued::{self, FILE};
use crate::changes::Changes;
use crate::fleet::{
    End, Fleet, LONGEST_PAUSE, NewRun, Run, RunId, RunRow, RunState, Timing, Waker, Wish, command,
    error_or_known,
};
use crate::{Collected, OpenError, Paths, Queue, SessionStore, Sessions, Tree};

/// Longest pause between two looks while nothing waits or runs, if the system tells what other processes write.
const REST: Duration = Duration::from_secs(60);

/// The sessions of a folder as a fleet: any number of workers on this machine.
pub struct LocalFleet {
    sessions: Sessions,
    path: PathBuf,
    timing: Timing,
    changes: Changes,
    clock: Arc<dyn Clock>,
    connection: Mutex<Connection>,
}

impl fmt::Debug for LocalFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        f.debug_struct("LocalFleet")
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl LocalFleet {
    /// Opens the queue of these sessions, or creates it.
    ///
    /// # Errors
    ///
    /// If it can be neither opened nor created.
    pub fn open(sessions: &Sessions, timing: Timing) -> Result<Self, StoreError> {
        Self::with_clock(sessions, timing, Arc::new(SystemClock::default()))
    }

    /// As [`Self::open`], with another clock than the system's.
    ///
    /// # Errors
    ///
    /// If it can be neither opened nor created.
    pub fn with_clock(
        sessions: &Sessions,
        timing: Timing,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let (_, queue) = sessions.folders();
        let path = queue.join(FILE);
        let connection = queued::open(queue).map_err(|failure| failure.at("cannot open", &path))?;
        Ok(Self {
            sessions: sessions.clone(),
            timing,
            changes: Changes::of(queue, FILE),
            clock,
            connection: Mutex::new(connection),
            path,
        })
    }

    /// Returns the files of a session, whose id is a row's.
    fn paths(&self, session: &SessionId) -> Result<Paths, StoreError> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if session.as_str().is_empty() || !session.as_str().chars().all(is_part) {
            let reason = format!("`{session}` is not the id of a session");
            let refused = Failure::Refused { reason, hint: None };
            return Err(refused.at("cannot use", &self.path));
        }
        Ok(self.sessions.paths_of(session))
    }

    /// Runs one short statement.
    fn with<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.lock();
        work(&connection).map_err(|error| Failure::from(error).at(action, &self.path))
    }

    /// Runs statements in a transaction that excludes other writers from its beginning.
    fn alone<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.with("cannot write", |connection| {
            let immediate = TransactionBehavior::Immediate;
            let transaction = Transaction::new_unchecked(connection, immediate)?;
            let done = work(&transaction)?;
            if done.is_ok() {
                transaction.commit()?;
            }
            Ok(done)
        })?
    }

    /// Renews the claims of workers that are late, as on a machine that was busy or asleep, but still hold the lock of their
    /// session.
    fn beat_for_the_living(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut late = connection.prepare(
            "SELECT id, session FROM runs WHERE state = 'running' AND beat_at NOT BETWEEN ? AND ?",
        )?;
        let rows = late.query_map(self.living(), |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?))
        })?;
        let rows: Vec<(RunId, String)> = rows.collect::<Result<_, _>>()?;
        for (run, session) in rows {
            let paths = self.paths(&SessionId::from(session));
            if paths.is_ok_and(|paths| Lock::is_held(&paths.lock())) {
                let beat = "UPDATE runs SET beat_at = ? WHERE id = ?";
                connection.execute(beat, params![self.now_ms(), run])?;
            }
        }
        Ok(())
    }

    /// Returns the time at which a run is due: 0 for at once, which no change of the clock delays.
    fn due(&self, after: Duration) -> i64 {
        if after.is_zero() {
            return 0;
        }
        self.now_ms().saturating_add(milliseconds(after))
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().0
    }

    /// The times of a beat that was not missed: none, if every worker counts as dead at once. One that lies in the future is of a
    /// clock that was set back since.
    fn living(&self) -> [i64; 2] {
        let (now, dead) = (self.now_ms(), milliseconds(self.timing.dead));
        [now.saturating_sub(dead) + 1, now.saturating_add(dead)]
    }
}

/// Queues another run of a session whose last one is about to be stopped and does not read the mail that came since.
fn follow_stopped(connection: &Connection, session: &str, now: Time) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO runs
             (session, folder, model, priority, due_at, attempts, queued_at, answer_within, title, command)
         SELECT session, folder, model, priority, 0, attempts, ?2, answer_within, title, command FROM runs
         WHERE state IN ('running', 'queued') AND wish IS NOT NULL AND id = (SELECT max(id) FROM runs WHERE session = ?1)",
        params![session, now.0],
    )?;
    Ok(())
}

/// Queues the last run of a session again if it is over, since there is mail for it.
fn wake(connection: &Connection, session: &str) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE runs SET state = 'queued', due_at = 0, attempt = 0, owner = NULL, ended_at = NULL, wish = NULL
         WHERE state IN ('done', 'failed', 'cancelled') AND id = (SELECT max(id) FROM runs WHERE session = ?1)",
        [session],
    )?;
    Ok(())
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Fleet for LocalFleet {
    fn timing(&self) -> Timing {
        self.timing
    }

    async fn enqueue(&self, run: &NewRun) -> Result<RunId, StoreError> {
        self.prepare(&run.session)?;
        Queue::open(&self.paths(&run.session)?)?.send_as(
            &run.message,
            MailKind::FollowUp,
            &run.prompt,
        )?;
        let now = self.now_ms();
        self.with("cannot write", |connection| {
            connection.query_one(
                "INSERT INTO runs
                     (session, folder, model, priority, due_at, attempts, queued_at, answer_within, title, command)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                params![
                    run.session.as_str(),
                    run.folder.to_string_lossy(),
                    run.model,
                    run.priority,
                    self.due(run.delay),
                    run.attempts,
                    now,
                    run.answer_within.map(|within| within.as_secs_f64()),
                    run.title(),
                    command::stored(&run.command),
                ],
                |row| row.get(0),
            )
        })
    }

    async fn claim(&self, worker: &str) -> Result<Option<Run>, StoreError> {
        self.with("cannot take a run of", |connection| {
            self.beat_for_the_living(connection)?;
            let [from, to] = self.living();
            let now = self.now_ms();
            // A pause that ends later than any was begun before the clock was set back.
            let latest = now.saturating_add(milliseconds(LONGEST_PAUSE));
            connection
                .query_one(
                    "UPDATE runs SET state = 'running', owner = ?1, attempt = attempt + 1, beat_at = ?2
                     WHERE id = (
                         SELECT id FROM runs r
                         WHERE (state = 'queued' AND (due_at <= ?2 OR attempt > 0 AND due_at > ?5) OR state = 'running' AND owner <> ?1 AND beat_at NOT BETWEEN ?3 AND ?4)
                             AND NOT EXISTS (SELECT 1 FROM limits WHERE budget <= 0)
                             AND NOT EXISTS (
                                 SELECT 1 FROM runs other
                                 WHERE other.session = r.session AND other.id <> r.id
                                     AND other.state = 'running' AND other.beat_at BETWEEN ?3 AND ?4)
                         ORDER BY priority DESC, id LIMIT 1)
                     RETURNING id, session, folder, model, attempt, attempts, answer_within, command",
                    params![worker, now, from, to, latest],
                    |row| {
                        Ok(Run {
                            id: row.get(0)?,
                            session: SessionId::from(row.get::<_, String>(1)?),
                            folder: PathBuf::from(row.get::<_, String>(2)?),
                            model: row.get(3)?,
                            attempt: row.get(4)?,
                            attempts: row.get(5)?,
                            answer_within: row.get::<_, Option<f64>>(6)?.map(Duration::from_secs_f64),
                            command: command::of(row.get(7)?),
                        })
                    },
                )
                .optional()
        })
    }

    async fn beat(&self, run: RunId, worker: &str) -> Result<Wish, StoreError> {
        let wish: Option<Option<String>> = self.with("cannot write", |connection| {
            connection
                .query_one(
                    "UPDATE runs SET beat_at = ? WHERE id = ? AND owner = ? AND state = 'running' RETURNING wish",
                    params![self.now_ms(), run, worker],
                    |row| row.get(0),
                )
                .optional()
        })?;
        Ok(wish.map_or(Wish::Leave, |word| Wish::of(word.as_deref())))
    }

    async fn end(&self, run: RunId, worker: &str, end: &End) -> Result<bool, StoreError> {
        let part = end.part();
        let now = self.now_ms();
        self.alone(|connection| {
            let session: Option<String> = connection
                .query_row(
                    "UPDATE runs
                     SET state = ?3, error = CASE WHEN ?3 = 'done' THEN ?4 ELSE coalesce(?4, error) END, due_at = ?5, attempt = attempt - ?6,
                         owner = CASE WHEN ?3 = 'queued' THEN NULL ELSE owner END,
                         ended_at = CASE WHEN ?3 = 'queued' THEN NULL ELSE ?7 END
                     WHERE id = ?1 AND owner = ?2 AND state = 'running' RETURNING session",
                    params![
                        run,
                        worker,
                        part.state.word(),
                        part.reason,
                        self.due(part.after),
                        i32::from(!part.counts),
                        now
                    ],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(session) = session.map(SessionId::from) else {
                return Ok(Ok(false));
            };
            if part.state.is_over() {
                let all = "DELETE FROM questions WHERE session = ?";
                connection.execute(all, [session.as_str()])?;
            }
            if part.state == RunState::Done {
                // A sender writes to the session's queue first, and then waits here or was here before.
                let queue = self.paths(&session).and_then(|paths| Queue::open(&paths));
                match queue.and_then(|queue| queue.has_waiting()) {
                    Ok(true) => wake(connection, session.as_str())?,
                    Ok(false) => {}
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(true))
        })
    }

    async fn open(
        self: Arc<Self>,
        session: &SessionId,
        _: &str,
    ) -> Result<SessionStore, OpenError> {
        SessionStore::open(&self.paths(session)?)
    }

    async fn close(&self, _: &SessionId, _: &str) -> Result<(), StoreError> {
        // The session's lock was released with it.
        Ok(())
    }

    async fn forget(
        &self,
        session: &SessionId,
        _: &str,
        _: &[MessageId],
    ) -> Result<bool, StoreError> {
        // The session itself is files, which whoever has it open moves or removes.
        self.with("cannot write", |connection| {
            let session = session.as_str();
            connection.execute("DELETE FROM questions WHERE session = ?", [session])?;
            connection.execute("DELETE FROM runs WHERE session = ?", [session])
        })?;
        Ok(true)
    }

    async fn collect(&self, before: Option<Time>) -> Result<Collected, StoreError> {
        self.sessions.collect(before)
    }

    async fn send(
        &self,
        session: &SessionId,
        kind: MailKind,
        text: &str,
    ) -> Result<MessageId, StoreError> {
        let queue = Queue::open(&self.paths(session)?)?;
        let id = queue.send_with(&*self.clock, kind, text)?;
        self.with("cannot write", |connection| {
            follow_stopped(connection, session.as_str(), self.clock.now())?;
            wake(connection, session.as_str())
        })?;
        Ok(id)
    }

    async fn wish(&self, session: &SessionId, wish: Wish) -> Result<u64, StoreError> {
        let changed = self.with("cannot write", |connection| {
            connection.execute(
                "UPDATE runs SET wish = ?2,
                     ended_at = CASE state WHEN 'queued' THEN ?3 END,
                     state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END
                 WHERE session = ?1 AND (state = 'running' OR state = 'queued' AND ?2 = 'cancel')",
                params![session.as_str(), wish.word(), self.now_ms()],
            )
        })?;
        Ok(changed as u64)
    }

    async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, StoreError> {
        self.with("cannot read", |connection| {
            let mut statement = connection.prepare(
                "SELECT DISTINCT session FROM runs WHERE substr(session, 1, length(?1)) = ?1 ORDER BY 1 LIMIT 2",
            )?;
            let ids = statement.query_map([prefix], |row| row.get::<_, String>(0))?;
            ids.map(|id| Ok(SessionId::from(id?))).collect()
        })
    }

    async fn runs(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.with("cannot read", |connection| {
            let mut statement = connection.prepare(
                "SELECT id, session, state, attempt, owner, queued_at, error, title,
                     (SELECT count(*) FROM questions q WHERE q.session = runs.session AND answer IS NULL)
                 FROM runs
                 WHERE ?1 IS NULL OR session = ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let wanted = params![session.map(SessionId::as_str), limit];
            let rows = statement.query_map(wanted, listed)?;
            rows.filter_map(Result::transpose).collect()
        })
    }

    async fn counts(&self) -> Result<Vec<(RunState, u64)>, StoreError> {
        self.with("cannot read", |connection| {
            let mut statement =
                connection.prepare("SELECT state, count(*) FROM runs GROUP BY state")?;
            let counted = statement.query_map([], |row| {
                let state = RunState::of(row.get_ref(0)?.as_str()?);
                Ok(state.zip(Some(u64::from(row.get::<_, u32>(1)?))))
            })?;
            counted.filter_map(Result::transpose).collect()
        })
    }

    async fn is_idle(&self) -> Result<bool, StoreError> {
        self.with("cannot read", |connection| {
            let none =
                "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE state IN ('queued', 'running'))";
            connection.query_row(none, [], |row| row.get(0))
        })
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: i64,
    ) -> Result<(Vec<Arc<Message>>, i64), StoreError> {
        let tree = Tree::open(&self.paths(session)?)?;
        let heads = tree.heads()?;
        let known = usize::try_from(after).unwrap_or(0);
        let mut messages = Vec::new();
        for head in heads.iter().skip(known) {
            if head.agent_id.is_none() {
                messages.extend(tree.message(&head.message.id)?.map(Arc::new));
            }
        }
        Ok((messages, i64::try_from(heads.len()).unwrap_or(i64::MAX)))
    }

    async fn waker(self: Arc<Self>) -> Result<Arc<dyn Waker>, StoreError> {
        Ok(self)
    }

    fn rest(&self) -> Duration {
        match self.changes.are_told() {
            true => REST,
            false => self.timing.beat,
        }
    }
}

#[async_trait]
impl Waker for LocalFleet {
    async fn wait(&self, at_most: Duration) {
        self.changes.next(at_most).await;
    }
}

/// Returns a row of the list, unless its state is of a newer version.
fn listed(row: &Row<'_>) -> rusqlite::Result<Option<RunRow>> {
    let Some(state) = RunState::of(row.get_ref(2)?.as_str()?) else {
        return Ok(None);
    };
    let (error, known) = error_or_known(state, row.get(6)?);
    Ok(Some(RunRow {
        id: row.get(0)?,
        session: SessionId::from(row.get::<_, String>(1)?),
        title: row.get(7)?,
        state,
        attempt: row.get(3)?,
        worker: row.get(4)?,
        queued_at: Time(row.get(5)?),
        error,
        known,
        questions: if state.is_over() { 0 } else { row.get(8)? },
        cost: None,
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fleet(folder: &Path) -> LocalFleet {
        let timing = Timing {
            beat: Duration::from_millis(100),
            dead: Duration::from_secs(60),
        };
        LocalFleet::open(&Sessions::in_folder(folder), timing).unwrap()
    }

    /// Queues a run, and takes it as the worker `me`.
    async fn taken(fleet: &LocalFleet, folder: &Path) -> RunId {
        let run = NewRun {
            session: SessionId::from("A"),
            message: MessageId::from("M"),
            prompt: "task".to_owned(),
            command: Vec::new(),
            folder: folder.to_owned(),
            model: None,
            priority: 0,
            delay: Duration::ZERO,
            attempts: 1,
            answer_within: None,
        };
        let id = fleet.enqueue(&run).await.unwrap();
        fleet.claim("me").await.unwrap().unwrap();
        id
    }

    #[tokio::test]
    async fn a_clock_that_was_set_back_delays_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path());
        let id = taken(&fleet, folder.path()).await;
        let claimed = async || fleet.claim("me").await.unwrap().map(|run| run.id);
        let on = End::HandedOn(Duration::ZERO);
        assert!(fleet.end(id, "me", &on).await.unwrap());
        let due: i64 = fleet
            .with("", |connection| {
                connection.query_row("SELECT due_at FROM runs", [], |row| row.get(0))
            })
            .unwrap();
        assert_eq!(due, 0, "no time to wait for");
        assert_eq!(claimed().await, Some(id));
        let later = End::Again("no answer".to_owned(), LONGEST_PAUSE);
        assert!(fleet.end(id, "me", &later).await.unwrap());
        assert_eq!(claimed().await, None);
        let ahead = "UPDATE runs SET due_at = due_at + 3600000";
        fleet
            .with("", |connection| connection.execute(ahead, []))
            .unwrap();
        assert_eq!(claimed().await, Some(id));
    }

    #[tokio::test]
    async fn a_run_whose_worker_could_not_beat_is_its_own_while_that_lives() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path());
        let id = taken(&fleet, folder.path()).await;
        let sleep = || {
            let sleep = "UPDATE runs SET beat_at = beat_at - 3600000";
            let slept = fleet.with("", |connection| connection.execute(sleep, []));
            slept.unwrap();
        };
        let session = SessionStore::open(&fleet.paths(&SessionId::from("A")).unwrap()).unwrap();
        sleep();
        assert_eq!(fleet.claim("other").await.unwrap(), None);
        assert_eq!(fleet.beat(id, "me").await.unwrap(), Wish::GoOn);
        drop(session);
        sleep();
        assert_eq!(
            fleet.claim("other").await.unwrap().map(|run| run.id),
            Some(id)
        );
    }

    #[tokio::test]
    async fn a_worker_may_count_as_dead_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let timing = Timing {
            beat: Duration::ZERO,
            dead: Duration::ZERO,
        };
        let fleet = LocalFleet::open(&Sessions::in_folder(folder.path()), timing).unwrap();
        let id = taken(&fleet, folder.path()).await;
        let run = fleet.claim("other").await.unwrap();
        assert_eq!(run.map(|run| run.id), Some(id));
    }

    /// A beat that lies in the future is of a clock that was set back: the worker may be gone.
    #[tokio::test]
    async fn a_run_is_taken_over_though_the_clock_was_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path());
        let id = taken(&fleet, folder.path()).await;
        let later = "UPDATE runs SET beat_at = beat_at + 86400000";
        fleet
            .with("", |connection| connection.execute(later, []))
            .unwrap();
        let session = SessionStore::open(&fleet.paths(&SessionId::from("A")).unwrap()).unwrap();
        assert_eq!(fleet.claim("other").await.unwrap(), None);
        drop(session);
        fleet
            .with("", |connection| connection.execute(later, []))
            .unwrap();
        let run = fleet.claim("other").await.unwrap();
        assert_eq!(run.map(|run| run.id), Some(id));
    }

    /// Nobody who dies between both leaves a message that nobody reads.
    #[tokio::test]
    async fn a_run_ends_together_with_the_look_for_mail_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let fleet = fleet(folder.path());
        let id = taken(&fleet, folder.path()).await;
        let fault = "CREATE TRIGGER fault BEFORE UPDATE ON runs WHEN OLD.state = 'done'
                     BEGIN SELECT RAISE(ABORT, 'fault'); END";
        let plan = |sql| fleet.with("", |connection| connection.execute_batch(sql));
        plan(fault).unwrap();
        fleet.end(id, "me", &End::Done(None)).await.unwrap_err();
        let state = async || fleet.runs(None, 1).await.unwrap()[0].state;
        assert_eq!(state().await, RunState::Running);
        plan("DROP TRIGGER fault").unwrap();
        assert!(fleet.end(id, "me", &End::Done(None)).await.unwrap());
        assert_eq!(state().await, RunState::Queued, "its prompt was not read");
    }

    #[tokio::test]
    async fn an_id_that_is_a_path_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = folder.path().join("project/.ah");
        let queue = fleet(&sessions);
        for id in ["../../x", "/x", "..", "", "a/b", "x.db", "x\0"] {
            let session = SessionId::from(id);
            let sent = queue.send(&session, MailKind::FollowUp, "text").await;
            assert!(sent.is_err(), "{id:?}");
            let opened = Arc::new(fleet(&sessions)).open(&session, "me").await;
            assert!(opened.is_err(), "{id:?}");
        }
        let names = std::fs::read_dir(folder.path()).unwrap();
        assert_eq!(names.count(), 1);
        let names = std::fs::read_dir(&sessions).unwrap().flatten();
        let others =
            names.filter(|entry| !entry.file_name().to_string_lossy().starts_with("runs."));
        let others: Vec<_> = others.map(|entry| entry.file_name()).collect();
        assert_eq!(others, [".gitignore"]);
    }
}
