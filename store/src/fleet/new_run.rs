//! What is queued.

use std::path::PathBuf;
use std::time::Duration;

use ah_conversation::{MessageId, SessionId};

/// A run to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// The session, which need not exist.
    pub session: SessionId,
    /// Id of the message with the prompt.
    pub message: MessageId,
    /// The prompt.
    pub prompt: String,
    /// The folder to work in, on the worker's machine.
    pub folder: PathBuf,
    /// The model; that of the worker's settings if `None`.
    pub model: Option<String>,
    /// Runs of higher priority begin first.
    pub priority: i32,
    /// How long it waits at least.
    pub delay: Duration,
    /// How often it may be attempted, hand-overs not counted.
    pub attempts: u32,
    /// How long a question of the run waits for its answer; nobody is asked if `None`.
    pub answer_within: Option<Duration>,
}
