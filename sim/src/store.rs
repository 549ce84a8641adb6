//! The store between the agent and the real one: a process may be killed before each write and after it, and faults of stores are
//! planted here.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use ah_conversation::{
    Branch, ContentBlock, FileStep, Mail, MailKind, Mailbox, Message, MessageId, Origin,
    OutputPage, Record, Role, SharedState, Store, StoreError, ToolUseId, Transcript,
};
use ah_store::SessionStore;
use async_trait::async_trait;

use crate::plant::PlantedFault;
use crate::world::World;

pub(crate) struct SimulatedStore {
    world: Arc<World>,
    store: Arc<dyn Store>,
    /// What all conversations of the session share.
    session: Arc<SessionStore>,
    /// The subagent whose conversation it is.
    agent: Option<String>,
}

impl SimulatedStore {
    /// Puts what may happen before the store of a session.
    pub(crate) fn of(world: &Arc<World>, session: Arc<SessionStore>) -> Self {
        Self {
            world: world.clone(),
            store: session.clone(),
            session,
            agent: None,
        }
    }

    /// Returns what the store has answered, unless the process was killed meanwhile.
    async fn alive<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.world.hear();
        if self.world.disk.is_off() {
            self.world.gone().await;
        }
        answer
    }

    /// Makes a message the current one.
    pub(crate) async fn checkout(&self, id: MessageId) -> Result<(), StoreError> {
        self.world.moment().await;
        self.alive(through(&self.session, self.session.checkout(id)).await)
            .await
    }

    /// Returns what is really written of `records`.
    fn kept(&self, mut records: Vec<Record>) -> Vec<Record> {
        let mut state = self.world.state();
        if state.planted(PlantedFault::UnwrittenAcknowledged, 8) {
            records.clear();
        }
        if state.planted(PlantedFault::MessageLost, 8) {
            records.retain(|record| !matches!(record, Record::Message(_)));
        }
        if state.planted(PlantedFault::StartNotJournalled, 1) {
            records.retain(|record| !matches!(record, Record::CallStarted(_)));
        }
        if state.planted(PlantedFault::EndNotJournalled, 1) {
            records.retain(|record| !matches!(record, Record::CallFinished(_)));
        }
        if state.planted(PlantedFault::BegunTooLate, 1) {
            let began = |record: &Record| matches!(record, Record::CallStarted(_));
            let late = records.extract_if(.., |record| began(record)).collect();
            let late = std::mem::replace(&mut state.late, late);
            records.splice(0..0, late);
        }
        if state.planted(PlantedFault::AcknowledgedEarly, 1) {
            records = std::mem::replace(&mut state.late, records);
        }
        if state.planted(PlantedFault::FilesNotRecorded, 1) {
            records.retain(|record| !matches!(record, Record::Files(_)));
        }
        if state.planted(PlantedFault::ResultsSwapped, 1) {
            change(&mut records, swap_results);
        }
        if state.planted(PlantedFault::WordsChanged, 1) {
            change(&mut records, reword);
        }
        records
    }
}

/// Waits for an answer of a store. While its writer works, nothing else happens; while its log does, others go on.
async fn through<T>(store: &SessionStore, answer: impl Future<Output = T>) -> T {
    if store.path().is_absolute() {
        return now(answer);
    }
    let mut answer = pin!(tokio::task::unconstrained(answer));
    poll_fn(|context| match answer.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(value),
        Poll::Pending => {
            // It has what was asked for before.
            let _ = now(store.read(|_| Ok(())));
            answer.as_mut().poll(context)
        }
    })
    .await
}

/// Waits for the writer of the store, and lets nothing else happen meanwhile: so each number has one order of events.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // With a budget, the runtime wakes only who gives the thread back.
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Requests begin with it from now on.
fn is_summary(record: &Record) -> bool {
    match record {
        Record::Message(message) => matches!(message.origin, Origin::Summary { .. }),
        _ => false,
    }
}

fn change(records: &mut [Record], change: fn(&mut Message)) {
    for record in records {
        if let Record::Message(message) = record {
            change(Arc::make_mut(message));
        }
    }
}

/// Lets the results answer each other's calls.
fn swap_results(message: &mut Message) {
    let ids = message.tool_results();
    let mut ids: Vec<_> = ids.map(|result| result.tool_use_id.clone()).collect();
    for block in &mut message.content {
        if let ContentBlock::ToolResult(result) = block
            && let Some(last) = ids.pop()
        {
            result.tool_use_id = last;
        }
    }
}

/// Lets the user say something more.
fn reword(message: &mut Message) {
    if message.role == Role::User {
        message.content.push(ContentBlock::text("And more."));
    }
}

#[async_trait]
impl Store for SimulatedStore {
    async fn load(&self) -> Result<Transcript, StoreError> {
        self.alive(through(&self.session, self.store.load()).await)
            .await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        self.world.moment().await;
        let messages = records.iter().filter_map(|record| match record {
            Record::Message(message) => Some(message.id.clone()),
            _ => None,
        });
        let messages: Vec<_> = messages.collect();
        let ended = records.iter().filter_map(|record| match record {
            Record::CallFinished(end) => Some((end.result.tool_use_id.clone(), end.result.text())),
            _ => None,
        });
        let ended: Vec<_> = ended.collect();
        {
            let mut state = self.world.state();
            if records.iter().any(is_summary) {
                state.conversations.remove(&self.agent);
            }
            let owned = messages.iter().map(|id| (id.clone(), self.agent.clone()));
            state.owners.extend(owned);
        }
        let records = self.kept(records);
        let appended = through(&self.session, self.store.append(records)).await;
        self.alive(appended).await?;
        self.world.moment().await;
        let mut state = self.world.state();
        state.acknowledged.extend(messages);
        ended
            .iter()
            .for_each(|(call, _)| state.workspace.settle(call));
        state.ended.extend(ended);
        Ok(())
    }

    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError> {
        self.alive(through(&self.session, self.store.output(call, offset, limit)).await)
            .await
    }

    fn spool_path(&self, call: &ToolUseId) -> PathBuf {
        self.store.spool_path(call)
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.store.mailbox().is_some().then_some(self)
    }

    fn shared(&self) -> Option<&dyn SharedState> {
        Some(self)
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        Arc::new(Self {
            world: self.world.clone(),
            agent: Some(branch.agent_id.clone()),
            store: self.store.clone().branch(branch),
            session: self.session.clone(),
        })
    }
}

#[async_trait]
impl SharedState for SimulatedStore {
    async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError> {
        self.alive(through(&self.session, SharedState::file_steps(&*self.session)).await)
            .await
    }

    async fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let content = SharedState::file_content(&*self.session, hash);
        let content = through(&self.session, content).await;
        self.alive(content).await
    }

    async fn note(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.alive(through(&self.session, SharedState::note(&*self.session, key)).await)
            .await
    }

    async fn rest(&self) {
        through(&self.session, SharedState::rest(&*self.session)).await;
    }

    async fn wake(&self) -> Result<bool, StoreError> {
        self.alive(through(&self.session, SharedState::wake(&*self.session)).await)
            .await
    }
}

#[async_trait]
impl Mailbox for SimulatedStore {
    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        self.world.moment().await;
        let mail = through(&self.session, self.store.mail(kind)).await;
        let mut mail = self.alive(mail).await?;
        let mut state = self.world.state();
        if state.planted(PlantedFault::MailLost, 1) {
            mail.clear();
        }
        if state.planted(PlantedFault::MailReversed, 1) {
            mail.reverse();
        }
        if state.planted(PlantedFault::MailTwice, 1) {
            let again = mail.clone().into_iter().map(|mail| Mail {
                id: format!("{}-again", mail.id).into(),
                ..mail
            });
            mail.extend(again.collect::<Vec<_>>());
        }
        Ok(mail)
    }

    async fn wait_for_mail(&self, at_most: Duration) {
        tokio::time::sleep(at_most).await;
    }
}
