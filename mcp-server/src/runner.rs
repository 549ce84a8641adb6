//! Port: runs of the engine and its sessions.

use std::collections::BTreeMap;

use ah_conversation::Question;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Runs prompts, and knows the sessions.
pub trait Runner: Send + Sync + 'static {
    /// Starts a run. What prevents it comes as its end.
    fn begin(&self, wanted: Wanted) -> Running;

    /// Queues a message that a running session takes before its next step.
    ///
    /// # Errors
    ///
    /// If there is no such session, or it cannot be stored; the text is for the caller.
    fn steer(&self, session: &str, message: &str) -> Result<(), String>;

    /// Returns the sessions, the last written first.
    ///
    /// # Errors
    ///
    /// If they cannot be listed; the text is for the caller.
    fn sessions(&self) -> Result<Vec<Listed>, String>;

    /// Returns the conversation of a session; `None` if there is none with exactly this id.
    ///
    /// # Errors
    ///
    /// If it cannot be read; the text is for the caller.
    fn read(&self, session: &str) -> Result<Option<Opened>, String>;
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// By its number, on the current branch.
    Number(u32),
    /// By its id, on any branch.
    Message(String),
}

/// A run as a client wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The prompt.
    pub prompt: String,
    /// Id of the session to continue; `None` for a new one.
    pub session: Option<String>,
    /// Whether it goes on in a copy of the session.
    pub is_fork: bool,
    /// The last message of the session that counts; `None` for the current one.
    pub at: Option<At>,
    /// The model; `None` for that of the session or of the settings.
    pub model: Option<String>,
}

/// A run. Dropping it ends it; all messages so far are stored.
#[derive(Debug)]
pub struct Running {
    /// What happens; [`RunEvent::Ended`] is the last.
    pub events: mpsc::UnboundedReceiver<RunEvent>,
    /// Interrupts it when cancelled; its end still comes.
    pub stop: CancellationToken,
}

/// What happens in a run.
#[derive(Debug)]
pub enum RunEvent {
    /// The session is open; its id.
    Began(String),
    /// A step, in words.
    Step(String),
    /// The model streams its answer: an event in the form of the Messages API. Only if the runs were asked for it.
    Streamed(Value),
    /// A question, and where its answer goes: the text for each choice, or `None` if nobody answers.
    Asked(Question, oneshot::Sender<Option<BTreeMap<String, String>>>),
    /// The end.
    Ended(Ended),
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ended {
    /// The last answer of the model, or why the run failed.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether it was interrupted.
    pub is_stopped: bool,
    /// Number of turns.
    pub turns: u64,
    /// Cost in US dollars, if it is known.
    pub cost_usd: Option<f64>,
    /// Why it has not begun, if a client may want to know.
    pub refusal: Option<Refusal>,
}

/// Why a run has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another process has the session open.
    Busy,
    /// The session has no such message.
    Missing,
}

/// A session in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Id.
    pub id: String,
    /// Its name, or its first words.
    pub title: String,
    /// Time of the last message, in RFC 3339.
    pub updated: String,
}

/// The conversation of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// As Markdown.
    pub markdown: String,
}
