//! What is queued.

use std::path::PathBuf;
use std::time::Duration;

use ah_conversation::{MessageId, SessionId};

/// Longest title of a run, in characters.
const TITLE: usize = 80;

/// A run to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// The session, which need not exist.
    pub session: SessionId,
    /// Id of the message with the prompt.
    pub message: MessageId,
    /// The prompt; for a command, what it is.
    pub prompt: String,
    /// Words of a command line of this program to run in the place of an agent; none for a prompt.
    pub command: Vec<String>,
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

impl NewRun {
    /// Returns what a list shows of it: the beginning of the prompt's first line.
    pub fn title(&self) -> String {
        let lines = self.prompt.lines().map(str::trim);
        let first = lines.into_iter().find(|line| !line.is_empty());
        first.unwrap_or_default().chars().take(TITLE).collect()
    }
}
