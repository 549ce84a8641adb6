//! Port: the sessions of this machine.

use ah_conversation::{SessionId, StoreError, Time};
use jiff::Timestamp;
use serde::Deserialize;

use crate::{Running, Transcript};

/// Knows the sessions, and runs prompts.
pub trait Sessions: Send + Sync + 'static {
    /// Returns the sessions of the desk's folder, the last written first, without those that cannot be read.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn list(&self) -> Result<Vec<SessionSummary>, Refusal>;

    /// Opens the transcript of the session with exactly this id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn transcript(&self, id: &str) -> Result<Option<Box<dyn Transcript>>, Refusal>;

    /// Calls `changed` after each change of a session, whoever makes it, until it returns false.
    fn follow(&self, id: &str, changed: Box<dyn Fn() -> bool + Send>);

    /// Starts a run. What prevents it comes as [`RunEvent::Refused`](crate::RunEvent::Refused).
    fn begin(&self, start: Start, prompt: String) -> Running;

    /// Queues a message that a running session takes before its next step.
    ///
    /// # Errors
    ///
    /// If there is no such session, or it cannot be stored.
    fn send(&self, id: &str, message: &str) -> Result<(), Refusal>;
}

/// A stored session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Id.
    pub id: SessionId,
    /// Its name, or its first words, as they were written.
    pub title: String,
    /// Number of messages on all branches.
    pub messages: u64,
    /// Input and output tokens on all branches.
    pub tokens: u64,
    /// Time of the last message.
    pub updated: Time,
}

impl SessionSummary {
    /// Returns the time of the last message in RFC 3339.
    pub fn updated_text(&self) -> String {
        let moment = Timestamp::from_millisecond(self.updated.0);
        moment.unwrap_or_default().to_string()
    }
}

/// A session as a client wants it, and the choices that it starts with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Start {
    /// The session.
    pub which: Which,
    /// The model; `None` for that of the session or of the settings.
    pub model: Option<String>,
}

/// The chosen session. The message is the last one that counts; `None` for the current one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Which {
    /// A new one.
    #[default]
    New,
    /// The stored one with this id.
    Resume(String, Option<At>),
    /// A copy of the stored one with this id.
    Fork(String, Option<At>),
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum At {
    /// By its number, on the current branch.
    Number(u32),
    /// By its id, on any branch.
    Message(String),
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The reason in words, for the client.
    pub text: String,
    /// What kind of reason it is.
    pub kind: RefusalKind,
}

/// Kinds of reasons by which clients decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Another process has the session open.
    Busy,
    /// The session has no such message.
    Missing,
    /// Anything else.
    Failed,
}

impl Refusal {
    /// Returns a refusal for any other reason.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: RefusalKind::Failed,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::failed(error.to_string())
    }
}
