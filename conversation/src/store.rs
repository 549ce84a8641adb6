//! Port: where a session's conversation is kept.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Content, Event, FileChange, FileStep, Message, MessageId, Time, ToolResult, ToolUseId,
    Transcript,
};

/// One session's conversation, held for writing by this process alone.
#[async_trait]
pub trait Store: Send + Sync {
    /// The transcript that ends at the current message, with what is known of its open tool calls.
    async fn load(&self) -> Result<Transcript, StoreError>;

    /// Stores `records` in one transaction, durably, before it returns; a message becomes the current one. A
    /// message whose id is already there (mail that was read before a crash) is not stored again. A message with
    /// tool results takes their whole outputs over from the journal of calls.
    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError>;

    /// The mail of `kind` that is not in the conversation yet, oldest first. Append each as a message with the
    /// mail's id: that is what consumes it, exactly once.
    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError>;

    /// Lines `offset` (from 1) to `offset + limit - 1` of a call's whole output; `None` if there is no such call.
    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError>;

    /// Where the output of `call` may be spooled.
    fn spool_path(&self, call: &ToolUseId) -> PathBuf;

    /// The steps in which files were changed, oldest first. A store that keeps none has none.
    async fn file_steps(&self) -> Result<Vec<FileStep>, StoreError> {
        Ok(Vec::new())
    }

    /// The content of a file that a step has named by its hash; `None` if it is not there.
    async fn file_content(&self, _hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    /// The conversation of a subagent: kept with this one and under the same lock, with a root of its own. What is
    /// appended to it leaves the current message of this one as it is, and it gets no mail.
    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store>;
}

/// Names the conversation of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The subagent's id. One that was there before goes on.
    pub agent_id: String,
    /// The call that started it.
    pub spawned_by: ToolUseId,
}

/// Something to store.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A message, whole.
    Message(Arc<Message>),
    /// A tool call is about to run.
    CallStarted(CallStart),
    /// A tool call has ended.
    CallFinished(CallFinish),
    /// Something that happened; of the events, only those that [`EventKind::is_stored`](crate::EventKind::is_stored).
    Event(Event),
    /// Files that are about to change.
    Files(FileChange),
}

/// A tool call is about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct CallStart {
    /// The call.
    pub tool_use_id: ToolUseId,
    /// The message that asked for it.
    pub message_id: MessageId,
    /// What it touches, in words (see [`Access::word`](crate::Access::word)), joined by commas.
    pub access: String,
    /// When.
    pub at: Time,
}

/// A tool call has ended, or will never run.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFinish {
    /// The message that asked for it.
    pub message_id: MessageId,
    /// What the model will see.
    pub result: ToolResult,
    /// The whole output.
    pub output: Content,
    /// When.
    pub at: Time,
}

/// Words for a session from another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Its name, and then the name of the message that it becomes.
    pub id: MessageId,
    /// The words.
    pub content: String,
    /// When it was sent.
    pub created_at: Time,
}

/// When mail is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// During the run, before the next model call.
    Steer,
    /// When the model has said what it had to say.
    FollowUp,
}

/// Some lines of a stored output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    /// The lines, joined by newlines, invalid UTF-8 replaced.
    pub text: String,
    /// How many lines the output has in all.
    pub lines: usize,
}

/// Why the conversation could not be kept. Always ends the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{action} `{}`: {reason}", path.display())]
pub struct StoreError {
    /// What was being done: `cannot write`, `cannot open` …
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why it failed.
    pub reason: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}
