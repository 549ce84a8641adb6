//! A session held for writing: the lock, the one thread that writes, and the port through which a run stores what is
//! said.
//!
//! All writing goes through one thread that owns the connection. It shows that it is alive by itself, so that neither
//! a long tool call nor a slow model makes the session look abandoned.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ah_conversation::{
    Branch, Clock, FileStep, Mail, MailKind, MessageId, OutputPage, Record, SessionId, Store,
    StoreError, ToolUseId, Transcript,
};
use async_trait::async_trait;
use tokio::sync::oneshot;

use super::database::Database;
use super::lock::{Attempt, Holder, Lock};
use super::outputs;
use super::tree::Tree;
use super::{Failure, context};
use crate::id::{self, SystemClock};
use crate::paths::{Paths, create_folder, write_gitignore};

/// How often the holder of a session shows that it is alive.
const BEAT: Duration = Duration::from_secs(10);
/// Where a session in memory says that it is.
const IN_MEMORY: &str = ":memory:";

/// What a writer is asked to do.
type Job = Box<dyn FnOnce(&mut Database) + Send>;

/// A session held for writing by this process. Dropping it frees it, after all that was asked for is done.
#[derive(Debug)]
pub struct SessionStore {
    id: SessionId,
    uuid: String,
    /// The one that it was given since.
    given_uuid: OnceLock<String>,
    path: PathBuf,
    outputs: PathBuf,
    clock: SystemClock,
    predecessor: Option<u32>,
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

/// Why a session could not be opened for writing.
#[derive(Debug)]
pub enum OpenError {
    /// Another process holds it. What was to be said may be put into its [`Queue`](crate::Queue).
    Busy(Holder),
    /// It cannot be read or written.
    Store(StoreError),
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(Holder { pid: Some(pid) }) => {
                write!(f, "the session is held by process {pid}")
            }
            Self::Busy(Holder { pid: None }) => write!(f, "the session is held by another process"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Something that the user should know about an opened session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The last process died while it worked on the session.
    Interrupted,
    /// So many messages had no content and were removed.
    Orphans(usize),
    /// The database was damaged.
    Salvaged {
        /// Where the damaged file is now.
        kept: PathBuf,
        /// How many messages could be saved.
        messages: usize,
    },
    /// The queue was damaged.
    QueueSalvaged {
        /// Where the damaged file is now.
        kept: PathBuf,
        /// How many letters could be saved, also of those that were read long ago.
        letters: usize,
    },
    /// The log of what was written last was unreadable, and with it what it held.
    LogLost {
        /// Where the unreadable file is now.
        kept: PathBuf,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => write!(
                f,
                "the last run of this session was cut off; it goes on from what is stored"
            ),
            Self::Orphans(1) => write!(f, "removed 1 message without content"),
            Self::Orphans(count) => write!(f, "removed {count} messages without content"),
            Self::Salvaged { kept, messages } => write!(
                f,
                "the session's database was damaged: {messages} messages were saved; the damaged file is kept as `{}`",
                kept.display()
            ),
            Self::QueueSalvaged { kept, letters } => write!(
                f,
                "the session's queue was damaged: {letters} of its messages, read or not, were saved; the damaged file \
                 is kept as `{}`",
                kept.display()
            ),
            Self::LogLost { kept } => write!(
                f,
                "the log beside the session's database was damaged: what was written last may be missing; the damaged \
                 file is kept as `{}`",
                kept.display()
            ),
        }
    }
}

impl SessionStore {
    /// Opens a session for writing, and makes it where it is missing. A damaged database is kept aside and what can be
    /// read of it is saved (see [`SessionStore::take_notices`]); one from a newer program is refused and left as it is.
    pub fn open(paths: &Paths) -> Result<Self, OpenError> {
        let folder = paths.folder();
        let is_new_folder = create_folder(folder)
            .map_err(|error| Failure::from(error).at("cannot create", folder))?;
        if folder
            .file_name()
            .is_some_and(|name| name == super::sessions::FOLDER)
        {
            write_gitignore(folder)
                .map_err(|error| Failure::from(error).at("cannot write to", folder))?;
        }
        let lock_path = paths.lock();
        let attempt = Lock::try_take(&lock_path)
            .map_err(|error| Failure::from(error).at("cannot lock", &lock_path))?;
        let lock = match attempt {
            Attempt::Held(lock) => lock,
            Attempt::Busy(holder) => return Err(OpenError::Busy(holder)),
        };
        let predecessor = lock.predecessor();
        let database = Database::open(paths, lock, is_new_folder)
            .map_err(|failure| failure.at("cannot open", paths.database()))?;
        let mut session = Self::with(database, paths.id(), paths.database(), paths.outputs())
            .map_err(|failure| failure.at("cannot open", paths.database()))?;
        session.predecessor = predecessor;
        Ok(session)
    }

    /// A session that leaves nothing behind: in memory, its spooled outputs in a folder below `scratch` that is
    /// removed with it.
    pub fn in_memory(scratch: &Path) -> Result<Self, StoreError> {
        let path = Path::new(IN_MEMORY);
        let id = id::fresh_session_id(None);
        let outputs = scratch.join(format!("ah-{id}.out"));
        Database::in_memory(&outputs)
            .and_then(|database| Self::with(database, Some(id), path, outputs))
            .map_err(|failure| failure.at("cannot open", path))
    }

    fn with(
        database: Database,
        id: Option<SessionId>,
        path: &Path,
        outputs: PathBuf,
    ) -> Result<Self, Failure> {
        let uuid = database.tree().uuid_of(id.as_ref())?;
        let id = id
            .or_else(|| id::session_of(&uuid))
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
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The id by which programs know the session that want a UUID: the one given to [`SessionStore::set_uuid`] by an
    /// earlier process or, without one, the bits of [`SessionStore::id`].
    pub fn uuid(&self) -> &str {
        self.given_uuid.get().unwrap_or(&self.uuid)
    }

    /// The file that it is kept in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that held the session before and was killed. What it started may still run.
    pub fn predecessor(&self) -> Option<u32> {
        self.predecessor
    }

    /// What the user should know since the last time this was asked. Damage may show only when the conversation is
    /// loaded, so ask after [`Store::load`].
    pub async fn take_notices(&self) -> Vec<Notice> {
        self.perform("cannot read", |database| Ok(database.take_notices()))
            .await
            .unwrap_or_default()
    }

    /// Reads the conversation tree as this session's writer sees it.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Tree) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.perform("cannot read", move |database| Ok(read(database.tree())))
            .await?
    }

    /// Makes `id` the current message.
    pub async fn checkout(&self, id: MessageId) -> Result<(), StoreError> {
        self.perform("cannot write", move |database| database.checkout(&id))
            .await
    }

    /// Deletes one message; what followed it follows its parent. Gives whether it was there.
    pub async fn delete(&self, id: MessageId) -> Result<bool, StoreError> {
        self.perform("cannot write", move |database| database.delete(&id))
            .await
    }

    /// Deletes a message with all that follows it, and gives how many messages that were.
    pub async fn delete_subtree(&self, id: MessageId) -> Result<usize, StoreError> {
        self.perform("cannot write", move |database| database.delete_subtree(&id))
            .await
    }

    /// Names the session.
    pub async fn set_name(&self, name: String) -> Result<(), StoreError> {
        self.perform("cannot write", move |database| {
            database.set_context(context::NAME, &name)
        })
        .await
    }

    /// Makes `uuid` the id by which other programs know the session. It can be given once.
    pub async fn set_uuid(&self, uuid: String) -> Result<(), StoreError> {
        let given = uuid.clone();
        self.perform("cannot write", move |database| {
            database.set_context(context::UUID, &uuid)
        })
        .await?;
        let _ = self.given_uuid.set(given);
        Ok(())
    }

    /// Sends mail to the own session; durable when it returns.
    pub async fn send(&self, kind: MailKind, text: String) -> Result<MessageId, StoreError> {
        let id = self.clock.message_id();
        self.perform("cannot write", move |database| {
            database.send(&id, kind, &text)?;
            Ok(id.clone())
        })
        .await
    }

    /// Takes mail of the own session back, unless it is in the conversation; gives whether it was still there.
    pub async fn withdraw(&self, id: MessageId) -> Result<bool, StoreError> {
        self.perform("cannot write", move |database| database.withdraw(&id))
            .await
    }

    /// Has the writer do something. If the database turns out to be damaged, what can be read is saved and the work
    /// tried once more.
    async fn perform<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl Fn(&mut Database) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
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
            reason: "its writer has stopped".to_owned(),
            hint: None,
        };
        let sent = match &self.jobs {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        let result = match sent {
            true => answer.await.unwrap_or_else(|_| Err(stopped())),
            false => Err(stopped()),
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
        self.perform("cannot read", |database| database.load())
            .await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        self.perform("cannot write", move |database| {
            database.append(&records, None)
        })
        .await
    }

    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        self.perform("cannot read the mail of", move |database| {
            database.mail(kind)
        })
        .await
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

    async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError> {
        self.perform("cannot read", |database| database.file_steps())
            .await
    }

    async fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let hash = hash.to_owned();
        self.perform("cannot read", move |database| database.file_content(&hash))
            .await
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        Arc::new(AgentBranch {
            session: self,
            branch,
        })
    }
}

/// The conversation of a subagent, in the session that it belongs to.
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
        // How busy the session is follows from the main conversation.
        records.retain(|record| !matches!(record, Record::Event(event) if event.kind.is_of_run()));
        if records.is_empty() {
            return Ok(());
        }
        let branch = self.branch.clone();
        self.session
            .perform("cannot write", move |database| {
                database.append(&records, Some(&branch))
            })
            .await
    }

    async fn mail(&self, _: MailKind) -> Result<Vec<Mail>, StoreError> {
        Ok(Vec::new())
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

    async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError> {
        self.session.file_steps().await
    }

    async fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.session.file_content(hash).await
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        self.session.clone().branch(branch)
    }
}

/// The writer: does what it is asked to, and beats in between.
fn write(mut database: Database, inbox: &mpsc::Receiver<Job>) {
    // If this fails, the first append tries it again and says why.
    let _ = database.settle();
    let mut next_beat = Instant::now() + BEAT;
    loop {
        match inbox.recv_timeout(next_beat.saturating_duration_since(Instant::now())) {
            Ok(job) => job(&mut database),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= next_beat {
            database.beat();
            next_beat = Instant::now() + BEAT;
        }
    }
    database.close();
}
