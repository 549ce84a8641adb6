//! Port: whoever puts sessions together for a host that speaks a protocol.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::hooks::Hook;
use ah_agent::{Frontend, Session};
use ah_conversation::{Clock, MessageId, Model, Models, Servers};
use async_trait::async_trait;
use serde_json::Value;

use crate::stream_json::{Initialize, Pipes};

/// Puts a session together once a host has said what it wants.
#[async_trait]
pub trait Engine: Send + Sync {
    /// What the program tells of itself before any session.
    fn introduction(&self) -> Introduction;

    /// Opens the session that the command line chooses, as the host wants it.
    ///
    /// # Errors
    /// Where it cannot be opened; nothing was asked then.
    async fn open(&self, setting: Setting<'_>) -> Result<Engaged, Refusal>;

    /// A prompt with what it calls by name in its place: commands, skills, files.
    ///
    /// # Errors
    /// Where something it names cannot be had.
    async fn expand(&self, prompt: &str) -> Result<String, Refusal>;
}

/// What a session is put together with.
pub struct Setting<'a> {
    /// What the host wants, where it has said so.
    pub wishes: &'a Initialize,
    /// Where the session is shown, and who is asked.
    pub frontend: Arc<dyn Frontend>,
    /// Callbacks of the host, asked behind the hooks of the settings.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// The way to MCP servers that live in the host.
    pub pipes: Pipes,
}

/// A session that was put together.
pub struct Engaged {
    /// The session.
    pub session: Session,
    /// Its id, as programs know it.
    pub session_id: String,
    /// Where it works.
    pub cwd: PathBuf,
    /// Other models that can be asked.
    pub models: Arc<dyn Models>,
    /// The MCP servers.
    pub servers: Option<Arc<dyn Servers>>,
    /// What `--max-turns` said, for the words of the error.
    pub max_turns: Option<u32>,
    /// What `--max-budget-usd` said, likewise.
    pub max_budget_usd: Option<f64>,
    /// How often a request is sent again at most.
    pub max_retries: u32,
    /// Where the key for the model came from.
    pub api_key_source: String,
    /// Where the conversation is written for the SDKs to list; `None` where nothing is to be left behind.
    pub transcript_path: Option<PathBuf>,
    /// Names of skills.
    pub skills: Vec<String>,
    /// Plugins: what each is called, and where it is.
    pub plugins: Vec<(String, PathBuf)>,
    /// Kinds of subagents.
    pub agents: Vec<AgentInfo>,
}

/// A kind of subagent, as a host is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// What it is called by.
    pub name: String,
    /// When it is to be used.
    pub description: String,
    /// The model that it asks, where its definition says so.
    pub model: Option<String>,
}

/// Why a session cannot be opened, or a prompt cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Why, for whoever is at the other end.
    pub text: String,
}

/// What the program tells of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Introduction {
    /// The version of the protocol's program that this one can stand in for, and its own name and version.
    pub version: String,
    /// Commands: name, description, hint at the arguments.
    pub commands: Vec<(String, String, String)>,
    /// Models: what is typed, what is shown, what it is.
    pub models: Vec<(String, String, String)>,
    /// Kinds of subagents, but for those that a host brings along.
    pub agents: Vec<AgentInfo>,
    /// What is known of who pays, an object.
    pub account: Value,
}

/// Ids that a protocol needs besides those of the messages, given so that tests repeat them.
pub trait Ids: Clock {
    /// A UUID that nothing else has.
    fn fresh(&self) -> String;

    /// The UUID that stands for a message.
    fn of(&self, message: &MessageId) -> String;
}

impl Engaged {
    /// What is known of a model: of the one that is asked now, or of another.
    pub(crate) fn model(&self, provider: &str, name: &str) -> Model {
        let asked = self.session.model();
        match (asked.provider.as_str(), asked.name.as_str()) == (provider, name) {
            true => asked.clone(),
            false => self.models.describe(provider, name),
        }
    }
}
