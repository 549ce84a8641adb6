//! Port: opens sessions for a host.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::agents::Agents;
use ah_agent::hooks::Hook;
use ah_agent::{Audience, Session};
use ah_conversation::{Model, Models, Servers};
use ah_desk::{Command, Offered, Place, Refusal};
use async_trait::async_trait;
use serde_json::Value;

use crate::stream_json::{Initialize, Pipes};

/// Opens a session once the host has sent its options.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Returns the program's description, which needs no session.
    fn introduction(&self) -> Introduction;

    /// Opens the configured session with the host's options.
    ///
    /// # Errors
    /// If it cannot be opened; no request was made to the model then.
    async fn open(&self, setting: Setting<'_>) -> Result<Engaged, Refusal>;
}

/// Parts of a session that come from the host.
pub struct Setting<'a> {
    /// Options of `initialize`; the defaults if the host sent none.
    pub wishes: &'a Initialize,
    /// Whether a new session is wanted in the place of the one that was opened before.
    pub is_cleared: bool,
    /// The host, which sees the session and is asked for permissions.
    pub audience: Audience,
    /// Hooks of the host, called after those of the settings.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Connections to MCP servers that run in the host.
    pub pipes: Pipes,
}

/// An open session.
pub struct Engaged {
    /// The session.
    pub session: Session,
    /// Its UUID.
    pub session_id: String,
    /// Working directory.
    pub cwd: PathBuf,
    /// What started the program: `cli`, `sdk-cli`, `sdk-py` …
    pub entrypoint: String,
    /// Settings of the files in force: source in the SDKs' words and content, the lowest first.
    pub settings: Vec<(String, Value)>,
    /// Models to switch to.
    pub models: Arc<dyn Models>,
    /// The place that it works in.
    pub place: Arc<dyn Place>,
    /// Value of `--max-turns`, for the error text.
    pub max_turns: Option<u32>,
    /// Value of `--max-budget-usd`, for the error text.
    pub max_budget_usd: Option<f64>,
    /// Upper limit of retries per request.
    pub max_retries: u32,
    /// How long tasks in the background are waited for at the end of the input; `None` without a limit.
    pub task_patience: Option<Duration>,
    /// Source of the model's API key.
    pub api_key_source: String,
    /// File of the transcript that the SDKs list; `None` if none is to be written.
    pub transcript_path: Option<PathBuf>,
    /// Names of skills.
    pub skills: Vec<String>,
    /// Plugins: name and folder.
    pub plugins: Vec<(String, PathBuf)>,
}

/// Description of the program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Introduction {
    /// Version of the original program that this one replaces, with our name and version.
    pub version: String,
    /// Commands and skills that a prompt may begin with.
    pub commands: Vec<Command>,
    /// Models that have a short name.
    pub models: Vec<Offered>,
    /// Plugins: name and folder.
    pub plugins: Vec<(String, PathBuf)>,
    /// Output style in force.
    pub style: String,
    /// Names of all output styles.
    pub styles: Vec<String>,
    /// Subagent types, without those that the host defines.
    pub agents: Agents,
    /// Account information, a JSON object.
    pub account: Value,
}

impl Engaged {
    /// Returns the subagent types.
    pub(crate) fn agents(&self) -> Agents {
        let subagents = self.session.tools().subagents();
        subagents.map_or_else(Agents::default, |subagents| subagents.agents().clone())
    }

    /// Returns the MCP servers.
    pub(crate) fn servers(&self) -> Option<&Arc<dyn Servers>> {
        self.session.tools().servers()
    }

    /// Returns the description of a model, the current or another one.
    pub(crate) fn model(&self, provider: &str, name: &str) -> Model {
        let asked = self.session.model();
        if (asked.provider.as_str(), asked.name.as_str()) == (provider, name) {
            asked.clone()
        } else {
            self.models.describe(provider, name)
        }
    }
}
