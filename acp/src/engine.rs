//! Ports: opens the sessions that an editor wants, and expands their prompts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::{Error, ErrorCode};
use ah_agent::{Audience, Session};
use ah_conversation::{ContentBlock, Models};
use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::Prompt;

/// Opens sessions for an editor.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Opens a session, a new one or one of before.
    ///
    /// # Errors
    ///
    /// If it cannot be opened; no request was made to the model then.
    async fn open(&self, wanted: &Wanted, audience: Audience) -> Result<Opened, Refusal>;

    /// Returns the stored sessions of a folder, or of all folders, the last written first.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    fn list(&self, folder: Option<&Path>) -> Result<Vec<Listed>, Refusal>;

    /// Removes a stored session.
    ///
    /// # Errors
    ///
    /// If there is none with this id, or it cannot be removed: it may be in use.
    fn delete(&self, id: &str) -> Result<(), Refusal>;

    /// Whether the model can be asked: whether there is a key for it, if it needs one.
    fn has_key(&self) -> bool;
}

/// A session as an editor wants it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// Working directory, an absolute path.
    pub folder: PathBuf,
    /// Further working directories.
    pub directories: Vec<PathBuf>,
    /// MCP servers by name, in the form of the settings.
    pub servers: Map<String, Value>,
    /// What the editor wants the model to be told besides, or in the place of, the usual.
    pub system_prompt: Option<SystemPrompt>,
    /// Id of the stored session; `None` for a new one.
    pub stored: Option<String>,
    /// Whether to go on in a copy of the stored session.
    pub forks: bool,
}

/// A system prompt of an editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPrompt {
    /// Its text.
    pub text: String,
    /// Whether it stands in the place of the built-in one.
    pub replaces: bool,
}

/// An open session.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// Its id.
    pub id: String,
    /// Working directory.
    pub folder: PathBuf,
    /// Models to switch to.
    pub models: Arc<dyn Models>,
    /// The models that are offered by name.
    pub offered: Vec<Offered>,
    /// Commands and skills that a prompt may begin with.
    pub commands: Vec<Command>,
    /// The place that it works in.
    pub project: Box<dyn Project>,
}

/// The place that a session works in.
#[async_trait]
pub trait Project: Send + Sync {
    /// Returns the content of a prompt: its commands, skills and files expanded.
    ///
    /// # Errors
    ///
    /// If something that it names cannot be read.
    async fn content(&self, prompt: Prompt) -> Result<Vec<ContentBlock>, Refusal>;

    /// Records that the session continues with this model.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    async fn keep_model(&self, name: &str) -> Result<(), Refusal>;

    /// Gives a run words that it takes before its next step.
    ///
    /// # Errors
    ///
    /// If they cannot be stored.
    fn steer(&self, words: &str) -> Result<(), Refusal>;

    /// Returns commands that are known only some time after the session was opened: prompts of its servers.
    async fn more_commands(&self) -> Vec<Command>;

    /// Gives the stored session up. One without messages is removed.
    async fn leave(&self);
}

/// A command or a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its arguments, if it has any.
    pub hint: Option<String>,
}

/// A model that is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    /// The short name by which it is chosen.
    pub alias: String,
    /// Its full name.
    pub name: String,
}

/// A stored session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Id.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its name, or the first words.
    pub title: String,
    /// Time of the last message, in RFC 3339.
    pub updated: String,
}

/// Error that prevents a session or a prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Error text for the user.
    pub text: String,
    /// Whether it is that there is no key for the model.
    pub is_without_key: bool,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let code: ErrorCode = match refusal.is_without_key {
            true => Self::auth_required().code,
            false => Self::internal_error().code,
        };
        Self::new(code, refusal.text)
    }
}
