//! The configuration of a run: every value that holds, with its origin.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::hooks::HookSetting;
use ah_conversation::{Effort, Embedded, Environment, Interface, PermissionMode, Rule};
use ah_mcp::ServerEntry;
use ah_provider::named_server::NamedServer;
use ah_provider::retry::Policy;
use ah_work::settings::WorkSettings;

use crate::concurrency::Concurrency;
use crate::conversation::ConversationConfig;
use crate::error::Error;
use crate::layers::Sources;
use crate::origin::{Origin, Sourced};
use crate::overrides::RunOptions;
use crate::plugin::Plugin;
use crate::sandboxing::Sandboxing;
use crate::trust::Trust;
use crate::web::WebConfig;

/// What holds in this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Variables, with those that the settings and `.env` add; working directory.
    pub environment: Environment,
    /// Whom the program behaves for.
    pub interface: Interface,
    /// The user's folder: `AH_HOME` or `~/.ah`.
    pub home: Option<PathBuf>,
    /// The user's folder of the other agent: `CLAUDE_CONFIG_DIR` or `~/.claude`.
    pub foreign_home: Option<PathBuf>,
    /// The top of the project: of the git repository, or the working directory.
    pub project_root: PathBuf,
    /// Whether the project's files (settings, instructions) count, and the user's.
    pub sources: Sources,
    /// The model's name.
    pub model: Sourced<String>,
    /// The model that answers where the model cannot.
    pub fallback_model: Option<Sourced<String>>,
    /// The model that summarises older messages, where it is another one.
    pub compaction_model: Option<Sourced<String>>,
    /// The servers that settings name.
    pub servers: BTreeMap<String, Sourced<NamedServer>>,
    /// The MCP servers.
    pub mcp_servers: BTreeMap<String, Sourced<ServerEntry>>,
    /// How many messages the model is shown at most.
    pub max_conversation_messages: Option<Sourced<usize>>,
    /// Whether tool calls run together.
    pub tool_concurrency: Sourced<Concurrency>,
    /// How many characters of one tool's output the model is shown, where not as many as the tool says.
    pub max_tool_result_chars: Option<Sourced<usize>>,
    /// How much of one tool's output is kept.
    pub max_tool_output_bytes: Sourced<u64>,
    /// How hard the model tries.
    pub effort: Option<Sourced<Effort>>,
    /// How much it may think.
    pub max_thinking_tokens: Option<Sourced<u32>>,
    /// How much it may write at once.
    pub max_output_tokens: Option<Sourced<NonZero<u64>>>,
    /// The sampling temperature.
    pub temperature: Option<Sourced<f64>>,
    /// The share of the likeliest words that it takes.
    pub top_p: Option<Sourced<f64>>,
    /// Words at which it stops.
    pub stop: Option<Sourced<Vec<String>>>,
    /// How the web is reached.
    pub web: WebConfig,
    /// How the conversation at a terminal is had.
    pub conversation: ConversationConfig,
    /// How far `ah work` goes.
    pub work: Option<Sourced<WorkSettings>>,
    /// What is allowed where no rule says otherwise.
    pub permission_mode: Sourced<PermissionMode>,
    /// Whether the mode that allows everything holds, or may be chosen by a host later.
    pub may_bypass: bool,
    /// Calls that are allowed.
    pub allow: Vec<Sourced<Rule>>,
    /// Calls that are asked about.
    pub ask: Vec<Sourced<Rule>>,
    /// Calls that are denied.
    pub deny: Vec<Sourced<Rule>>,
    /// What is told of a run: the user's hooks first, then the project's.
    pub hooks: Vec<Sourced<HookSetting>>,
    /// Working directories besides the first.
    pub directories: Vec<Sourced<PathBuf>>,
    /// What the settings say of the sandbox.
    pub sandbox: Sandboxing,
    /// Whether the key is the one that `.env` holds.
    pub key_from_dot_env: bool,
    /// How often and how soon a failed request is sent again.
    pub retry: Policy,
    /// The plugins, which bring commands and the like along.
    pub plugins: Vec<Plugin>,
    /// The settings files in force, the first one counting most.
    pub files: Vec<PathBuf>,
    /// What the user should know of the settings.
    pub warnings: Vec<String>,
    /// The files that the program carries: built in and embedded.
    pub embedded: Arc<Embedded>,
    /// Where those of the embedded files lie that may have to run, laid out as the folder that was embedded.
    pub unpacked: Option<PathBuf>,
    /// Whether the project's code counts, and what does not because it is not trusted.
    pub trust: Trust,
    /// Why some settings could not be read. Only what looks for faults goes on in spite of them.
    pub faults: Vec<Error>,
    /// Choices for this run that no settings file makes.
    pub run: RunOptions,
}

impl Config {
    /// The user's folders, the other agent's first: what is found in a later one counts more.
    pub fn user_folders(&self) -> Vec<PathBuf> {
        [&self.foreign_home, &self.home]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Whether nobody has said what may happen, so that it depends on whether commands are confined.
    pub fn leaves_mode_open(&self) -> bool {
        self.interface == Interface::Native && self.permission_mode.origin == Origin::BuiltIn
    }
}
