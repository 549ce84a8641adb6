//! Port: storage of a session's conversation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    Content, Event, FileChange, FileStep, FilesLeft, Message, MessageId, Prefix, Time, ToolResult,
    ToolUseId, Transcript,
};

/// One session's conversation, held for writing by this process alone.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the transcript up to the current message, with the known state of its open tool calls.
    async fn load(&self) -> Result<Transcript, StoreError>;

    /// Stores `records` durably in one transaction before it returns; a message becomes the current one. A message
    /// whose id is already stored (a queued message read before a crash) is skipped. A message with tool results
    /// takes over their whole outputs from the journal of calls.
    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError>;

    /// Returns lines `offset` (1-based) to `offset + limit - 1` of a call's whole output; `None` if there is no such
    /// call.
    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError>;

    /// Returns the path at which the output of `call` may be spooled.
    fn spool_path(&self, call: &ToolUseId) -> PathBuf;

    /// Returns the queue of messages for the conversation; `None` if it gets none.
    fn mailbox(&self) -> Option<&dyn Mailbox>;

    /// Returns what all conversations of the session share; `None` if they share nothing, and no other process uses it.
    fn shared(&self) -> Option<&dyn SharedState>;

    /// Returns the store of a subagent's conversation: kept with this one under the same lock, with a root of its
    /// own. Appending to it does not move this one's current message, and it receives no queued messages.
    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store>;
}

/// A layer over another store, which does all that it has no say in. A method of [`Store`] that writes belongs here, too, so that no
/// layer is passed by.
#[async_trait]
pub trait StoreLayer: Send + Sync + 'static {
    /// The store below.
    fn below(&self) -> &dyn Store;

    /// As [`Store::append`].
    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError>;

    /// As [`Store::mailbox`].
    fn mailbox(&self) -> Option<&dyn Mailbox>;

    /// As [`Store::branch`].
    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store>;
}

#[async_trait]
impl<L: StoreLayer> Store for L {
    async fn load(&self) -> Result<Transcript, StoreError> {
        self.below().load().await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        StoreLayer::append(self, records).await
    }

    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError> {
        self.below().output(call, offset, limit).await
    }

    fn spool_path(&self, call: &ToolUseId) -> PathBuf {
        self.below().spool_path(call)
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        StoreLayer::mailbox(self)
    }

    fn shared(&self) -> Option<&dyn SharedState> {
        self.below().shared()
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        StoreLayer::branch(self, branch)
    }
}

/// The messages that other processes have queued for a conversation.
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Returns the queued messages of `kind` that are not in the conversation yet, oldest first. Appending each as a
    /// message with the same id consumes it, exactly once.
    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError>;

    /// Waits until it is time to look for mail: another process may have queued some, or so much time has passed. The first
    /// call returns at once, since what came before it is not noticed. Dropping the future loses nothing.
    async fn wait_for_mail(&self, at_most: Duration);
}

/// What all conversations of a session share: the former contents of files, notes, and the lock on the session.
#[async_trait]
pub trait SharedState: Send + Sync {
    /// Returns the steps in which files were changed, oldest first.
    async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError>;

    /// Returns the content of a file by the hash in a step; `None` if it is missing.
    async fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the note `key`, as [`Record::Note`] stored it last.
    async fn note(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Lets other processes use the session until [`wake`](Self::wake).
    async fn rest(&self);

    /// Takes the session back from [`rest`](Self::rest); returns whether another process has changed it meanwhile. It is an
    /// error while another process uses it.
    async fn wake(&self) -> Result<bool, StoreError>;
}

/// The parts that not every store has. A store without one has nothing there.
impl<'a> dyn Store + 'a {
    /// Returns the queued messages, see [`Mailbox::mail`].
    pub async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        match self.mailbox() {
            Some(mailbox) => mailbox.mail(kind).await,
            None => Ok(Vec::new()),
        }
    }

    /// Waits until it is time to look for mail, see [`Mailbox::wait_for_mail`]; for ever if none can come.
    pub async fn wait_for_mail(&self, at_most: Duration) {
        match self.mailbox() {
            Some(mailbox) => mailbox.wait_for_mail(at_most).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the steps in which files were changed, oldest first.
    pub async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError> {
        match self.shared() {
            Some(shared) => shared.file_steps().await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the content of a file by the hash in a step; `None` if it is missing.
    pub async fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.shared() {
            Some(shared) => shared.file_content(hash).await,
            None => Ok(None),
        }
    }

    /// Returns the note `key`, as [`Record::Note`] stored it last.
    pub async fn note(&self, key: &str) -> Result<Option<String>, StoreError> {
        match self.shared() {
            Some(shared) => shared.note(key).await,
            None => Ok(None),
        }
    }

    /// Lets other processes use the session, see [`SharedState::rest`].
    pub async fn rest(&self) {
        if let Some(shared) = self.shared() {
            shared.rest().await;
        }
    }

    /// Takes the session back, see [`SharedState::wake`].
    pub async fn wake(&self) -> Result<bool, StoreError> {
        match self.shared() {
            Some(shared) => shared.wake().await,
            None => Ok(false),
        }
    }
}

/// Identifies the conversation of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Id of the subagent. An existing conversation is continued.
    pub agent_id: String,
    /// The call that started it.
    pub spawned_by: ToolUseId,
}

/// A record to store.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A complete message.
    Message(Arc<Message>),
    /// A tool call is about to run.
    CallStarted(CallStart),
    /// A tool call has ended.
    CallFinished(CallFinish),
    /// An event; only those that [`EventKind::is_stored`](crate::EventKind::is_stored).
    Event(Event),
    /// Files that are about to change.
    Files(FileChange),
    /// Files that have changed.
    FilesLeft(FilesLeft),
    /// A text that all agents of the session share, beside the conversation: its key and its new value.
    Note(String, String),
    /// The beginning of all requests from now on. The message is the last one of the first such request.
    Prefix(MessageId, Arc<Prefix>),
}

/// Journal entry of a tool call about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct CallStart {
    /// Id of the call.
    pub tool_use_id: ToolUseId,
    /// Message that requested the call.
    pub message_id: MessageId,
    /// Accesses in words (see [`Access::word`](crate::Access::word)), joined by commas.
    pub access: String,
    /// Time of the start.
    pub at: Time,
}

/// Journal entry of a tool call that has ended, or will never run.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFinish {
    /// Message that requested the call.
    pub message_id: MessageId,
    /// Result as the model sees it.
    pub result: ToolResult,
    /// Whole output.
    pub output: Content,
    /// Time of the end.
    pub at: Time,
}

/// A message queued for a session by another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Id, which becomes the id of the message in the conversation.
    pub id: MessageId,
    /// Text of the message.
    pub content: String,
    /// Time at which it was queued.
    pub created_at: Time,
}

/// Delivery time of a queued message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// During the run, before the next model call.
    Steer,
    /// At the end of the model's turn.
    FollowUp,
}

/// A range of lines of a stored output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// The lines, joined by newlines, invalid UTF-8 replaced.
    pub text: String,
    /// Total number of lines of the output.
    pub lines: usize,
}

/// Failure to store the conversation. Always ends the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{action} `{}`: {reason}", path.display())]
pub struct StoreError {
    /// Failed action: `cannot write`, `cannot open`, …
    pub action: &'static str,
    /// File concerned.
    pub path: PathBuf,
    /// Reason of the failure.
    pub reason: String,
    /// Advice for the user.
    pub hint: Option<String>,
}
