//! The choices of whoever starts a run, which count before settings and environment.
//!
//! The command line, the library's options and a host's `initialize` request each build an [`Overrides`] of typed
//! values; [`Config::resolve`](crate::Config::resolve) consumes it. Nothing below it sees an option as it was typed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ah_conversation::{Effort, PermissionMode, Rule};
use ah_mcp::ServerEntry;
use ah_sandbox::{Authority, Grant};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::concurrency::Concurrency;
use crate::layers::{SettingsSource, Sources};
use crate::tier::SandboxTier;
use crate::trust::Reason;

/// The choices for one run. Those in [`run`](Overrides::run) concern no settings file; each of the others counts more
/// than the setting of the same meaning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// The model's name.
    pub model: Option<String>,
    /// The model that is asked if the first stays overloaded or fails.
    pub fallback_model: Option<String>,
    /// How hard the model tries.
    pub effort: Option<Effort>,
    /// The thinking budget in tokens; 0 turns thinking off.
    pub max_thinking_tokens: Option<u32>,
    /// Whether tool calls of one answer run together.
    pub tool_concurrency: Option<Concurrency>,
    /// Calls that are allowed without a question.
    pub allow: Vec<Rule>,
    /// Calls that are denied.
    pub deny: Vec<Rule>,
    /// The permission mode.
    pub permission_mode: Option<PermissionMode>,
    /// Whether a host may choose mode `bypassPermissions` later.
    pub may_bypass: bool,
    /// Working directories besides the first, relative ones below it.
    pub directories: Vec<PathBuf>,
    /// Why the project is trusted, if whoever starts the run says so.
    pub trust: Option<Reason>,
    /// MCP servers, the ones that count more last.
    pub mcp_servers: Vec<McpSource>,
    /// More settings, above all files.
    pub settings: Option<SettingsSource>,
    /// The settings files that count.
    pub setting_sources: Option<Sources>,
    /// Plugins.
    pub plugins: Vec<PluginFolder>,
    /// Choices that no settings file makes.
    pub run: RunOptions,
}

/// Choices for one run that no settings file makes. They are part of the [`Config`](crate::Config) as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOptions {
    /// What ends the run early.
    pub limits: RunLimits,
    /// What the model is told besides the prompt.
    pub prompt: PromptOptions,
    /// Which tools there are.
    pub tools: ToolOptions,
    /// The sandbox, and what is granted in it.
    pub sandbox: SandboxOptions,
    /// What a host is told and asked.
    pub host: HostOptions,
    /// Whether no MCP servers count but those of [`Overrides::mcp_servers`].
    pub only_named_mcp_servers: bool,
    /// Features of the model's API to ask for.
    pub betas: Vec<String>,
    /// The scenario file that the run is recorded to.
    pub record: Option<PathBuf>,
    /// Whether nothing of the session is kept on disk.
    pub is_ephemeral: bool,
}

/// What ends a run early.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunLimits {
    /// Model calls.
    pub max_turns: Option<u32>,
    /// Input and output tokens, summed over the run.
    pub max_tokens: Option<u64>,
    /// Input and output tokens of the last call.
    pub max_context_tokens: Option<u64>,
    /// US dollars.
    pub max_budget_usd: Option<f64>,
    /// Time since the prompt.
    pub timeout: Option<Duration>,
}

/// What the model is told besides the prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptOptions {
    /// The system prompt in the place of the built-in one.
    pub system_prompt: Option<SystemPromptSource>,
    /// Text behind the system prompt.
    pub append_system_prompt: Option<String>,
    /// The skill to use.
    pub skill: Option<String>,
    /// Definitions of subagents by name, as the Agent SDKs write them.
    pub agents: Map<String, Value>,
    /// The definition that the main agent runs as.
    pub agent: Option<String>,
    /// The file that must exist at the end.
    pub must_produce: Option<PathBuf>,
    /// The JSON Schema of the answer.
    pub answer_schema: Option<Value>,
}

/// A system prompt in the place of the built-in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPromptSource {
    /// This text.
    Text(String),
    /// The text in this file.
    File(PathBuf),
}

/// Which tools there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOptions {
    /// The set of tools.
    pub profile: Option<Profile>,
    /// The only tools of it, by name; `default` stands for all.
    pub only: Option<Vec<String>>,
    /// Tools added (`NAME=COMMAND`) or removed (`NAME=`).
    pub commands: Vec<String>,
}

/// The sandbox, and what is granted in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxOptions {
    /// Whether commands run in it, if that was said.
    pub wanted: Option<SandboxChoice>,
    /// Hosts that may be reached by a tunnel.
    pub allow_hosts: Vec<Authority>,
    /// Hosts that may be reached by plain HTTP.
    pub allow_http: Vec<Authority>,
    /// Paths that are seen besides.
    pub unveil: Vec<Grant>,
    /// Variables that are seen besides.
    pub env: Vec<String>,
}

/// Whether commands run in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxChoice {
    /// No.
    Off,
    /// Yes, or there is no run.
    Required(SandboxTier),
}

/// What a host, a program that drives the session, is told and asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// Whether the host is asked for permissions.
    pub decides_permissions: bool,
    /// Whether it is told the answer as it arrives.
    pub partial_messages: bool,
    /// Whether it is told the prompts too.
    pub replays: bool,
    /// Whether it is told of hooks.
    pub hook_events: bool,
    /// Whether it is told each row of the transcript.
    pub mirror: bool,
}

/// A set of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The program's own tools.
    Default,
    /// `read`, `write`, `edit` and `bash`.
    Minimal,
    /// The tools that users of the official Agent SDKs expect, under their names.
    Sdk,
    /// `read`, `write` and `bash`, for a plain loop.
    PlainRepl,
}

/// MCP servers that whoever starts the run names.
#[derive(Debug, Clone, PartialEq)]
pub enum McpSource {
    /// The servers in this file.
    File(PathBuf),
    /// These servers, and warnings about others that could not be read.
    Servers(BTreeMap<String, ServerEntry>, Vec<String>),
}

impl McpSource {
    /// Reads servers by name, as a host or a program gives them; `source` names it in warnings.
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
}
