//! Port: sessions, and runs of them.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Knows the sessions, and runs prompts. Errors are texts for the client.
pub trait Sessions: Send + Sync + 'static {
    /// Returns the sessions as JSON objects with an `id` and the number of their `messages`, the last written first.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn list(&self) -> Result<Vec<Value>, String>;

    /// Opens the transcript of the session with exactly this id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn transcript(&self, session: &str) -> Result<Option<Box<dyn Transcript>>, String>;

    /// Calls `changed` after each change of a session, whoever makes it, until it returns false.
    fn follow(&self, session: &str, changed: Box<dyn Fn() -> bool + Send>);

    /// Starts a run. What prevents it comes as its end.
    fn begin(&self, wanted: Wanted) -> Running;

    /// Queues a message that a running session takes before its next step.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    fn steer(&self, session: &str, message: &str) -> Result<(), String>;

    /// Has a session driven by a host, on a thread of its own. Returns what receives the end: why it failed, if it did.
    fn drive(&self, driven: Driven, streams: HostStreams) -> oneshot::Receiver<Result<(), String>>;

    /// Is told that a run needs somebody while nobody watches it.
    fn call_for(&self, _session: &str, _need: Need<'_>) {}
}

/// A session as a host wants to drive it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Driven {
    /// Id of the session to continue; `None` for a new one.
    pub resume: Option<String>,
    /// Whether it goes on in a copy of that session.
    pub fork_session: bool,
    /// The model; `None` for that of the session or of the settings.
    pub model: Option<String>,
    /// Whether the host wants answers piece by piece.
    pub include_partial_messages: bool,
}

/// What a host and a session say to each other by the protocol of the Agent SDKs: a JSON message a line.
pub struct HostStreams {
    /// Lines of the host, until it is gone.
    pub input: Box<dyn Read + Send>,
    /// Lines for the host, each written at once.
    pub output: Box<dyn Write + Send>,
}

/// What a run needs somebody for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Need<'a> {
    /// To answer this question.
    Answer(&'a Question),
    /// To see that it has ended.
    End(&'a Ended),
}

/// The messages of a session, as they are now.
pub trait Transcript: Send {
    /// Returns the id of the current message; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn current(&mut self) -> Result<Option<String>, String>;

    /// Returns a message; `None` if there is none with this id.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn message(&mut self, id: &str) -> Result<Option<Entry>, String>;

    /// Returns at most `most` nodes of the tree in the order of storing, without the first `from`.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn tree(&mut self, from: usize, most: usize) -> Result<Nodes, String>;

    /// Returns the whole output of a call, as text; `None` if there is no such call. What is longer than a few MiB is cut.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    fn output(&mut self, call: &str) -> Result<Option<String>, String>;
}

/// A part of a session's tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nodes {
    /// The session's name, if it has one.
    pub name: Option<String>,
    /// Id of the current message.
    pub current: Option<String>,
    /// Messages in the order of storing.
    pub nodes: Vec<Node>,
}

/// A message as the tree shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Id.
    pub id: String,
    /// Id of the message before it.
    pub parent: Option<String>,
    /// Its number on its branch, from 0.
    pub seq: u32,
    /// `user` or `assistant`.
    pub role: &'static str,
    /// Why it is in the conversation: `prompt`, `results`, `steering` …
    pub origin: &'static str,
    /// The beginning of what it says.
    pub text: String,
    /// Names of the tools that it calls.
    pub tools: Vec<String>,
    /// Id of the subagent whose conversation it belongs to.
    pub agent: Option<String>,
    /// Time of storing, in milliseconds since 1970.
    pub at_ms: i64,
    /// What the answer used; `None` for messages that no model wrote.
    pub used: Option<Used>,
}

/// What an answer of a model used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Used {
    /// The model.
    pub model: String,
    /// Tokens of the request, all of them.
    pub input_tokens: u64,
    /// Of these, the ones that were read from the cache.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Cost in US dollars, if it is known.
    pub cost_usd: Option<f64>,
    /// Time from the request to the end of the answer, in milliseconds.
    pub latency_ms: u64,
}

/// A message of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Id.
    pub id: String,
    /// Id of the message before it.
    pub parent: Option<String>,
    /// Its number on its branch, from 0.
    pub seq: u32,
    /// Whether the model has said it.
    pub is_answer: bool,
    /// All of it, as a JSON object on one line.
    pub json: String,
}

/// A run as a client wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The prompt.
    pub prompt: String,
    /// Id of the session to continue; `None` for a new one.
    pub session: Option<String>,
    /// The message after which it goes on; `None` for the current one.
    pub at: Option<At>,
    /// Whether it goes on in a copy of that session.
    pub is_fork: bool,
    /// The model; `None` for that of the session or of the settings.
    pub model: Option<String>,
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
    /// Something was said or done: the transcript may have grown.
    Step,
    /// The model begins an answer; what came of the one before without becoming a message is void.
    Answering,
    /// A piece of the answer.
    Piece(Piece),
    /// A question, and where its answer goes: the text for each pick, or `None` if nobody answers.
    Asked(Question, oneshot::Sender<Option<BTreeMap<String, String>>>),
    /// The end.
    Ended(Ended),
    /// It has not begun; nothing comes after this.
    Refused(Refusal),
}

/// Why a run has not begun, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another process has the session open.
    Busy(String),
    /// The session has no such message.
    Missing(String),
    /// Anything else.
    Failed(String),
}

/// A piece of an answer in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Number of its block in the answer, from 0.
    pub block: usize,
    /// What the block is.
    pub kind: BlockKind,
    /// Text to append to the block.
    pub text: String,
}

/// What a block of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Text.
    Text,
    /// Thinking.
    Thinking,
    /// A call, by the name of its tool.
    Call,
}

/// A question of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Number that names it, unique in its server; 0 until it is asked.
    pub id: u64,
    /// What it is about; empty if the picks say it.
    pub about: String,
    /// What is to be picked.
    pub picks: Vec<Pick>,
}

/// A choice to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pick {
    /// The question, which also names it in an answer.
    pub question: String,
    /// Short title.
    pub header: String,
    /// Whether several options may be picked.
    pub is_multiple: bool,
    /// The options; another text is an answer as well, unless this is a permission.
    pub options: Vec<Offer>,
}

/// An option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// Text that picks it.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
}
