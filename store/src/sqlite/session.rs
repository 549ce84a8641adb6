//! A session open for writing: its lock, its writer thread, and the [`Store`] port of a run.
//!
//! One thread owns the connection and does all writing. It sends the heartbeats itself, so that neither a long tool
//! call nor a slow model makes the session look abandoned.

mod moved;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ah_conversation::{
    Branch, Clock, FileStep, Mail, MailKind, Mailbox, MessageId, OutputPage, Record, SessionId,
    SharedState, Store, StoreError, ToolUseId, Transcript,
};
use async_trait::async_trait;
use tokio::sync::oneshot;

use super::connection::require_file;
use super::database::Database;
use super::lock::{Lock, LockAttempt};
use super::logged::Logged;
use super::outputs;
use super::tree::Tree;
use super::{Failure, context};
use crate::changes::Changes;
use crate::log::{Change, Log};
use crate::notice::Notice;
use crate::open_error::OpenError;
use crate::paths::{Paths, create_folder};
use crate::seal::Seal;
use ah_ids::SystemClock;

/// Interval of heartbeats. They are for display; an idle session need not wake up for more.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Pause between two looks for mail where nothing tells that there is some.
const LOOK: Duration = Duration::from_secs(1);
/// Path reported for a session in memory.
const IN_MEMORY: &str = ":memory:";

/// A job for the writer thread.
type Job = Box<dyn FnOnce(&mut Database) + Send>;

/// A session that this process has open for writing. Dropping it closes it, after all pending jobs are done.
#[derive(Debug)]
pub struct SessionStore {
    id: SessionId,
    uuid: String,
    /// UUID assigned since the session was opened.
    given_uuid: OnceLock<String>,
    path: PathBuf,
    outputs: PathBuf,
    clock: SystemClock,
    predecessor: Option<u32>,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    /// Where changes are made durable, if this database is only a copy.
    logged: Option<Logged>,
    /// Changes of the queue, once somebody waits for mail.
    queue: OnceLock<Changes>,
}

impl SessionStore {
    /// Opens a session for writing, or creates it. A damaged database is salvaged (see [`SessionStore::take_notices`]);
    /// one of a newer version is refused and left unchanged.
    pub fn open(paths: &Paths) -> Result<Self, OpenError> {
        let folder = paths.folder();
        let is_new_folder = create_folder(folder)
            .map_err(|error| Failure::from(error).at("cannot create", folder))?;
        let lock_path = paths.lock();
        let attempt = require_file(&lock_path)
            .and_then(|()| Lock::try_take(&lock_path).map_err(Failure::from))
            .map_err(|failure| failure.at("cannot lock", &lock_path))?;
        let lock = match attempt {
            LockAttempt::Held(lock) => lock,
            LockAttempt::Busy(holder) => return Err(OpenError::Busy(holder)),
        };
        let predecessor = lock.predecessor();
        let database = Database::open(paths, lock, is_new_folder)
            .map_err(|failure| failure.at("cannot open", paths.database()))?;
        let mut session = Self::with(database, paths.id(), paths.database(), paths.outputs())
            .map_err(|failure| failure.at("cannot open", paths.database()))?;
        session.predecessor = predecessor;
        Ok(session)
    }

    /// Creates a session in memory. Its large outputs are in a folder below `scratch`, which is removed on close.
    pub fn in_memory(scratch: &Path) -> Result<Self, StoreError> {
        let path = Path::new(IN_MEMORY);
        let id = ah_ids::fresh_session_id(None);
        let outputs = scratch.join(format!("ah-{id}.out"));
        Database::in_memory(&outputs)
            .and_then(|database| Self::with(database, Some(id), path, outputs))
            .map_err(|failure| failure.at("cannot open", path))
    }

    /// Opens the session `id` whose truth is `log`, as a copy in memory. Its large outputs are in a folder below
    /// `scratch`, which is removed on close.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or has an entry that this version does not understand.
    pub async fn of_log(
        id: SessionId,
        log: Arc<dyn Log>,
        scratch: &Path,
    ) -> Result<Self, StoreError> {
        let path = Path::new(log.name());
        let outputs = scratch.join(format!("ah-{id}-{}.out", ah_ids::fresh_session_id(None)));
        let mut session = Database::in_memory(&outputs)
            .and_then(|database| Self::with(database, Some(id), path, outputs))
            .map_err(|failure| failure.at("cannot open", path))?;
        for body in log.entries().await? {
            let change = Logged::read(&*log, &body, &session.outputs).await?;
            session.apply(&change).await?;
        }
        session.logged = Some(Logged::new(log));
        Ok(session)
    }

    /// Seals what is recorded of files with this key from now on, and knows by it what this user has recorded
    /// ([`ah_conversation::FileStep::is_own`]).
    ///
    /// # Errors
    ///
    /// If the writer has stopped.
    pub async fn seal_with(&self, seal: Seal) -> Result<(), StoreError> {
        self.perform("cannot use", move |database| {
            database.seal_with(seal.clone());
            Ok(())
        })
        .await
    }

    /// Waits until no change is being made to a log. The future of such a change has to be polled meanwhile.
    pub async fn at_rest(&self) {
        if let Some(logged) = &self.logged {
            logged.at_rest().await;
        }
    }

    fn with(
        database: Database,
        id: Option<SessionId>,
        path: &Path,
        outputs: PathBuf,
    ) -> Result<Self, Failure> {
        let uuid = database.tree().uuid_of(id.as_ref())?;
        let id = id
            .or_else(|| ah_ids::session_of(&uuid))
            .unwrap_or_else(|| SessionId::from(uuid.as_str()));
        let (jobs, inbox) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write(database, &inbox))?;
        Ok(Self {
            id,
            uuid,
            given_uuid: OnceLock::new(),
            path: path.to_owned(),
            outputs,
            clock: SystemClock::default(),
            predecessor: None,
            jobs: Some(jobs),
            writer: Some(writer),
            logged: None,
            queue: OnceLock::new(),
        })
    }

    /// Returns the folder of files that are too large for the database. It may be missing.
    pub fn outputs(&self) -> &Path {
        &self.outputs
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the session's UUID: the one assigned by [`SessionStore::set_uuid`], now or in an earlier process, or
    /// else the bits of [`SessionStore::id`].
    pub fn uuid(&self) -> &str {
        self.given_uuid.get().unwrap_or(&self.uuid)
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the database is a file. One in memory has a key of its own for its seals, since nobody else can write it.
    pub fn is_on_disk(&self) -> bool {
        self.path != Path::new(IN_MEMORY)
    }

    /// Returns the pid of the previous holder, if it was killed. Its child processes may still be running.
    pub fn predecessor(&self) -> Option<u32> {
        self.predecessor
    }

    /// Returns the notices since the last call. Damage may only be found when the conversation is loaded, so call it
    /// after [`Store::load`].
    pub async fn take_notices(&self) -> Vec<Notice> {
        self.perform("cannot read", |database| Ok(database.take_notices()))
            .await
            .unwrap_or_default()
    }

    /// Returns whether the last change of files is a rewind that was cut off. It reads little, however long the session.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub async fn has_rewind_cut_off(&self) -> Result<bool, StoreError> {
        self.perform("cannot read", |database| database.has_rewind_cut_off())
            .await
    }

    /// Calls `read` with the conversation tree, on the writer thread.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Tree) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.perform("cannot read", move |database| Ok(read(database.tree())))
            .await?
    }

    /// Makes `id` the current message.
    pub async fn checkout(&self, id: MessageId) -> Result<(), StoreError> {
        self.change(Change::Checkout(id)).await.map(|_| ())
    }

    /// Deletes one message and moves its children to its parent; returns whether it existed.
    pub async fn delete(&self, id: MessageId) -> Result<bool, StoreError> {
        Ok(self.change(Change::Delete(id)).await? == 1)
    }

    /// Deletes a message with its descendants, and returns the number of messages deleted.
    pub async fn delete_subtree(&self, id: MessageId) -> Result<usize, StoreError> {
        self.change(Change::DeleteSubtree(id)).await
    }

    /// Names the session.
    pub async fn set_name(&self, name: String) -> Result<(), StoreError> {
        self.set_context(context::NAME, name).await
    }

    /// Records the model that the session continues with, as `--model` names it.
    pub async fn set_model(&self, name: String) -> Result<(), StoreError> {
        self.set_context(context::MODEL, name).await
    }

    /// Records the permission mode that was chosen in the session, as `--permission-mode` names it.
    pub async fn set_permission_mode(&self, mode: String) -> Result<(), StoreError> {
        self.set_context(context::PERMISSION_MODE, mode).await
    }

    /// Records where the session is used, for lists: the working directory, and the branch of its repository. It is written
    /// with the next records.
    pub fn note_place(&self, folder: &Path, branch: Option<&str>) {
        let place = [
            (context::FOLDER, folder.to_string_lossy().into_owned()),
            (context::GIT_BRANCH, branch.unwrap_or_default().to_owned()),
        ];
        let job: Job = Box::new(move |database| {
            for (key, value) in place {
                database.note_context(key, value);
            }
        });
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }

    /// Assigns the UUID by which other programs identify the session. It can be assigned once.
    pub async fn set_uuid(&self, uuid: String) -> Result<(), StoreError> {
        self.set_context(context::UUID, uuid).await
    }

    /// Queues a message for this session, durably, and returns its id.
    pub async fn send(&self, kind: MailKind, text: String) -> Result<MessageId, StoreError> {
        let id = self.clock.message_id();
        if let Some(logged) = &self.logged {
            logged.log().send(&id, kind, &text).await?;
            return Ok(id);
        }
        self.perform("cannot write", move |database| {
            database.send(&id, kind, &text)?;
            Ok(id.clone())
        })
        .await
    }

    /// Removes a queued message of this session, unless it is already in the conversation; returns whether it was
    /// removed.
    pub async fn withdraw(&self, id: MessageId) -> Result<bool, StoreError> {
        if let Some(logged) = &self.logged {
            return logged.log().withdraw(&id).await;
        }
        self.perform("cannot write", move |database| database.withdraw(&id))
            .await
    }

    async fn set_context(&self, key: &str, value: String) -> Result<(), StoreError> {
        let change = Change::Context(key.to_owned(), value);
        self.change(change).await.map(|_| ())
    }

    /// Makes a change durably; returns the number of messages that it deleted.
    async fn change(&self, change: Change) -> Result<usize, StoreError> {
        match &self.logged {
            Some(logged) => {
                let apply = self.apply(&change);
                logged.commit(&change, Vec::new(), apply).await
            }
            None => self.apply(&change).await,
        }
    }

    /// Makes a change in the database; returns the number of messages that it deleted.
    async fn apply(&self, change: &Change) -> Result<usize, StoreError> {
        let uuid = match change {
            Change::Context(key, uuid) if key == context::UUID => Some(uuid.clone()),
            _ => None,
        };
        let change = change.clone();
        let deleted = self
            .perform("cannot write", move |database| match &change {
                Change::Append(branch, records) => {
                    database.append(records, branch.as_ref()).map(|()| 0)
                }
                Change::Checkout(id) => database.checkout(id).map(|()| 0),
                Change::Delete(id) => database.delete(id).map(usize::from),
                Change::DeleteSubtree(id) => database.delete_subtree(id),
                Change::Context(key, value) => database.set_context(key, value).map(|()| 0),
                Change::Whole(image) => database.replace(image).map(|()| 0),
            })
            .await?;
        if let Some(uuid) = uuid {
            let _ = self.given_uuid.set(uuid);
        }
        Ok(deleted)
    }

    /// Runs `work` on the writer thread. If the database turns out to be damaged, it is salvaged and `work` is retried
    /// once.
    async fn perform<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl Fn(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, response) = oneshot::channel();
        let job: Job = Box::new(move |database| {
            let mut result = work(database);
            if let Err(failure) = &result
                && failure.is_damage()
                && database.salvage().is_ok()
            {
                result = work(database);
            }
            let _ = reply.send(result);
        });
        let stopped = || Failure::Refused {
            reason: "the writer thread has stopped".to_owned(),
            hint: None,
        };
        let is_sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        let result = if is_sent {
            response.await.unwrap_or_else(|_| Err(stopped()))
        } else {
            Err(stopped())
        };
        result.map_err(|failure| failure.at(action, &self.path))
    }
}

impl Drop for SessionStore {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

#[async_trait]
impl Store for SessionStore {
    async fn load(&self) -> Result<Transcript, StoreError> {
        if let Some(logged) = &self.logged {
            logged.check().await?;
        }
        self.perform("cannot read", |database| database.load())
            .await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        self.change(Change::Append(None, records)).await.map(|_| ())
    }

    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError> {
        let call = call.clone();
        self.perform("cannot read", move |database| {
            database.tree().page(&call, offset, limit)
        })
        .await
    }

    fn spool_path(&self, call: &ToolUseId) -> PathBuf {
        outputs::free_path(&self.outputs, call)
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }

    fn shared(&self) -> Option<&dyn SharedState> {
        Some(self)
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        Arc::new(AgentBranch {
            session: self,
            branch,
        })
    }
}

#[async_trait]
impl Mailbox for SessionStore {
    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        if let Some(logged) = &self.logged {
            return logged.log().mail(kind).await;
        }
        self.perform("cannot read the queue of", move |database| {
            database.mail(kind)
        })
        .await
    }

    async fn wait_for_mail(&self, at_most: Duration) {
        let Some(changes) = self.queue.get() else {
            let paths = Paths::of(&self.path);
            let name = paths.queue();
            let name = name.file_name().unwrap_or_default().to_string_lossy();
            let changes = Changes::of(paths.folder(), &name);
            return drop(self.queue.set(changes));
        };
        if self.path == Path::new(IN_MEMORY) {
            // Nobody else knows of it.
            tokio::time::sleep(at_most).await;
        } else if changes.are_told() && self.logged.is_none() {
            changes.next(at_most).await;
        } else {
            tokio::time::sleep(at_most.min(LOOK)).await;
        }
    }
}

#[async_trait]
impl SharedState for SessionStore {
    async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError> {
        self.perform("cannot read", |database| database.file_steps())
            .await
    }

    async fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let hash = hash.to_owned();
        self.perform("cannot read", move |database| database.file_content(&hash))
            .await
    }

    async fn note(&self, key: &str) -> Result<Option<String>, StoreError> {
        let key = context::note(key);
        self.perform("cannot read", move |database| database.context(&key))
            .await
    }

    async fn rest(&self) {
        let rested = self.perform("cannot write", |database| {
            database.rest();
            Ok(())
        });
        // Whether it could be given up is known when another process wants it.
        let _ = rested.await;
    }

    async fn wake(&self) -> Result<bool, StoreError> {
        self.perform("cannot open", Database::wake).await
    }
}

/// The conversation of a subagent within a session.
struct AgentBranch {
    session: Arc<SessionStore>,
    branch: Branch,
}

#[async_trait]
impl Store for AgentBranch {
    async fn load(&self) -> Result<Transcript, StoreError> {
        let agent_id = self.branch.agent_id.clone();
        self.session
            .perform("cannot read", move |database| {
                database.load_agent(&agent_id)
            })
            .await
    }

    async fn append(&self, mut records: Vec<Record>) -> Result<(), StoreError> {
        // The state of the session follows from the main conversation.
        records.retain(|record| !matches!(record, Record::Event(event) if event.kind.is_of_run()));
        if records.is_empty() {
            return Ok(());
        }
        let change = Change::Append(Some(self.branch.clone()), records);
        self.session.change(change).await.map(|_| ())
    }

    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError> {
        self.session.output(call, offset, limit).await
    }

    fn spool_path(&self, call: &ToolUseId) -> PathBuf {
        self.session.spool_path(call)
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        None
    }

    fn shared(&self) -> Option<&dyn SharedState> {
        self.session.shared()
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        self.session.clone().branch(branch)
    }
}

/// Runs the writer thread: jobs, with heartbeats in between.
fn write(mut database: Database, inbox: &mpsc::Receiver<Job>) {
    // If it fails, the first append retries it and reports the error.
    let _ = database.make_durable();
    let mut next_heartbeat = Instant::now() + HEARTBEAT;
    loop {
        match inbox.recv_timeout(next_heartbeat.saturating_duration_since(Instant::now())) {
            Ok(job) => job(&mut database),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= next_heartbeat {
            database.heartbeat();
            next_heartbeat = Instant::now() + HEARTBEAT;
        }
    }
    database.close();
}
