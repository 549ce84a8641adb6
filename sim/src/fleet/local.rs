//! The fleet over SQLite as a process sees it: each statement takes a while, hints may be lost, and nothing comes back once the power
//! is off.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{MailKind, Message, MessageId, Question, SessionId, StoreError, Time};
use ah_store::fleet::{
    Admission, Asker, End, Fleet, Limit, Limits, NewRun, Questions, Run, RunId, RunRow, RunState,
    Schedule, Schedules, Start, Timing, Waiting, Waker, Wish,
};
use ah_store::{Collected, LocalFleet, OpenError, SessionStore};
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::shared::Shared;
use crate::plant::PlantedFault;

/// A process's connection to the queue in a folder.
pub(crate) struct LocalProcess {
    pub(crate) shared: Arc<Shared>,
    pub(crate) fleet: Arc<LocalFleet>,
    pub(crate) hint: Arc<Notify>,
}

impl LocalProcess {
    /// Waits for the answer to a statement, which hints at nothing.
    async fn asked<T>(&self, answer: impl Future<Output = T>) -> T {
        self.shared.pause().await;
        let answer = answer.await;
        self.shared.hear();
        if self.shared.disk.is_off() {
            std::future::pending::<()>().await;
        }
        self.shared.pause().await;
        answer
    }

    /// Waits for the answer to a statement that gives work.
    async fn told<T>(&self, answer: impl Future<Output = T>) -> T {
        let answer = async {
            let answer = answer.await;
            self.shared.hint();
            answer
        };
        self.asked(answer).await
    }
}

#[async_trait]
impl Fleet for LocalProcess {
    fn timing(&self) -> Timing {
        self.fleet.timing()
    }

    async fn enqueue(&self, run: &NewRun) -> Result<RunId, StoreError> {
        self.told(self.fleet.enqueue(run)).await
    }

    async fn claim(&self, worker: &str) -> Result<Option<Run>, StoreError> {
        self.asked(self.fleet.claim(worker)).await
    }

    async fn beat(&self, run: RunId, worker: &str) -> Result<Wish, StoreError> {
        self.asked(self.fleet.beat(run, worker)).await
    }

    async fn end(&self, run: RunId, worker: &str, end: &End) -> Result<bool, StoreError> {
        self.told(self.fleet.end(run, worker, end)).await
    }

    async fn open(
        self: Arc<Self>,
        session: &SessionId,
        worker: &str,
    ) -> Result<SessionStore, OpenError> {
        self.asked(self.fleet.clone().open(session, worker)).await
    }

    async fn close(&self, session: &SessionId, worker: &str) -> Result<(), StoreError> {
        self.asked(self.fleet.close(session, worker)).await
    }

    async fn forget(
        &self,
        session: &SessionId,
        worker: &str,
        moved: &[MessageId],
    ) -> Result<bool, StoreError> {
        self.asked(self.fleet.forget(session, worker, moved)).await
    }

    async fn collect(&self, before: Option<Time>) -> Result<Collected, StoreError> {
        self.asked(self.fleet.collect(before)).await
    }

    async fn send(
        &self,
        session: &SessionId,
        kind: MailKind,
        text: &str,
    ) -> Result<MessageId, StoreError> {
        self.told(self.fleet.send(session, kind, text)).await
    }

    async fn wish(&self, session: &SessionId, wish: Wish) -> Result<u64, StoreError> {
        self.told(self.fleet.wish(session, wish)).await
    }

    async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, StoreError> {
        self.asked(self.fleet.find(prefix)).await
    }

    async fn runs(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.asked(self.fleet.runs(session, limit)).await
    }

    async fn counts(&self) -> Result<Vec<(RunState, u64)>, StoreError> {
        self.asked(self.fleet.counts()).await
    }

    async fn is_idle(&self) -> Result<bool, StoreError> {
        self.asked(self.fleet.is_idle()).await
    }

    async fn messages(
        &self,
        session: &SessionId,
        after: i64,
    ) -> Result<(Vec<Arc<Message>>, i64), StoreError> {
        self.asked(self.fleet.messages(session, after)).await
    }

    async fn waker(self: Arc<Self>) -> Result<Arc<dyn Waker>, StoreError> {
        Ok(self)
    }

    fn rest(&self) -> Duration {
        self.fleet.rest()
    }
}

#[async_trait]
impl Waker for LocalProcess {
    async fn wait(&self, at_most: Duration) {
        // Without a hint, the time is up.
        let _ = timeout(at_most, self.hint.notified()).await;
    }
}

#[async_trait]
impl Limits for LocalProcess {
    async fn admit(&self, model: &str) -> Result<Admission, StoreError> {
        self.asked(self.fleet.admit(model)).await
    }

    async fn spend(&self, cost: i64) -> Result<(), StoreError> {
        self.asked(self.fleet.spend(cost)).await
    }

    async fn set_limit(&self, limit: &Limit) -> Result<(), StoreError> {
        self.asked(self.fleet.set_limit(limit)).await
    }

    async fn limits(&self) -> Result<Vec<Limit>, StoreError> {
        self.asked(self.fleet.limits()).await
    }
}

#[async_trait]
impl Questions for LocalProcess {
    async fn ask(
        &self,
        session: &SessionId,
        question: &Question,
        asker: &Asker<'_>,
    ) -> Result<(), StoreError> {
        self.asked(self.fleet.ask(session, question, asker)).await
    }

    async fn take_answer(
        &self,
        session: &SessionId,
        asker: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        self.asked(self.fleet.take_answer(session, asker)).await
    }

    async fn withdraw_question(&self, session: &SessionId, asker: &str) -> Result<(), StoreError> {
        self.asked(self.fleet.withdraw_question(session, asker))
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
        self.asked(self.fleet.answer(session, number, answers))
            .await
    }

    async fn questions(&self, session: &SessionId) -> Result<Vec<Waiting>, StoreError> {
        self.asked(self.fleet.questions(session)).await
    }
}

#[async_trait]
impl Schedules for LocalProcess {
    async fn now(&self) -> Result<Time, StoreError> {
        self.asked(self.fleet.now()).await
    }

    async fn schedule(&self, cron: &str, due: Time, run: &NewRun) -> Result<i64, StoreError> {
        self.asked(self.fleet.schedule(cron, due, run)).await
    }

    async fn unschedule(&self, number: i64) -> Result<bool, StoreError> {
        self.asked(self.fleet.unschedule(number)).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.asked(self.fleet.schedules()).await
    }

    async fn start(
        &self,
        schedule: &Schedule,
        start: &Start,
        next: Time,
    ) -> Result<bool, StoreError> {
        self.told(self.fleet.start(schedule, start, next)).await
    }
}
