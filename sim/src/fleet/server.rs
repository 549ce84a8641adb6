//! The fleet over PostgreSQL, with a model in the place of the server. What `store-postgres` does around its statements is modelled
//! too: each is sent again when its connection was cut, whether the server has carried it out or not.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{
    Mail, MailKind, Message, MessageId, Question, SessionId, StoreError, Time, json,
};
use ah_store::fleet::{
    Admission, Asker, End, Fleet, Limit, Limits, NewRun, Questions, Run, RunId, RunRow, RunState,
    Schedule, Schedules, Start, Timing, Waiting, Waker, Wish, digest, error_or_known,
};
use ah_store::log::{Entry, Log, messages};
use ah_store::{Collected, Holder, OpenError, SessionStore};
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::shared::Shared;
use super::tables::{RunInTable, Tables};
use crate::plant::PlantedFault;
use crate::store::now;

/// As those of `store-postgres`.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const NO_MAIL: Duration = Duration::from_millis(50);

/// The server.
#[derive(Default)]
pub(crate) struct Server {
    tables: Mutex<Tables>,
    /// Until when it is away.
    away: Mutex<Option<Instant>>,
}

impl Server {
    /// The server is away for so long.
    pub(crate) fn leave(&self, time: Duration) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + time);
    }

    fn is_away(&self) -> bool {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.is_some_and(|until| Instant::now() < until)
    }

    /// Looks into the tables, as nobody does whose connection may be cut.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        work(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A process's connections to the server.
pub(crate) struct ServerProcess {
    pub(crate) shared: Arc<Shared>,
    pub(crate) server: Arc<Server>,
    pub(crate) timing: Timing,
    pub(crate) hint: Arc<Notify>,
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerProcess")
    }
}

impl ServerProcess {
    /// Runs one statement, and again while the server is away or the connection is cut.
    async fn asked<T>(
        &self,
        mut statement: impl FnMut(&mut Tables, i64) -> T,
    ) -> Result<T, StoreError> {
        let (began, mut pause) = (Instant::now(), PAUSE);
        loop {
            self.shared.pause().await;
            let is_cut = self.server.is_away() || self.shared.mishap(30);
            if !is_cut {
                let answer = self
                    .server
                    .with(|tables| statement(tables, self.shared.now()));
                self.shared.pause().await;
                if !self.shared.mishap(30) {
                    return Ok(answer);
                }
            }
            if began.elapsed() > PATIENCE {
                return Err(refused("the server is away"));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a statement that gives work.
    async fn told<T>(
        &self,
        mut statement: impl FnMut(&mut Tables, i64) -> T,
    ) -> Result<T, StoreError> {
        self.asked(|tables, now| {
            let answer = statement(tables, now);
            self.shared.hint();
            answer
        })
        .await
    }

    fn dead(&self) -> i64 {
        i64::try_from(self.timing.dead.as_millis()).unwrap_or(i64::MAX)
    }
}

fn refused(reason: &str) -> StoreError {
    StoreError {
        action: "cannot use",
        path: "postgres://simulated".into(),
        reason: reason.to_owned(),
        hint: None,
    }
}

#[async_trait]
impl Fleet for ServerProcess {
    fn timing(&self) -> Timing {
        self.timing
    }

    async fn enqueue(&self, run: &NewRun) -> Result<RunId, StoreError> {
        self.told(|tables, now| tables.enqueue(run, now)).await
    }

    async fn claim(&self, worker: &str) -> Result<Option<Run>, StoreError> {
        let request = self.shared.message_id();
        self.asked(|tables, now| tables.claim(worker, self.dead(), request.as_str(), now))
            .await
    }

    async fn beat(&self, run: RunId, worker: &str) -> Result<Wish, StoreError> {
        let wish = self
            .asked(|tables, now| tables.beat(run, worker, now))
            .await?;
        Ok(wish.map_or(Wish::Leave, |wish| wish.unwrap_or(Wish::GoOn)))
    }

    async fn end(&self, run: RunId, worker: &str, end: &End) -> Result<bool, StoreError> {
        let part = end.part();
        self.told(|tables, now| tables.finish(run, worker, &part, now))
            .await
    }

    async fn open(
        self: Arc<Self>,
        session: &SessionId,
        worker: &str,
    ) -> Result<SessionStore, OpenError> {
        let taken = self
            .asked(|tables, now| tables.take(session, worker, self.dead(), now))
            .await?;
        let Some((epoch, entries)) = taken else {
            return Err(OpenError::Busy(Holder { pid: None }));
        };
        let lease = Lease {
            process: self.clone(),
            session: session.clone(),
            epoch,
            next: AtomicI64::new(i64::try_from(entries.len()).unwrap_or(i64::MAX)),
            entries,
            without_mail: Mutex::default(),
        };
        let scratch = self.shared.folder();
        let copy = SessionStore::of_log(session.clone(), Arc::new(lease), &scratch);
        Ok(now(copy)?)
    }

    async fn close(&self, session: &SessionId, worker: &str) -> Result<(), StoreError> {
        self.asked(|tables, _| tables.release(session, worker))
            .await
    }

    async fn forget(&self, _: &SessionId, _: &str, _: &[MessageId]) -> Result<bool, StoreError> {
        Err(refused("sessions are not moved here"))
    }

    async fn collect(&self, _: Option<Time>) -> Result<Collected, StoreError> {
        Err(refused("nothing is collected here"))
    }

    async fn send(
        &self,
        session: &SessionId,
        kind: MailKind,
        text: &str,
    ) -> Result<MessageId, StoreError> {
        let id = self.shared.message_id();
        self.told(|tables, now| tables.send(session, id.as_str(), kind, text, now))
            .await?;
        Ok(id)
    }

    async fn wish(&self, session: &SessionId, wish: Wish) -> Result<u64, StoreError> {
        self.told(|tables, _| tables.wish(session, wish)).await
    }

    async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, StoreError> {
        self.asked(|tables, _| {
            let ids = tables
                .sessions
                .keys()
                .filter(|id| id.as_str().starts_with(prefix));
            ids.take(2).cloned().collect()
        })
        .await
    }

    async fn runs(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.asked(|tables, _| {
            let rows = tables.runs.iter().rev();
            let wanted = rows.filter(|row| session.is_none_or(|id| row.session == *id));
            let listed = wanted.map(|row| listed(row, tables));
            listed.take(limit as usize).collect()
        })
        .await
    }

    async fn counts(&self) -> Result<Vec<(RunState, u64)>, StoreError> {
        let states = RunState::ALL.into_iter();
        self.asked(|tables, _| {
            let count = |state| tables.runs.iter().filter(|row| row.state == state).count();
            let counted = states.clone().map(|state| (state, count(state) as u64));
            counted.filter(|(_, count)| *count > 0).collect()
        })
        .await
    }

    async fn is_idle(&self) -> Result<bool, StoreError> {
        self.asked(|tables, _| tables.runs.iter().all(|row| row.state.is_over()))
            .await
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: i64,
    ) -> Result<(Vec<Arc<Message>>, i64), StoreError> {
        let bodies: Vec<String> = self
            .asked(|tables, _| {
                let changes = tables.sessions.get(session).map(|row| &row.changes);
                let bodies = changes.into_iter().flatten().map(|(_, body)| body.clone());
                bodies.skip(usize::try_from(after).unwrap_or(0)).collect()
            })
            .await?;
        let found: Result<Vec<_>, _> = bodies.iter().map(|body| messages(body)).collect();
        let found = found.map_err(|error| refused(&error.to_string()))?;
        let next = after + i64::try_from(bodies.len()).unwrap_or(0);
        Ok((found.into_iter().flatten().collect(), next))
    }

    async fn waker(self: Arc<Self>) -> Result<Arc<dyn Waker>, StoreError> {
        Ok(self)
    }

    fn rest(&self) -> Duration {
        self.timing.beat
    }
}

fn listed(row: &RunInTable, tables: &Tables) -> RunRow {
    let is_open = |question: &&super::tables::QuestionRow| {
        question.session == row.session && question.answer.is_none()
    };
    let questions = tables.questions.iter().filter(is_open).count();
    let (error, known) = error_or_known(row.state, row.reason.clone());
    RunRow {
        id: row.id,
        session: row.session.clone(),
        title: row.run.title(),
        state: row.state,
        attempt: row.attempt,
        worker: row.owner.clone(),
        queued_at: Time(row.queued_at),
        error,
        known,
        questions: match row.state.is_over() {
            true => 0,
            false => u32::try_from(questions).unwrap_or(u32::MAX),
        },
        cost: None,
    }
}

#[async_trait]
impl Waker for ServerProcess {
    async fn wait(&self, at_most: Duration) {
        // Without a hint, the time is up.
        let _ = timeout(at_most, self.hint.notified()).await;
    }
}

#[async_trait]
impl Limits for ServerProcess {
    async fn admit(&self, _: &str) -> Result<Admission, StoreError> {
        self.asked(|_, _| Admission::After(Duration::ZERO)).await
    }

    async fn spend(&self, _: i64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn set_limit(&self, _: &Limit) -> Result<(), StoreError> {
        Err(refused("there are no limits here"))
    }

    async fn limits(&self) -> Result<Vec<Limit>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Questions for ServerProcess {
    async fn ask(
        &self,
        session: &SessionId,
        question: &Question,
        asker: &Asker<'_>,
    ) -> Result<(), StoreError> {
        let body = question.body();
        self.asked(|tables, _| tables.ask(session, digest(&body, asker.call), &body, asker))
            .await
    }

    async fn take_answer(
        &self,
        session: &SessionId,
        asker: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let answer = self
            .asked(|tables, _| tables.take_answer(session, asker))
            .await?;
        Ok(answer.and_then(|answer| json::from_str(&answer).ok()))
    }

    async fn withdraw_question(&self, session: &SessionId, asker: &str) -> Result<(), StoreError> {
        self.asked(|tables, _| tables.withdraw(session, asker))
            .await
    }

    async fn answer(
        &self,
        session: &SessionId,
        number: i64,
        answers: &[String],
    ) -> Result<bool, StoreError> {
        if self.shared.planted(PlantedFault::AnswerForgotten, 1) {
            return Ok(true);
        }
        let answers = serde_json::to_string(answers).unwrap_or_default();
        self.asked(|tables, _| tables.answer(session, number, &answers))
            .await
    }

    async fn questions(&self, session: &SessionId) -> Result<Vec<Waiting>, StoreError> {
        self.asked(|tables, _| {
            let mut runs = tables.runs.iter();
            if !runs.any(|row| row.session == *session && !row.state.is_over()) {
                return Vec::new();
            }
            let open = tables.questions.iter();
            let open = open.filter(|row| row.session == *session && row.answer.is_none());
            let mut waiting: Vec<_> = open
                .filter_map(|row| {
                    Some(Waiting {
                        number: row.number,
                        question: Question::of(&row.body)?,
                    })
                })
                .collect();
            waiting.sort_by_key(|waiting| waiting.number);
            waiting
        })
        .await
    }
}

#[async_trait]
impl Schedules for ServerProcess {
    async fn now(&self) -> Result<Time, StoreError> {
        self.asked(|_, now| Time(now)).await
    }

    async fn schedule(&self, cron: &str, due: Time, run: &NewRun) -> Result<i64, StoreError> {
        self.asked(|tables, _| tables.schedule(cron, due, run))
            .await
    }

    async fn unschedule(&self, number: i64) -> Result<bool, StoreError> {
        self.asked(|tables, _| {
            let before = tables.schedules.len();
            tables.schedules.retain(|row| row.schedule.number != number);
            tables.schedules.len() < before
        })
        .await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.asked(|tables, _| {
            let rows = tables.schedules.iter();
            rows.map(|row| row.schedule.clone()).collect()
        })
        .await
    }

    async fn start(
        &self,
        schedule: &Schedule,
        start: &Start,
        next: Time,
    ) -> Result<bool, StoreError> {
        let is_checked = !self.shared.planted(PlantedFault::ScheduleTwice, 1);
        self.told(|tables, now| tables.start(schedule, start, next, (now, is_checked)))
            .await
    }
}

/// A lease on a session, as that of `store-postgres`.
struct Lease {
    process: Arc<ServerProcess>,
    session: SessionId,
    epoch: i64,
    next: AtomicI64,
    /// What was in the log when the lease was taken.
    entries: Vec<String>,
    without_mail: Mutex<Option<Instant>>,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

impl Lease {
    fn without_mail(&self) -> MutexGuard<'_, Option<Instant>> {
        self.without_mail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Log for Lease {
    fn name(&self) -> &str {
        "postgres://simulated"
    }

    async fn entries(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries.clone())
    }

    async fn blob(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let blob = self.process.server.with(|tables| tables.blob(hash));
        blob.ok_or_else(|| refused("the server gave no row"))
    }

    async fn commit(&self, entry: Entry) -> Result<(), StoreError> {
        let (process, session) = (&self.process, &self.session);
        let seq = self.next.load(Ordering::SeqCst);
        if process.shared.planted(PlantedFault::CommitForgotten, 20) {
            return Ok(());
        }
        let place = (self.epoch, seq);
        let stored = process
            .asked(|tables, now| tables.append(session, place, &entry, now))
            .await?;
        if stored.is_none() {
            let epoch = process
                .asked(|tables, _| tables.epoch_at(session, seq))
                .await?;
            if epoch != Some(self.epoch) {
                return Err(refused("another process has taken over the session"));
            }
        }
        *self.without_mail() = (stored == Some(false)).then(Instant::now);
        self.next.store(seq + 1, Ordering::SeqCst);
        Ok(())
    }

    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        let since = *self.without_mail();
        if since.is_some_and(|since| since.elapsed() < NO_MAIL) {
            return Ok(Vec::new());
        }
        let is_early = self.process.shared.plant == Some(PlantedFault::MailTakenEarly);
        self.process
            .asked(|tables, _| {
                let rows = tables.mail.iter_mut();
                let waiting = rows.filter(|row| {
                    row.session == self.session && row.kind == kind && !row.is_consumed
                });
                let mail = waiting.map(|row| {
                    row.is_consumed |= is_early;
                    Mail {
                        id: row.id.as_str().into(),
                        content: row.content.clone(),
                        created_at: Time(row.sent_at),
                    }
                });
                mail.collect()
            })
            .await
    }

    async fn send(&self, id: &MessageId, kind: MailKind, text: &str) -> Result<(), StoreError> {
        let session = &self.session;
        self.process
            .told(|tables, now| tables.send(session, id.as_str(), kind, text, now))
            .await?;
        *self.without_mail() = None;
        Ok(())
    }

    async fn withdraw(&self, id: &MessageId) -> Result<bool, StoreError> {
        self.process
            .asked(|tables, _| {
                let before = tables.mail.len();
                tables
                    .mail
                    .retain(|row| row.id != id.as_str() || row.is_consumed);
                tables.mail.len() < before
            })
            .await
    }
}
