//! Choices of the caller for a run, which take precedence over settings and environment.
//!
//! The command line, the library's options and a host's `initialize` request each build an [`Overrides`] of typed
//! values; [`Config::resolve`](crate::Config::resolve) consumes it. Nothing below it sees an option as it was typed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ah_agent::prompt::PromptPart;
use ah_conversation::{Effort, PermissionMode, Rule};
use ah_mcp::ServerEntry;
use ah_sandbox::{Authority, Grant};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::concurrency::Concurrency;
use crate::layers::{SettingsSource, Sources};
use crate::profile::Profile;
use crate::settings::check::CheckSettings;
use crate::tier::SandboxTier;
use crate::trust::Reason;

/// Choices for one run. Those in [`run`](Overrides::run) have no setting; each of the others overrides the setting of
/// the same meaning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// The model's name.
    pub model: Option<String>,
    /// Settings that nothing overrides, unless a file of an administrator exists.
    pub managed_settings: Option<SettingsSource>,
    /// The fallback models if the first stays overloaded or fails, in order; none if empty.
    pub fallback_models: Vec<String>,
    /// Reasoning effort of the model.
    pub effort: Option<Effort>,
    /// The thinking budget in tokens; 0 turns thinking off.
    pub max_thinking_tokens: Option<u32>,
    /// Concurrency of the tool calls of one answer.
    pub tool_concurrency: Option<Concurrency>,
    /// Rules for allowed calls.
    pub allow: Vec<Rule>,
    /// Rules for calls that are asked about.
    pub ask: Vec<Rule>,
    /// Rules for denied calls.
    pub deny: Vec<Rule>,
    /// The permission mode.
    pub permission_mode: Option<PermissionMode>,
    /// The mode that is in force again once a plan is approved.
    pub before_plan: Option<PermissionMode>,
    /// Whether a host may choose mode `bypassPermissions` later.
    pub may_bypass: bool,
    /// Working directories besides the first, relative ones below it.
    pub directories: Vec<PathBuf>,
    /// Reason to trust the project, if the caller does.
    pub trust: Option<Reason>,
    /// MCP servers, highest precedence last.
    pub mcp_servers: Vec<McpSource>,
    /// More settings, above all files.
    pub settings: Option<SettingsSource>,
    /// The settings files that count.
    pub setting_sources: Option<Sources>,
    /// The check of a run.
    pub check: CheckSettings,
    /// Plugins.
    pub plugins: Vec<PluginFolder>,
    /// Choices that have no setting.
    pub run: RunOptions,
}

/// Choices for one run that have no setting. They become part of the [`Config`](crate::Config) unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOptions {
    /// Limits of the run.
    pub limits: RunLimits,
    /// Parts of the system prompt, and other inputs of the model.
    pub prompt: PromptOptions,
    /// The available tools.
    pub tools: ToolOptions,
    /// The sandbox and its grants.
    pub sandbox: SandboxOptions,
    /// Options of a host.
    pub host: HostOptions,
    /// Whether only [`Overrides::mcp_servers`] are used.
    pub only_named_mcp_servers: bool,
    /// Features of the model's API to ask for.
    pub betas: Vec<String>,
    /// The scenario file to record the run to.
    pub record: Option<PathBuf>,
    /// Whether the files of the check are sealed as they are now, and not as the session has sealed them before.
    pub is_resealed: bool,
    /// Whether nothing of the session is kept on disk.
    pub is_ephemeral: bool,
}

/// Limits of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunLimits {
    /// Model calls.
    pub max_turns: Option<u32>,
    /// Input and output tokens, summed over the run.
    pub max_tokens: Option<u64>,
    /// Input and output tokens of the last call.
    pub max_context_tokens: Option<u64>,
    /// Tokens of the conversation from which on it is summarised.
    pub compact_at: Option<u64>,
    /// US dollars.
    pub max_budget_usd: Option<f64>,
    /// Time since the prompt.
    pub timeout: Option<Duration>,
}

/// Parts of the system prompt, and other inputs of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptOptions {
    /// Replaces the built-in system prompt.
    pub system_prompt: Option<SystemPromptSource>,
    /// Trigger of the Setup hooks: `init` or `maintenance`; `None`: they are not called.
    pub setup: Option<&'static str>,
    /// Text appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// File whose text is appended to it as well.
    pub append_system_prompt_file: Option<PathBuf>,
    /// What the model is told of the state of the folder's files, besides what it can see; one line.
    pub files: Option<String>,
    /// What mode `plan` asks for.
    pub plan_instructions: Option<String>,
    /// The skill to use.
    pub skill: Option<String>,
    /// Definitions of subagents by name, in the format of the Agent SDKs.
    pub agents: Map<String, Value>,
    /// The definition that the main agent runs as.
    pub agent: Option<String>,
    /// The file that must exist at the end.
    pub must_produce: Option<PathBuf>,
    /// The JSON Schema of the answer.
    pub answer_schema: Option<Value>,
}

/// Source of a system prompt that replaces the built-in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPromptSource {
    /// This text.
    Text(String),
    /// The text in this file.
    File(PathBuf),
    /// The parts of the prompt of a defined agent, in blocks.
    Agent(Vec<Vec<PromptPart>>),
}

/// The available tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOptions {
    /// The set of tools.
    pub profile: Option<Profile>,
    /// The only tools of the profile, by name; `default` stands for all.
    pub only: Option<Vec<String>>,
    /// Tools added (`NAME=COMMAND`) or removed (`NAME=`).
    pub commands: Vec<String>,
    /// Tools that are called in the place of others, by the name that the model uses.
    pub aliases: BTreeMap<String, String>,
}

/// The sandbox and its grants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxOptions {
    /// Whether commands run in it, if chosen.
    pub wanted: Option<SandboxChoice>,
    /// Hosts reachable through a tunnel.
    pub allow_hosts: Vec<Authority>,
    /// Hosts reachable by plain HTTP.
    pub allow_http: Vec<Authority>,
    /// Whether only these hosts are reachable: none of the settings, and nobody is asked.
    pub are_hosts_complete: bool,
    /// Additional visible paths.
    pub unveil: Vec<Grant>,
    /// Additional visible variables.
    pub env: Vec<String>,
}

/// Whether commands run in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxChoice {
    /// No.
    Off,
    /// Yes; without a sandbox there is no run.
    Required(SandboxTier),
}

/// Options of a host, a program that drives the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// Whether the host answers permission questions.
    pub decides_permissions: bool,
    /// Tool of an MCP server that answers permission questions.
    pub permission_tool: Option<String>,
    /// Whether it can answer the model's own questions; also if it is not asked for permissions.
    pub answers_questions: bool,
    /// Whether it receives partial messages.
    pub partial_messages: bool,
    /// Whether it receives the prompts.
    pub replays: bool,
    /// Whether it receives hook events.
    pub hook_events: bool,
    /// Whether it receives each row of the transcript.
    pub mirror: bool,
    /// Whether it receives what subagents say.
    pub subagent_text: bool,
}

/// MCP servers named by the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum McpSource {
    /// The servers in this file.
    File(PathBuf),
    /// These servers, and warnings about unreadable ones.
    Servers(BTreeMap<String, ServerEntry>, Vec<String>),
}

impl McpSource {
    /// Reads servers by name; `source` names their origin in warnings.
    pub fn of_values(source: &str, values: &Map<String, Value>) -> Self {
        let (mut servers, mut warnings) = (BTreeMap::new(), Vec::new());
        for (name, value) in values {
            match ServerEntry::deserialize(value) {
                Ok(entry) => {
                    servers.insert(name.clone(), entry);
                }
                Err(error) => warnings.push(format!(
                    "{source}: {error}; the MCP server `{name}` is left out"
                )),
            }
        }
        Self::Servers(servers, warnings)
    }
}

/// A plugin's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFolder {
    /// Its path, relative ones below the working directory.
    pub path: PathBuf,
    /// Whether its MCP servers are started.
    pub has_servers: bool,
    /// Whether its programs run: hooks, servers, and lines in its commands.
    pub runs_programs: bool,
}
