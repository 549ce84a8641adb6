//! Resolves a configuration from the choices for a run, the environment and the settings files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Embedded, Environment, Interface};
use ah_provider::named_server::NamedServer;
use ah_provider::retry::Policy;

use crate::concurrency::Concurrency;
use crate::config::{Config, journal_below};
use crate::error::Error;
use crate::first::First;
use crate::layers::{self, Folders, Given, Layer, LoadedLayers, Sources};
use crate::origin::{Origin, Sourced};
use crate::overlay::Overlay;
use crate::overrides::{Overrides, SandboxChoice};
use crate::profile::Profile;
use crate::project::{counting, permission_mode, tighten, trust};
use crate::rules::{directories, forbids_bypass, hooks, may_bypass, refuse_bypass, rules};
use crate::sandboxing::Sandboxing;
use crate::settings::Settings;
use crate::settings::check::{CheckConfig, CheckSettings};
use crate::settings::conversation::ConversationConfig;
use crate::settings::exchange::ExchangeConfig;
use crate::settings::requests::{RequestConfig, RequestSettings};
use crate::settings::tools::{ToolConfig, ToolSettings};
use crate::trust::Trust;
use crate::web::WebConfig;
use crate::{dot_env, login, mcp, places, stand_in};

/// Default model.
const DEFAULT_MODEL: &str = "opus";
/// Variables that name the model; the first that is set counts. The second is the other agent's.
const MODEL: [&str; 2] = ["AH_MODEL", "ANTHROPIC_MODEL"];
/// Files of an administrator; the second is the other agent's.
#[cfg(not(target_os = "macos"))]
const MANAGED: [&str; 2] = [
    "/etc/ah/managed-settings.json",
    "/etc/claude-code/managed-settings.json",
];
#[cfg(target_os = "macos")]
const MANAGED: [&str; 2] = [
    "/etc/ah/managed-settings.json",
    "/Library/Application Support/ClaudeCode/managed-settings.json",
];
/// The other agent's variable for the thinking budget.
const MAX_THINKING_TOKENS: &str = "MAX_THINKING_TOKENS";

impl Config {
    /// Resolves the configuration for `overrides` in `environment`.
    ///
    /// # Errors
    ///
    /// If a settings file cannot be read, or a value is invalid.
    pub fn resolve(
        overrides: Overrides,
        interface: Interface,
        environment: Environment,
        overlay: &Overlay,
    ) -> Result<Self, Error> {
        let plugins = overrides.plugins.clone();
        let mut config = Self::survey(overrides, interface, environment, overlay)?;
        config.add_plugins(&plugins);
        config.add_installed_plugins();
        if config.errors.is_empty() {
            Ok(config)
        } else {
            Err(config.errors.swap_remove(0))
        }
    }

    /// Applies a host's `initialize` options: prompts, the answer's schema, subagents, denied calls, MCP servers and
    /// plugins. They take precedence over earlier choices.
    ///
    /// # Errors
    ///
    /// If the hooks of a plugin cannot be read.
    pub fn apply(&mut self, overrides: Overrides) -> Result<(), Error> {
        let (prompt, given) = (&mut self.run.prompt, overrides.run.prompt);
        prompt.system_prompt = given.system_prompt.or(prompt.system_prompt.take());
        let append = prompt.append_system_prompt.take();
        prompt.append_system_prompt = given.append_system_prompt.or(append);
        prompt.answer_schema = given.answer_schema.or(prompt.answer_schema.take());
        prompt.agents.extend(given.agents);
        let plan = prompt.plan_instructions.take();
        prompt.plan_instructions = given.plan_instructions.or(plan);
        self.run.tools.aliases.extend(overrides.run.tools.aliases);
        self.deny
            .extend(overrides.deny.into_iter().map(Sourced::typed));
        for source in overrides.mcp_servers {
            self.add_servers(source);
        }
        self.add_plugins(&overrides.plugins);
        self.errors.pop().map_or(Ok(()), Err)
    }

    /// Resolves the configuration as far as the settings can be read.
    ///
    /// # Errors
    ///
    /// If an option or a variable has an invalid value.
    pub fn survey(
        mut overrides: Overrides,
        interface: Interface,
        mut environment: Environment,
        overlay: &Overlay,
    ) -> Result<Self, Error> {
        add_defaults(&mut environment, overlay);
        let project_root = places::project_root(&environment);
        let folders = folders(&environment, &project_root);
        let sources = overrides.setting_sources.unwrap_or(Sources::ALL);
        let TrustedLayers {
            mut layers,
            mut trust,
            mut warnings,
            errors,
        } = trusted_layers(&overrides, &folders, sources, &environment, overlay);
        warnings.extend(restrict(interface, &mut overrides, &mut layers));
        let (mut servers, process) = (servers(&layers), environment.clone());
        add_variables(interface, &mut environment, &mut layers, &mut servers)?;
        let project = (sources.project && trust.is_given()).then_some(&*folders.project);
        let key_from_dot_env = add_keys(&mut environment, &mut trust, &folders, &mut warnings);
        pass_variables(&mut environment, &layers, &overrides);
        let permission_mode =
            permission_mode(overrides.permission_mode, interface, &layers, &mut trust);
        refuse_bypass(&permission_mode, &layers)?;
        let first = First { layers: &layers };
        Ok(Self {
            interface,
            home: folders.home,
            foreign_home: folders.foreign_home,
            project_root,
            sources,
            model: model(overrides.model.clone(), &process, &first),
            fallback_models: fallback_models(&overrides.fallback_models, &first),
            compaction_model: first.value(|settings| settings.compaction_model.clone()),
            servers: stand_in::with_key_command(servers, &first, &environment),
            mcp_servers: mcp::find(&overrides, &layers, project, &mut warnings)?,
            tools: tools(&overrides, &first),
            requests: requests(&overrides, &process, &first)?,
            exchange: ExchangeConfig::of(&first.groups(|settings| &settings.exchange)),
            web: WebConfig::of(&layers, &first),
            check: check(&overrides.check, &first),
            conversation: ConversationConfig::of(&first.groups(|settings| &settings.conversation)),
            work: first.value(|settings| settings.work.clone()),
            before_plan: overrides.before_plan,
            may_bypass: may_bypass(permission_mode.value, &overrides, interface, &environment)?,
            permission_mode,
            allow: rules(&overrides.allow, &layers, |it| &it.permissions.allow),
            ask: rules(&overrides.ask, &layers, |it| &it.permissions.ask),
            hooks: hooks(&layers),
            disable_all_hooks: first.value(|settings| settings.disable_all_hooks),
            directories: directories(&overrides.directories, &layers, &environment),
            sandbox: Sandboxing::of(&layers, overlay, &environment),
            deny: rules(&overrides.deny, &layers, |it| &it.permissions.deny),
            key_from_dot_env,
            retry: retry(interface, is_plain(&overrides), &environment)?,
            task_patience: task_patience(&environment)?,
            plugins: Vec::new(),
            files: layers::files_of(&layers),
            warnings,
            embedded: Arc::new(embedded(overlay)),
            unpacked: None,
            trust,
            errors,
            environment,
            run: overrides.run,
        })
    }
}

/// Adds the variables of the executable that are not set.
fn add_defaults(environment: &mut Environment, overlay: &Overlay) {
    for (name, value) in &overlay.variables {
        environment.set_default(name, value);
    }
}

/// Moves aside what commands have created whose `ah` was killed meanwhile, or that still run; returns a warning for each
/// file.
fn leavings(folders: &Folders) -> Vec<String> {
    let journal = folders.home.as_deref().map(journal_below);
    let moved = journal.map(|folder| ah_sandbox::finish_journal(&folder));
    let moved = moved.unwrap_or_default().into_iter();
    moved
        .map(|path| {
            format!(
                "a sandboxed command that was killed or still runs has created a file that it may not create; it is now `{}`",
                path.display()
            )
        })
        .collect()
}

/// Lets child processes see the variables that the user names for them, secret or not.
fn pass_variables(environment: &mut Environment, layers: &[Layer], overrides: &Overrides) {
    let set = layers.iter().filter(|layer| !layer.is_of_project);
    let set = set.flat_map(|layer| &layer.settings.sandbox.env);
    for name in set.chain(&overrides.run.sandbox.env) {
        environment.pass(name);
    }
}

/// All layers of settings, restricted by trust in the project.
struct TrustedLayers {
    layers: Vec<Layer>,
    trust: Trust,
    warnings: Vec<String>,
    errors: Vec<Error>,
}

/// Reads all layers, and restricts those of the project.
fn trusted_layers(
    overrides: &Overrides,
    folders: &Folders,
    sources: Sources,
    environment: &Environment,
    overlay: &Overlay,
) -> TrustedLayers {
    // Before any file of the project is read: a command may have put it there.
    let left = leavings(folders);
    let given = Given {
        managed: overrides.managed_settings.as_ref(),
        typed: overrides.settings.as_ref(),
        embedded: overlay.settings.as_deref(),
    };
    let LoadedLayers {
        mut layers,
        mut warnings,
        errors,
    } = layers::read(folders, sources, given);
    warnings.splice(0..0, left);
    layers.extend(is_plain(overrides).then(plain));
    let given = overrides.trust;
    let mut trust = trust(given, folders, &layers, environment, &mut warnings);
    warnings.extend(tighten(&mut layers, &mut trust, sources, folders));
    let errors = counting(errors, &trust, &mut warnings);
    TrustedLayers {
        layers,
        trust,
        warnings,
        errors,
    }
}

/// Drops options that settings forbid: `--no-sandbox` where an administrator has turned the sandbox on, and that
/// permissions may be bypassed; and rules that the other agent does not take. Returns warnings.
fn restrict(interface: Interface, overrides: &mut Overrides, layers: &mut [Layer]) -> Vec<String> {
    let mut warnings = stand_in::drop_wildcards(interface, &mut overrides.allow, layers);
    overrides.may_bypass &= !layers.iter().any(forbids_bypass);
    warnings.extend(refuse_without_sandbox(overrides, layers));
    warnings
}

/// Drops `--no-sandbox` where an administrator has turned the sandbox on; returns a warning then.
fn refuse_without_sandbox(overrides: &mut Overrides, layers: &[Layer]) -> Option<String> {
    let set = First { layers }.managed();
    let enabled = set.value(|settings| settings.sandbox.enabled)?;
    let wanted = &mut overrides.run.sandbox.wanted;
    let is_contradicted = enabled.value && *wanted == Some(SandboxChoice::Off);
    is_contradicted.then(|| {
        *wanted = None;
        format!(
            "`--no-sandbox` is ignored: {} turns the sandbox on",
            enabled.origin
        )
    })
}

fn embedded(overlay: &Overlay) -> Embedded {
    let mut embedded = crate::embedded::built_in();
    embedded.extend(overlay.files.clone());
    embedded
}

fn folders(environment: &Environment, project_root: &Path) -> Folders {
    let user = environment.home();
    let folder = |variable, name| {
        let given = environment.get(variable).map(PathBuf::from);
        given.or_else(|| Some(user.as_ref()?.join(name)))
    };
    let home = folder("AH_HOME", ".ah");
    Folders {
        own: home
            .as_deref()
            .map(|home| places::own_settings(home, environment, project_root)),
        project: places::of_project(environment, project_root)
            .map(PathBuf::from)
            .collect(),
        home,
        foreign_home: folder("CLAUDE_CONFIG_DIR", ".claude"),
        managed: MANAGED.map(PathBuf::from).to_vec(),
    }
}

/// Returns the model. `process` are the variables without those of the settings, which count in the order of their
/// files.
fn model(typed: Option<String>, process: &Environment, first: &First<'_>) -> Sourced<String> {
    let managed = first.managed();
    let set = |settings: &Settings| settings.model.clone();
    { managed.variable_or(&Environment::default(), &MODEL, set) }
        // The word of SDK hosts for the model of the settings.
        .or_else(|| given(typed.filter(|name| !name.eq_ignore_ascii_case("default"))))
        .or_else(|| first.variable_or(process, &MODEL, set))
        .unwrap_or_else(|| Sourced::built_in(DEFAULT_MODEL.to_owned()))
}

fn max_thinking_tokens(
    overrides: &Overrides,
    process: &Environment,
    first: &First<'_>,
) -> Result<Option<Sourced<u32>>, Error> {
    let set = |settings: &Settings| Some(settings.requests.max_thinking_tokens?.to_string());
    let text = first.variable_or(process, &[MAX_THINKING_TOKENS], set);
    let tokens = text.map(|text| {
        let value = text.value.trim().parse().map_err(|_| {
            let value = &text.value;
            Error::failure(format!(
                "{MAX_THINKING_TOKENS} is `{value}`, which is not a number of tokens"
            ))
        })?;
        Ok(Sourced {
            value,
            origin: text.origin,
        })
    });
    let typed = given(overrides.max_thinking_tokens);
    match typed.filter(|_| first.managed().value(set).is_none()) {
        Some(typed) => Ok(Some(typed)),
        None => tokens.transpose(),
    }
}

fn fallback_models(typed: &[String], first: &First<'_>) -> Option<Sourced<Vec<String>>> {
    let typed = (!typed.is_empty()).then(|| typed.to_vec());
    first.chosen(typed, |settings| settings.fallback_models.clone())
}

/// Returns the settings of tools, with what was typed.
fn tools(overrides: &Overrides, first: &First<'_>) -> ToolConfig {
    let mut tools = ToolConfig::of(&first.groups(|settings| &settings.tools));
    let profile = overrides.run.tools.profile;
    tools.profile = first.chosen(profile, |settings| settings.tools.profile);
    let typed = overrides.tool_concurrency;
    if let Some(chosen) = first.chosen(typed, |settings| settings.tools.tool_concurrency) {
        tools.tool_concurrency = chosen;
    }
    tools
}

/// Returns the settings of requests, with what was typed and the variables of the process.
fn requests(
    overrides: &Overrides,
    process: &Environment,
    first: &First<'_>,
) -> Result<RequestConfig, Error> {
    let mut requests = RequestConfig::of(&first.groups(|settings| &settings.requests));
    requests.effort = first.chosen(overrides.effort, |settings| settings.requests.effort);
    requests.max_thinking_tokens = max_thinking_tokens(overrides, process, first)?;
    Ok(requests)
}

/// Returns the settings of the check, with what was typed.
fn check(typed: &CheckSettings, first: &First<'_>) -> CheckConfig {
    let mut layers = first.groups(|settings| &settings.check);
    layers.insert(first.managed().layers.len(), (typed, &Origin::CommandLine));
    CheckConfig::of(&layers)
}

/// Returns whether the run is a plain loop.
fn is_plain(overrides: &Overrides) -> bool {
    overrides.run.tools.profile == Some(Profile::PlainRepl)
}

/// Adds the key of `.env`, then what a login has kept; returns whether `.env` has the key.
fn add_keys(
    environment: &mut Environment,
    trust: &mut Trust,
    folders: &Folders,
    warnings: &mut Vec<String>,
) -> bool {
    let is_of_project = dot_env::add_key(environment, trust);
    warnings.extend(login::apply(folders.home.as_deref(), environment));
    is_of_project
}

/// Sets the variables of all layers, and marks those with the servers' keys; then those of the other agent count.
fn add_variables(
    interface: Interface,
    environment: &mut Environment,
    layers: &mut Vec<Layer>,
    servers: &mut BTreeMap<String, Sourced<NamedServer>>,
) -> Result<(), Error> {
    for layer in layers.iter() {
        for (name, value) in &layer.settings.env {
            if layer.is_managed() {
                environment.set(name, value);
            } else {
                environment.set_default(name, value);
            }
        }
    }
    for name in servers
        .values()
        .filter_map(|server| server.value.key_env.as_ref())
    {
        environment.add_secret(name);
    }
    stand_in::apply(interface, environment, layers, servers)
}

/// Returns the servers of all layers; of servers with the same name, the first counts.
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

/// Returns the defaults of a plain loop.
fn plain() -> Layer {
    Layer {
        origin: Origin::BuiltIn,
        is_of_project: false,
        settings: Settings {
            requests: RequestSettings {
                max_conversation_messages: Some(50),
                ..RequestSettings::default()
            },
            tools: ToolSettings {
                max_tool_result_chars: Some(40_000),
                tool_concurrency: Some(Concurrency::Parallel),
                ..ToolSettings::default()
            },
            ..Settings::default()
        },
    }
}

fn retry(interface: Interface, is_plain: bool, environment: &Environment) -> Result<Policy, Error> {
    const VARIABLE: &str = "CLAUDE_CODE_MAX_RETRIES";
    let usual = Policy::default();
    let retries = match (interface, environment.get(VARIABLE)) {
        _ if is_plain => {
            return Ok(Policy {
                retries: 5,
                first_delay: Duration::from_secs(10),
                ..usual
            });
        }
        (Interface::Native, _) => usual.retries,
        (Interface::AgentSdk, None) => 10,
        (Interface::AgentSdk, Some(text)) => text.trim().parse().map_err(|_| {
            Error::failure(format!("{VARIABLE} is `{text}`, which is not a number"))
        })?,
    };
    Ok(Policy { retries, ..usual })
}

/// Returns how long commands in the background are waited for at the end of a program's input: ten minutes, or what a
/// variable says; 0 is no limit.
fn task_patience(environment: &Environment) -> Result<Option<Duration>, Error> {
    const VARIABLE: &str = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS";
    let milliseconds = match environment.get(VARIABLE) {
        None | Some("") => 600_000,
        Some(text) => text.trim().parse().map_err(|_| {
            Error::failure(format!("{VARIABLE} is `{text}`, which is not a number"))
        })?,
    };
    Ok((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
}

fn given<T>(typed: Option<T>) -> Option<Sourced<T>> {
    typed.map(Sourced::typed)
}
