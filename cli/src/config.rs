//! What holds: options, environment and settings files resolved once, into values that are handed down.

pub mod conversation;
mod dot_env;
mod entries;
pub mod layers;
mod mcp;
mod models;
pub mod places;
pub mod plugins;
mod project;
pub mod rulebook;
mod rules;
pub mod sandboxing;
pub mod settings;
pub mod untrusted;
pub mod web;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::args::options::{Concurrency, Options, Profile};
use crate::error::CliError;
use crate::overlay::Overlay;
use crate::trust::Trust;
use ah_agent::hooks::HookSetting;
use ah_conversation::{Effort, Embedded, Environment, Interface, PermissionMode, Rule};
use ah_mcp::ServerEntry;
use ah_provider::retry::Policy;
use ah_provider::route::NamedServer;
use ah_work::settings::WorkSettings;
use conversation::ConversationConfig;
use layers::{Folders, Found, Layer, Origin, Sources};
use plugins::Plugin;
use project::{counting, permission_mode, tighten, trust};
use rules::{directories, hooks, may_bypass, rules};
use sandboxing::Sandboxing;
use settings::Settings;
use web::WebConfig;

/// The model where nobody names one.
const DEFAULT_MODEL: &str = "opus";
/// How much of one tool's output is kept where no setting says otherwise.
const MAX_TOOL_OUTPUT: u64 = 64 * 1024 * 1024;

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

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
    pub faults: Vec<CliError>,
}

impl Config {
    /// Resolves what holds for `options` in `environment`.
    ///
    /// # Errors
    ///
    /// Where a settings file cannot be read, or a value in one of these places is none.
    pub fn resolve(
        options: &Options,
        interface: Interface,
        environment: Environment,
        overlay: &Overlay,
    ) -> Result<Self, CliError> {
        let mut config = Self::survey(options, interface, environment, overlay)?;
        config.add_plugins(&options.settings.plugins(), options.tools.strict_mcp_config);
        match config.faults.is_empty() {
            true => Ok(config),
            false => Err(config.faults.swap_remove(0)),
        }
    }

    /// Resolves what holds as far as the settings can be read.
    ///
    /// # Errors
    ///
    /// Where an option or a variable has a value that is none.
    pub fn survey(
        options: &Options,
        interface: Interface,
        mut environment: Environment,
        overlay: &Overlay,
    ) -> Result<Self, CliError> {
        { overlay.variables.iter() }.for_each(|(name, value)| environment.set_default(name, value));
        let sources = Sources::parse(options.settings.setting_sources.as_deref())?;
        let project_root = project_root(&environment);
        let folders = folders(&environment, &project_root);
        let Found {
            mut layers,
            mut warnings,
            faults,
        } = {
            let (typed, embedded) = (&options.settings.settings, &overlay.settings);
            layers::read(&folders, sources, typed.as_deref(), embedded.as_deref())
        };
        layers.extend(is_plain(options).then(plain));
        let mut trust = trust(options, &folders, &layers, &environment, &mut warnings);
        warnings.extend(tighten(&mut layers, &mut trust, sources, &folders));
        let faults = counting(faults, &trust, &mut warnings);
        let servers = servers(&layers);
        add_variables(&mut environment, &layers, &servers);
        let project = (sources.project && trust.is_given()).then_some(&*folders.project);
        let key_from_dot_env = dot_env::add_key(&mut environment, &mut trust);
        let permission_mode = permission_mode(options, interface, &layers, &mut trust);
        let first = First { layers: &layers };
        Ok(Self {
            interface,
            home: folders.home,
            foreign_home: folders.foreign_home,
            project_root,
            sources,
            model: model(options, &environment, &first),
            fallback_model: fallback_model(options, &first),
            compaction_model: first.value(|settings| settings.compaction_model.clone()),
            servers,
            mcp_servers: mcp::find(options, &layers, project, &mut warnings)?,
            max_conversation_messages: first.value(|settings| settings.max_conversation_messages),
            tool_concurrency: tool_concurrency(options, &first),
            max_tool_result_chars: first.value(|settings| settings.max_tool_result_chars),
            max_tool_output_bytes: first
                .value(|settings| settings.max_tool_output_bytes)
                .unwrap_or_else(|| built_in(MAX_TOOL_OUTPUT)),
            effort: given(options.model.effort).or_else(|| first.value(|settings| settings.effort)),
            max_thinking_tokens: given(options.model.thinking_budget())
                .or_else(|| first.value(|settings| settings.max_thinking_tokens)),
            max_output_tokens: first.value(|settings| settings.max_output_tokens),
            temperature: first.value(|settings| settings.temperature),
            top_p: first.value(|settings| settings.top_p),
            web: WebConfig::of(&layers, &first),
            conversation: ConversationConfig::of(&first),
            work: first.value(|settings| settings.work.clone()),
            stop: first.value(|settings| settings.stop.clone()),
            may_bypass: may_bypass(permission_mode.value, options, interface, &environment)?,
            permission_mode,
            allow: rules(&options.tools.allowed_tools, &layers, |settings| {
                &settings.permissions.allow
            })?,
            ask: rules(&[], &layers, |settings| &settings.permissions.ask)?,
            hooks: hooks(&layers),
            directories: directories(options, &layers, &environment),
            sandbox: Sandboxing::of(&layers, overlay, &environment),
            deny: rules(&options.tools.disallowed_tools, &layers, |settings| {
                &settings.permissions.deny
            })?,
            key_from_dot_env,
            retry: retry(interface, is_plain(options), &environment)?,
            plugins: Vec::new(),
            files: layers::files_of(&layers),
            warnings,
            embedded: Arc::new(embedded(overlay)),
            unpacked: None,
            trust,
            faults,
            environment,
        })
    }

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

/// The first layer that says something counts.
struct First<'a> {
    layers: &'a [Layer],
}

impl First<'_> {
    fn value<T>(&self, of: impl Fn(&Settings) -> Option<T>) -> Option<Sourced<T>> {
        self.layers.iter().find_map(|layer| {
            let value = of(&layer.settings)?;
            Some(Sourced {
                value,
                origin: layer.origin.clone(),
            })
        })
    }
}

fn given<T>(option: Option<T>) -> Option<Sourced<T>> {
    option.map(|value| Sourced {
        value,
        origin: Origin::CommandLine,
    })
}

fn built_in<T>(value: T) -> Sourced<T> {
    Sourced {
        value,
        origin: Origin::BuiltIn,
    }
}

fn embedded(overlay: &Overlay) -> Embedded {
    let mut embedded = crate::embedded::built_in();
    embedded.extend(overlay.files.clone());
    embedded
}

fn project_root(environment: &Environment) -> PathBuf {
    let cwd = environment.cwd();
    let root = cwd.ancestors().find(|folder| folder.join(".git").exists());
    root.unwrap_or(cwd).to_owned()
}

fn folders(environment: &Environment, project_root: &Path) -> Folders {
    let user = environment.home();
    let folder = |variable, name| {
        let given = environment.get(variable).map(PathBuf::from);
        given.or_else(|| Some(user.as_ref()?.join(name)))
    };
    Folders {
        project: places::of_project(environment, project_root)
            .map(PathBuf::from)
            .collect(),
        home: folder("AH_HOME", ".ah"),
        foreign_home: folder("CLAUDE_CONFIG_DIR", ".claude"),
    }
}

fn model(options: &Options, environment: &Environment, first: &First<'_>) -> Sourced<String> {
    let of_environment = || {
        let value = environment.get("AH_MODEL")?.to_owned();
        Some(Sourced {
            value,
            origin: Origin::Environment("AH_MODEL"),
        })
    };
    given(options.model.model.clone())
        .or_else(of_environment)
        .or_else(|| first.value(|settings| settings.model.clone()))
        .unwrap_or_else(|| built_in(DEFAULT_MODEL.to_owned()))
}

fn tool_concurrency(options: &Options, first: &First<'_>) -> Sourced<Concurrency> {
    given(options.tools.tool_concurrency)
        .or_else(|| first.value(|settings| settings.tool_concurrency))
        .unwrap_or_else(|| built_in(Concurrency::default()))
}

fn fallback_model(options: &Options, first: &First<'_>) -> Option<Sourced<String>> {
    let typed = given(options.model.fallback_model.clone());
    typed.or_else(|| first.value(|settings| settings.fallback_model.clone()))
}

/// Sets the variables of all layers, and marks those that hold the servers' keys.
fn add_variables(
    environment: &mut Environment,
    layers: &[Layer],
    servers: &BTreeMap<String, Sourced<NamedServer>>,
) {
    for (name, value) in layers.iter().flat_map(|layer| &layer.settings.env) {
        environment.set_default(name, value);
    }
    for name in servers
        .values()
        .filter_map(|server| server.value.key_env.as_ref())
    {
        environment.add_secret(name);
    }
}

/// The servers of all layers; of those of one name, the first counts.
fn servers(layers: &[Layer]) -> BTreeMap<String, Sourced<NamedServer>> {
    let named = layers.iter().rev().flat_map(|layer| {
        let servers = layer.settings.providers.iter();
        servers.map(|(name, server)| {
            let server = Sourced {
                value: server.clone(),
                origin: layer.origin.clone(),
            };
            (name.clone(), server)
        })
    });
    named.collect()
}

/// Whether the run is to be as one of a plain loop.
fn is_plain(options: &Options) -> bool {
    options.tools.profile == Some(Profile::PlainRepl)
}

/// What a plain loop has where nobody says otherwise.
fn plain() -> Layer {
    Layer {
        origin: Origin::BuiltIn,
        is_of_project: false,
        settings: Settings {
            max_conversation_messages: Some(50),
            max_tool_result_chars: Some(40_000),
            tool_concurrency: Some(Concurrency::Parallel),
            ..Settings::default()
        },
    }
}

fn retry(
    interface: Interface,
    is_plain: bool,
    environment: &Environment,
) -> Result<Policy, CliError> {
    const VARIABLE: &str = "CLAUDE_CODE_MAX_RETRIES";
    let usual = Policy::default();
    let retries = match (interface, environment.get(VARIABLE)) {
        _ if is_plain => {
            return Ok(Policy {
                retries: 5,
                first_delay: Duration::from_secs(10),
            });
        }
        (Interface::Native, _) => usual.retries,
        (Interface::AgentSdk, None) => 10,
        (Interface::AgentSdk, Some(text)) => text.trim().parse().map_err(|_| {
            CliError::failure(format!("{VARIABLE} is `{text}`, which is not a number"))
        })?,
    };
    Ok(Policy { retries, ..usual })
}

#[cfg(test)]
mod tests;
