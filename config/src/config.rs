//! The resolved configuration of a run: each value with its origin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::HookSetting;
use ah_conversation::{Embedded, Environment, Interface, PermissionMode, Rule};
use ah_mcp::ServerEntry;
use ah_provider::named_server::NamedServer;
use ah_provider::retry::Policy;

use crate::dot_env;
use crate::error::Error;
use crate::layers::Sources;
use crate::origin::{Origin, Sourced};
use crate::overrides::RunOptions;
use crate::plugin::Plugin;
use crate::sandboxing::Sandboxing;
use crate::settings::check::CheckConfig;
use crate::settings::conversation::ConversationConfig;
use crate::settings::exchange::ExchangeConfig;
use crate::settings::requests::RequestConfig;
use crate::settings::tools::ToolConfig;
use crate::settings::work::WorkSettings;
use crate::trust::Trust;
use crate::web::WebConfig;

/// The resolved configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Environment variables, including those of the settings and `.env`, and the working directory.
    pub environment: Environment,
    /// The interface to present.
    pub interface: Interface,
    /// The user's folder: `AH_HOME` or `~/.ah`.
    pub home: Option<PathBuf>,
    /// The user's folder of the other agent: `CLAUDE_CONFIG_DIR` or `~/.claude`.
    pub foreign_home: Option<PathBuf>,
    /// The project's root: that of the git repository, or the working directory.
    pub project_root: PathBuf,
    /// The settings files and instructions that count.
    pub sources: Sources,
    /// The model's name.
    pub model: Sourced<String>,
    /// The fallback models, in order.
    pub fallback_models: Option<Sourced<Vec<String>>>,
    /// The model for summaries, if it is another one.
    pub compaction_model: Option<Sourced<String>>,
    /// The model servers of the settings.
    pub servers: BTreeMap<String, Sourced<NamedServer>>,
    /// The MCP servers.
    pub mcp_servers: BTreeMap<String, Sourced<ServerEntry>>,
    /// Tools and their calls.
    pub tools: ToolConfig,
    /// What a request to the model asks for.
    pub requests: RequestConfig,
    /// The exchange with model servers.
    pub exchange: ExchangeConfig,
    /// Access to the web.
    pub web: WebConfig,
    /// The check of a run.
    pub check: CheckConfig,
    /// The terminal conversation.
    pub conversation: ConversationConfig,
    /// Settings of `ah work`.
    pub work: Option<Sourced<WorkSettings>>,
    /// Permission mode for calls that no rule covers.
    pub permission_mode: Sourced<PermissionMode>,
    /// Mode that is in force again once a plan is approved; `None` for that of a session without a mode of its own.
    pub before_plan: Option<PermissionMode>,
    /// Whether `bypassPermissions` is in force, or a host may choose it later.
    pub may_bypass: bool,
    /// Rules for allowed calls.
    pub allow: Vec<Sourced<Rule>>,
    /// Rules for calls that need a question.
    pub ask: Vec<Sourced<Rule>>,
    /// Rules for denied calls.
    pub deny: Vec<Sourced<Rule>>,
    /// Hooks: the user's first, then the project's.
    pub hooks: Vec<Sourced<HookSetting>>,
    /// Whether no hooks of settings are called.
    pub disable_all_hooks: Option<Sourced<bool>>,
    /// Working directories besides the first.
    pub directories: Vec<Sourced<PathBuf>>,
    /// Sandbox settings.
    pub sandbox: Sandboxing,
    /// Whether the API key is from `.env`.
    pub key_from_dot_env: bool,
    /// Retries of failed requests.
    pub retry: Policy,
    /// How long a program's run waits for commands in the background at its end; `None` without a limit.
    pub task_patience: Option<Duration>,
    /// The plugins.
    pub plugins: Vec<Plugin>,
    /// The settings files in force, highest precedence first.
    pub files: Vec<PathBuf>,
    /// Warnings about the settings for the user.
    pub warnings: Vec<String>,
    /// The files within the executable: built in and embedded.
    pub embedded: Arc<Embedded>,
    /// The folder with a copy of the embedded files that may have to run, laid out as the embedded folder.
    pub unpacked: Option<PathBuf>,
    /// Trust in the project, and the files that are ignored without it.
    pub trust: Trust,
    /// Errors in settings files. Only diagnostic commands continue in spite of them.
    pub errors: Vec<Error>,
    /// Choices for this run that no setting makes.
    pub run: RunOptions,
}

/// Returns the folder of the journal of running commands, below the user's own folder.
pub(crate) fn journal_below(home: &Path) -> PathBuf {
    home.join("running")
}

impl Config {
    /// Returns the folder of the journal of running commands; `None` without a home.
    pub fn journal(&self) -> Option<PathBuf> {
        self.home.as_deref().map(journal_below)
    }

    /// Returns the folder for the journals of file changes of a session, below the user's own folder; `None` without a
    /// home. No command can write there, whatever the sandbox's tier.
    pub fn changes(&self, session: &str) -> Option<PathBuf> {
        let home = self.home.as_deref()?;
        Some(home.join("changes").join(session))
    }

    /// Returns the folder with what is sealed for the checks of sessions, a file for each; `None` without a home. No command can
    /// write there either.
    pub fn seals(&self) -> Option<PathBuf> {
        Some(self.home.as_deref()?.join("seals"))
    }

    /// Returns the user's folders, the other agent's first: later ones take precedence.
    pub fn user_folders(&self) -> Vec<PathBuf> {
        [&self.foreign_home, &self.home]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Returns the file of the project that holds the API key in use, which tools must not read.
    pub fn key_file(&self) -> Option<PathBuf> {
        self.key_from_dot_env
            .then(|| dot_env::path(&self.environment))
    }

    /// Returns whether no permission mode is set, so that it depends on the sandbox.
    pub fn leaves_mode_open(&self) -> bool {
        leaves_mode_open(self.interface, &self.permission_mode)
    }
}

/// Returns whether `mode` is what nobody has set, so that it depends on the sandbox.
pub(crate) fn leaves_mode_open(interface: Interface, mode: &Sourced<PermissionMode>) -> bool {
    interface == Interface::Native && mode.origin == Origin::BuiltIn
}
