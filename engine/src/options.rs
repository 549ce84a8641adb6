//! How a query is to run: what the official SDKs call their options, under our spelling.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use ah_agent::hooks::HookEvent;
use ah_config::layers::{SettingsSource, Sources};
use ah_config::overrides::{McpSource, SystemPromptSource};
use ah_config::trust::Reason;
use ah_config::{Error, Overrides, parse_rules};
use ah_conversation::{PermissionMode, PermissionUpdate, Provider, Tool};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::plan::{SessionChoice, SessionPlan};

/// A future that a callback gives.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Decides whether a call may happen that no rule decides.
pub type CanUseTool = Arc<dyn Fn(ToolRequest) -> BoxFuture<Decision> + Send + Sync>;

/// How a query is to run. What is left out is as the settings say, and else as for `ah -p`.
#[derive(Clone, Default)]
pub struct Options {
    /// The model, by any name that `--model` takes.
    pub model: Option<String>,
    /// The model that answers where the other cannot.
    pub fallback_model: Option<String>,
    /// What the model is told of its task.
    pub system_prompt: SystemPrompt,
    /// How many model calls there are at most.
    pub max_turns: Option<u32>,
    /// How many US dollars it may cost.
    pub max_budget_usd: Option<f64>,
    /// How many tokens of thought there are at most; 0 turns thinking off.
    pub max_thinking_tokens: Option<u32>,
    /// The only tools there are, of those built in.
    pub tools: Option<Vec<String>>,
    /// Rules for calls that need no question.
    pub allowed_tools: Vec<String>,
    /// Rules for calls that are denied.
    pub disallowed_tools: Vec<String>,
    /// Tools of one's own; they take the place of others of their name.
    pub own_tools: Vec<Arc<dyn Tool>>,
    /// A model of one's own, in the place of `model`.
    pub provider: Option<Arc<dyn Provider>>,
    /// The subagent, by name, as which the conversation itself runs.
    pub agent: Option<String>,
    /// Subagents by name, as the official SDKs define them.
    pub agents: Map<String, Value>,
    /// The working directory, if not that of the process.
    pub cwd: Option<PathBuf>,
    /// Other directories to work in.
    pub additional_directories: Vec<PathBuf>,
    /// The UUID that a new session gets.
    pub session_id: Option<String>,
    /// The session to go on with.
    pub resume: Option<String>,
    /// Go on in a copy of it.
    pub fork_session: bool,
    /// Go on with the session that was used last.
    pub continue_last: bool,
    /// Whether nothing is kept on disk.
    pub ephemeral: bool,
    /// What is allowed where no rule says otherwise.
    pub permission_mode: Option<PermissionMode>,
    /// Who is asked about other calls; where nobody is, they are denied.
    pub can_use_tool: Option<CanUseTool>,
    /// Who is told of what happens, and may have a say in it.
    pub hooks: Vec<HookCallback>,
    /// MCP servers by name, as in `.mcp.json`.
    pub mcp_servers: Map<String, Value>,
    /// Whether answers are shown as they arrive.
    pub include_partial_messages: bool,
    /// Which settings files count: `user`, `project`, `local`. None of them, where it is an empty list.
    pub setting_sources: Option<Vec<String>>,
    /// More settings, an object as in a settings file.
    pub settings: Option<Value>,
    /// Features of the API to ask for.
    pub betas: Vec<String>,
    /// Variables on top of those of the process: keys, base addresses.
    pub env: BTreeMap<String, String>,
    /// Whether the query has a log of its own, with all that is worth knowing where something goes wrong. Without one, what
    /// happens goes to the subscriber of `tracing` that the program has set.
    pub debug: bool,
    /// The file at whose end that log is written, in the place of standard error; with it there is a log.
    pub debug_file: Option<PathBuf>,
    /// Ends the run when it is cancelled; [`Query::exit_reason`](super::Query::exit_reason) is `aborted` then.
    pub abort: CancellationToken,
}

/// The system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    /// The one that `ah` has.
    #[default]
    BuiltIn,
    /// The one that `ah` has, and this behind it.
    Appended(String),
    /// This one.
    Own(String),
}

/// A call that somebody is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The tool.
    pub tool_name: String,
    /// What it is called with.
    pub input: Map<String, Value>,
    /// The id of the call.
    pub tool_use_id: String,
    /// What the user could save so as not to be asked again.
    pub suggestions: Vec<PermissionUpdate>,
}

/// What is said of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It may happen.
    Allow,
    /// It may happen with another input, and the permissions change.
    AllowWith {
        /// The input, if another one.
        input: Option<Map<String, Value>>,
        /// What changes.
        updates: Vec<PermissionUpdate>,
    },
    /// It may not happen, and the model is told why.
    Deny {
        /// Why.
        message: String,
        /// Whether the run ends.
        interrupt: bool,
    },
}

impl Decision {
    /// In the words of the protocol.
    pub(super) fn told(self, asked: Map<String, Value>) -> Value {
        match self {
            Self::Allow => json!({"behavior": "allow", "updatedInput": asked}),
            Self::AllowWith { input, updates } => json!({
                "behavior": "allow",
                "updatedInput": input.unwrap_or(asked),
                "updatedPermissions": updates,
            }),
            Self::Deny { message, interrupt } => {
                json!({"behavior": "deny", "message": message, "interrupt": interrupt})
            }
        }
    }
}

/// Somebody who is asked when something happens.
#[derive(Clone)]
pub struct HookCallback {
    /// When.
    pub event: HookEvent,
    /// Which tools, or which kinds of the event: a name, several with `|`, a pattern; all, where it is `None`.
    pub matcher: Option<String>,
    /// What is asked; it answers with the object that a hook command would print.
    pub ask: Arc<dyn Fn(HookInput) -> BoxFuture<Value> + Send + Sync>,
}

/// What a hook is told.
#[derive(Debug, Clone, PartialEq)]
pub struct HookInput {
    /// The payload that a hook command reads.
    pub payload: Value,
    /// The call it is about, if it is about one.
    pub tool_use_id: Option<String>,
}

impl Options {
    /// Returns the overrides that they mean.
    pub(super) fn overrides(&self) -> Result<Overrides, Error> {
        let mut overrides = Overrides {
            model: self.model.clone(),
            fallback_model: self.fallback_model.clone(),
            max_thinking_tokens: self.max_thinking_tokens,
            allow: parse_rules(&self.allowed_tools)?,
            deny: parse_rules(&self.disallowed_tools)?,
            permission_mode: self.permission_mode,
            directories: self.additional_directories.clone(),
            // The program that embeds the engine has chosen the folder.
            trust: Some(Reason::Host),
            ..Overrides::default()
        };
        if !self.mcp_servers.is_empty() {
            let servers = McpSource::of_values("mcp_servers", &self.mcp_servers);
            overrides.mcp_servers = vec![servers];
        }
        if let Some(value) = &self.settings {
            overrides.settings = Some(SettingsSource::of_value("settings", value)?);
        }
        if let Some(names) = &self.setting_sources {
            overrides.setting_sources = Some(Sources::parse(Some(&names.join(",")))?);
        }
        let run = &mut overrides.run;
        run.limits.max_turns = self.max_turns;
        run.limits.max_budget_usd = self.max_budget_usd;
        match &self.system_prompt {
            SystemPrompt::BuiltIn => {}
            SystemPrompt::Appended(text) => run.prompt.append_system_prompt = Some(text.clone()),
            SystemPrompt::Own(text) => {
                run.prompt.system_prompt = Some(SystemPromptSource::Text(text.clone()));
            }
        }
        run.prompt.agent.clone_from(&self.agent);
        run.prompt.agents.clone_from(&self.agents);
        run.tools.only.clone_from(&self.tools);
        run.host.decides_permissions = self.can_use_tool.is_some();
        run.host.partial_messages = self.include_partial_messages;
        run.betas.clone_from(&self.betas);
        run.is_ephemeral = self.ephemeral;
        Ok(overrides)
    }

    /// Returns the session that they choose.
    pub(super) fn plan(&self) -> Result<SessionPlan, Error> {
        let resumed = self.resume.clone().filter(|id| !id.is_empty());
        let choice = match resumed {
            Some(id) => SessionChoice::Find(id),
            None if self.continue_last || self.resume.is_some() => SessionChoice::LastUsed,
            None => SessionChoice::New,
        };
        let plan = SessionPlan {
            choice,
            fork: self.fork_session,
            uuid: self.session_id.clone(),
            at: None,
            ephemeral: self.ephemeral,
        };
        plan.checked()
    }
}
