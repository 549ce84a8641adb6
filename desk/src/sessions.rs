//! Port: the sessions of this machine.

use std::path::{Path, PathBuf};

use ah_agent::Audience;
use ah_conversation::{PermissionMode, SessionId, Time};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::files::{FileLeft, FilesAt, FilesDiff};
use crate::open::{Choices, OpenSession, Prompt};
use crate::refusal::Refusal;
use crate::run::Running;
use crate::transcript::Transcript;

/// Knows the sessions, opens them, and runs prompts.
#[async_trait]
pub trait Sessions: Send + Sync + 'static {
    /// Returns the stored sessions, the last written first, without those that cannot be read.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn list(&self, scope: Scope<'_>) -> Result<Vec<SessionSummary>, Refusal>;

    /// Opens the transcript of the session with exactly this id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn transcript(&self, id: &str) -> Result<Option<Box<dyn Transcript>>, Refusal>;

    /// Calls `changed` after each change of a session, whoever makes it, until it returns false.
    fn follow(&self, id: &str, changed: Box<dyn Fn() -> bool + Send>);

    /// Opens a session for those who see it and are asked by it, who drive it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened; no request was made to the model then.
    async fn open(&self, start: &Start, audience: Audience) -> Result<OpenSession, Refusal>;

    /// Starts a run. What prevents it comes as [`RunEvent::Refused`](crate::RunEvent::Refused).
    fn begin(&self, start: Start, prompt: Prompt) -> Running;

    /// Queues a message that a running session takes before its next step; returns the id that it will have.
    ///
    /// # Errors
    ///
    /// If there is no such session, or it cannot be stored.
    fn send(&self, id: &str, message: &str) -> Result<String, Refusal>;

    /// Returns the messages that wait for a session, oldest first.
    ///
    /// # Errors
    ///
    /// If there is no such session, or they cannot be read.
    fn waiting(&self, id: &str) -> Result<Vec<Waiting>, Refusal>;

    /// Takes a message back that waits for a session; returns whether it still did.
    ///
    /// # Errors
    ///
    /// If there is no such session, or its queue cannot be written.
    fn withdraw(&self, id: &str, message: &str) -> Result<bool, Refusal>;

    /// Gives a session a name.
    ///
    /// # Errors
    ///
    /// If there is no such session, another one has the name, or it is in use.
    async fn rename(&self, id: &str, name: &str) -> Result<(), Refusal>;

    /// Returns how the files that a session has changed differ from another state of them; `None` if there is no such state.
    ///
    /// # Errors
    ///
    /// If there is no such session, or it is in use.
    async fn files(&self, id: &str, at: FilesAt) -> Result<Option<FilesDiff>, Refusal>;

    /// Gives the files of a session another state, which the user was shown as `plan`. Returns the paths that could not be
    /// restored, with the reasons; `None` if the plan is another one by now, and nothing was done.
    ///
    /// # Errors
    ///
    /// If there is no such session, it is in use, or what is there now cannot be stored.
    async fn restore(
        &self,
        id: &str,
        at: FilesAt,
        plan: &str,
    ) -> Result<Option<Vec<FileLeft>>, Refusal>;

    /// Returns what can be chosen for a run in the desk's own folder.
    ///
    /// # Errors
    ///
    /// If the settings cannot be read.
    fn choices(&self) -> Result<Choices, Refusal>;

    /// Removes a stored session of any folder.
    ///
    /// # Errors
    ///
    /// If there is none with exactly this id, or it cannot be removed: it may be in use.
    fn remove(&self, id: &str) -> Result<(), Refusal>;

    /// Whether the model can be asked: whether there is a key for it, if it needs one.
    fn has_key(&self) -> bool;
}

/// Where sessions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// In the desk's own folder.
    Here,
    /// In this folder.
    Folder(&'a Path),
    /// In all folders in which the user has made some.
    Everywhere,
}

/// A stored session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Id.
    pub id: SessionId,
    /// Its folder, if that was recorded.
    pub folder: Option<PathBuf>,
    /// Its name, or its first words, as they were written.
    pub title: String,
    /// Whether the user has made it, or continued it: one that came with a folder is somebody else's until then.
    pub is_known: bool,
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

/// A message that waits for the next step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The id that it has in the conversation once it is read.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// A session as a client wants it, and the choices that it starts with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Start {
    /// The session.
    pub which: Which,
    /// Working directory, an absolute path; `None` for that of the desk.
    pub folder: Option<PathBuf>,
    /// Further working directories.
    pub directories: Vec<PathBuf>,
    /// MCP servers of the client by name, in the form of the settings. They run outside of the sandbox.
    pub servers: Map<String, Value>,
    /// What the model is told besides, or in the place of, the usual.
    pub system_prompt: Option<SystemPrompt>,
    /// The model; `None` for that of the session or of the settings.
    pub model: Option<String>,
    /// The permission mode; `None` for that of the settings.
    pub mode: Option<PermissionMode>,
    /// Whether a run that another process has left is resumed, in the place of a prompt.
    pub resumes: bool,
    /// The model of this run alone, as the command of its prompt names it: later runs of the session have the session's.
    pub lent_model: Option<String>,
}

/// A system prompt of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPrompt {
    /// Its text.
    pub text: String,
    /// Whether it stands in the place of the built-in one.
    pub replaces: bool,
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
