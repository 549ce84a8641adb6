//! How a task has ended, and what becomes of the messages that were queued for it.

use ah_conversation::{MailKind, MessageId};

/// A queued message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Its id in the queue.
    pub id: MessageId,
    /// When it is read.
    pub kind: MailKind,
    /// Its text.
    pub text: String,
}

/// Use of messages that were taken from the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// They go back to the editor.
    GiveBack,
    /// They are the next prompt.
    Prompt,
}

/// Outcome of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It succeeded.
    Well,
    /// It was stopped.
    Interrupted,
    /// A process in the background continues it.
    Left,
    /// It failed: error and hint.
    Failed(String, Option<String>),
}
