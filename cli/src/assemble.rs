//! Puts an engine together: the one place that names concrete providers, stores and tools.

mod agents;
mod hooks;
mod safety;
pub mod tools;
pub mod web;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::args::options::{Concurrency, Options, OutputFormat};
use crate::commands::run::{system_prompt, timeout_ms};
use crate::config::Config;
use crate::config::rulebook::SettingsFiles;
use crate::confinement::Standing;
use crate::error::CliError;
use crate::key_command::KeyCommand;
use crate::print::events::Events;
use crate::print::text::{Text, View};
use crate::print::{Look, Outlet, Screen};
use crate::repl::Link;
pub use agents::{Main, as_main, subagents};
use ah_agent::hooks::Hook;
use ah_agent::skills::{Skill, Skills};
use ah_agent::{AnswerForm, Frontend, Ports, SessionSettings, ToolConcurrency, Toolbox};
use ah_conversation::{
    Clock as _, Cost, ErrorClass, Interface, Limits, Model, Models, Provider, ProviderError,
    Sampling, Thinking, Tool, estimate_text,
};
use ah_mcp::{RemoteServers, SdkHost, Transport};
use ah_provider::exchange::Timeouts;
use ah_provider::fallback::Fallback;
use ah_provider::script::normalizer::Normalizer;
use ah_provider::script::record::Recording;
use ah_store::{SessionStore, SystemClock};
use tools::Sources;

/// How long a request of the drop-in interface waits for MCP servers that have just been started.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How often a model is asked again at most where another one stands behind it.
const RETRIES_BEFORE_FALLBACK: u32 = 3;

/// The model that the configuration names, ready to be asked.
///
/// # Errors
///
/// Where there is no such model, or no key for it.
pub fn model(config: &Config, options: &Options) -> Result<Arc<dyn Provider>, CliError> {
    let provider = match &config.fallback_model {
        None => connect(config, options, &config.model.value)?,
        Some(name) => with_fallback(config, options, &name.value)?,
    };
    let Some(path) = &options.model.record else {
        return Ok(provider);
    };
    let normal = Normalizer::of(&config.environment);
    let recording = Recording::create(path, provider.model(), normal).map_err(|error| {
        CliError::failure(format!("cannot record to `{}`: {error}", path.display()))
    })?;
    Ok(Arc::new(recording.of(provider)))
}

/// The model, and behind it another one, for which the first is not waited long.
fn with_fallback(
    config: &Config,
    options: &Options,
    name: &str,
) -> Result<Arc<dyn Provider>, CliError> {
    let mut impatient = config.clone();
    impatient.retry.retries = config.retry.retries.min(RETRIES_BEFORE_FALLBACK);
    let first = connect(&impatient, options, &config.model.value)?;
    let second = connect(config, options, name)?;
    let (asked, other) = (first.model(), second.model());
    if (&asked.provider, &asked.name) == (&other.provider, &other.name) {
        let message = format!("the fallback model is the model itself, {}", other.name);
        return Err(CliError::failure(message).hint("name another one with --fallback-model"));
    }
    Ok(Arc::new(Fallback::new(first, second)))
}

fn connect(config: &Config, options: &Options, name: &str) -> Result<Arc<dyn Provider>, CliError> {
    let provider = asking(config, &options.model.betas, |options| {
        ah_provider::connect(name, options)
    })?;
    let (thinking, sampling) = (thinking(config), sampling(config));
    let left_out = asking(config, &options.model.betas, |options| {
        ah_provider::left_out(name, thinking, &sampling, options)
    })?;
    if !left_out.is_empty() {
        let names = left_out.join("`, `");
        crate::warn(&format!(
            "{name} is asked without `{names}`, which it does not take"
        ));
    }
    match provider.model() {
        model if model.price.is_none() && options.limits.max_budget_usd.is_some() => {
            let message = format!(
                "the price of {} is not known, so `--max-budget-usd` cannot hold",
                model.name
            );
            Err(CliError::failure(message).hint(format!(
                "give its price per million tokens in `.ah/models.json`: \
                 {{\"models\": {{\"{}\": {{\"price\": {{\"input\": 3, \"output\": 15}}}}}}}}",
                model.name
            )))
        }
        _ => Ok(provider),
    }
}

/// Where the key for the model that the configuration names is set, if there is one.
///
/// # Errors
///
/// Where there is no such model, or it has no key though it needs one.
pub fn credentials(config: &Config) -> Result<Option<String>, CliError> {
    asking(config, &[], |options| {
        ah_provider::credentials(&config.model.value, options)
    })
}

fn asking<T>(
    config: &Config,
    betas: &[String],
    ask: impl FnOnce(&ah_provider::Options<'_>) -> Result<T, ProviderError>,
) -> Result<T, CliError> {
    let environment = &config.environment;
    let servers = config.servers.iter();
    let servers = servers.map(|(name, server)| (name.clone(), server.value.clone()));
    let answer = ask(&ah_provider::Options {
        environment,
        catalog: &config.catalog()?,
        servers: &servers.collect(),
        key_source: &|command, setting| Arc::new(KeyCommand::new(command, setting, environment)),
        http: &ah_http::Options::from_variables(|name| environment.get(name)),
        betas,
        max_output: config
            .max_output_tokens
            .as_ref()
            .map(|count| count.value.get()),
        timeouts: Timeouts::default(),
        retry: config.retry,
        seed: SystemClock::default().now().0.unsigned_abs(),
    });
    answer.map_err(|error| CliError {
        message: error.to_string(),
        hint: error.hint,
        code: crate::error::FAILURE,
    })
}

/// What a session is told and given besides its model and its store.
pub struct Shown<'a> {
    /// All skills.
    pub skills: &'a Arc<Skills>,
    /// The skill that is in use.
    pub active: Option<&'a Skill>,
    /// Where commands run.
    pub standing: &'a Standing,
    /// Is told when standard output cannot be written any more.
    pub outlet: Outlet,
    /// Where MCP servers of the type `sdk` are, if a program drives this one.
    pub host: Option<SdkHost>,
    /// Where it is shown.
    pub stage: Stage<'a>,
    /// Hooks besides those of the settings, asked after them.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// What the program brings that embeds this one.
    pub own: Own,
}

/// What a program brings that embeds this one.
#[derive(Clone, Default)]
pub struct Own {
    /// Its model, in the place of that of the settings.
    pub provider: Option<Arc<dyn Provider>>,
    /// Its tools, in the place of others of their names.
    pub tools: Vec<Arc<dyn Tool>>,
}

/// Where a session is shown.
pub enum Stage<'a> {
    /// On the streams, as the options say.
    Streams,
    /// By the program that drives this one.
    Host(Arc<dyn Frontend>),
    /// In a conversation at a terminal.
    Conversation(&'a Link),
}

/// The models that the settings and the catalogue know.
pub struct Catalogued {
    config: Config,
    options: Options,
}

impl Catalogued {
    /// Those that `config` and `options` give access to.
    pub fn new(config: Config, options: Options) -> Self {
        Self { config, options }
    }
}

impl Models for Catalogued {
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        let name = name.unwrap_or(&self.config.model.value);
        connect(&self.config, &self.options, name).map_err(|error| ProviderError {
            hint: error.hint,
            ..ProviderError::new(ErrorClass::Unknown, error.message)
        })
    }

    fn describe(&self, provider: &str, name: &str) -> Model {
        let catalog = self.config.catalog().unwrap_or_default();
        catalog.model(provider, name)
    }
}

/// All that a session on `store` needs.
///
/// # Errors
///
/// Where an option makes no sense with this model, or a file that the prompt needs cannot be read.
pub async fn session(
    provider: Arc<dyn Provider>,
    store: &Arc<SessionStore>,
    options: &Options,
    config: &Config,
    shown: Shown<'_>,
) -> Result<(Ports, Toolbox, SessionSettings), CliError> {
    let subagents = subagents(shown.skills, options, config, shown.standing)?;
    let sources = Sources {
        subagents: subagents.clone(),
        confined: shown.standing.confined(),
        store: store.clone(),
        skills: shown.skills,
        active: shown.active,
        has_person: has_person(options, config),
        web: web::of(&provider, shown.standing.confined(), options, config)?,
    };
    let (layered, warnings) = tools::layered(sources, options, config).await;
    warnings.iter().for_each(|warning| crate::warn(warning));
    let form = answer_form(options)?;
    let known = layered.iter().map(|known| known.tool.clone());
    let own = shown.own.tools.iter().cloned();
    let asked = form.iter().map(AnswerForm::tool);
    let mut tools = Toolbox::new(known.chain(own).chain(asked));
    if let Some(subagents) = subagents {
        tools = tools.with_subagents(subagents);
    }
    let settings = SessionSettings {
        answer_form: form,
        ..settings(&*provider, &tools, &shown, options, config)?
    };
    let tools = with_servers(tools, config, shown.standing, shown.host);
    let is_driven = matches!(shown.stage, Stage::Host(_));
    let view = || view(&*provider, store, &tools, options, config);
    let frontend = match shown.stage {
        Stage::Host(frontend) => frontend,
        Stage::Conversation(link) => Arc::new(link.frontend(view())),
        Stage::Streams => frontend(view(), options, config, shown.outlet),
    };
    let transcript = transcript(store, options, config).filter(|_| is_driven);
    let transcript = transcript.unwrap_or_else(|| store.path().to_owned());
    let summarizer = match &config.compaction_model {
        Some(name) => connect(config, options, &name.value)?,
        None => provider.clone(),
    };
    safety::ask_about_hosts(shown.standing, &frontend, config);
    if let Some(text) = safety::notice(shown.standing, options, config) {
        frontend.notice(&text);
    }
    let ports = Ports {
        provider,
        summarizer,
        store: store.clone(),
        clock: Arc::new(SystemClock::default()),
        frontend,
        rules: Arc::new(SettingsFiles::of(config)),
        hooks: hooks::of(store, transcript, config, shown.standing, shown.hooks),
    };
    Ok((ports, tools, settings))
}

/// The tools, and those of the MCP servers, which are started here. On the command line nobody waits for them; programs
/// expect the tools in the first request.
fn with_servers(
    tools: Toolbox,
    config: &Config,
    standing: &Standing,
    host: Option<SdkHost>,
) -> Toolbox {
    let (mut servers, faults) = config.mcp_servers();
    faults.iter().for_each(|fault| crate::warn(fault));
    if host.is_none() {
        servers.retain(|name, server| {
            let is_reached = server.transport != Transport::Sdk;
            if !is_reached {
                crate::warn(&format!(
                    "the MCP server `{name}` is left out: its type is `sdk`, and no program that has it drives this one"
                ));
            }
            is_reached
        });
        if servers.is_empty() {
            return tools;
        }
    }
    let options = ah_mcp::Options {
        host,
        ..config.mcp_options(standing)
    };
    let servers = RemoteServers::start(servers, options);
    for status in servers.not_started() {
        let reason = status.error.unwrap_or_default();
        crate::warn(&format!(
            "the MCP server `{}` is left out: {reason}",
            status.name
        ));
    }
    let patience = match config.interface {
        Interface::Native => Duration::ZERO,
        Interface::AgentSdk => PATIENCE,
    };
    tools.with_servers(Arc::new(servers), patience)
}

fn settings(
    provider: &dyn Provider,
    tools: &Toolbox,
    shown: &Shown<'_>,
    options: &Options,
    config: &Config,
) -> Result<SessionSettings, CliError> {
    let model = provider.model();
    let wanted = &options.limits;
    let (blocks, warnings) = system_prompt(config, options, tools.specs(), shown.skills)?;
    let system: Vec<_> = blocks
        .iter()
        .map(|block| ah_agent::prompt::text(block))
        .collect();
    for warning in warnings {
        crate::warn(&warning);
    }
    let estimated = system.iter().map(|text| estimate_text(text)).sum::<u64>();
    if let Some(most) = wanted.max_context_tokens.filter(|most| estimated > *most) {
        let message = format!(
            "the system prompt alone has about {estimated} tokens, and --max-context-tokens allows {most}"
        );
        return Err(
            CliError::usage(message).hint("`ah prompt` shows it, and where its parts come from")
        );
    }
    Ok(SessionSettings {
        system: system.into(),
        limits: Limits {
            max_turns: wanted.max_turns,
            max_tokens: wanted.max_tokens,
            max_context_tokens: wanted.max_context_tokens,
            max_budget: wanted.max_budget_usd.map(Cost::from_usd),
            deadline: None,
            context_window: model.context_window,
            reserved_output: model.max_output,
        },
        timeout_ms: timeout_ms(wanted),
        permissions: safety::permissions(shown.standing, options, config),
        concurrency: match config.tool_concurrency.value {
            Concurrency::Auto => ToolConcurrency::Auto,
            Concurrency::Serial => ToolConcurrency::Serial,
            Concurrency::Parallel => ToolConcurrency::Parallel,
        },
        max_messages: config
            .max_conversation_messages
            .as_ref()
            .map(|count| count.value),
        max_result_chars: config
            .max_tool_result_chars
            .as_ref()
            .map(|count| count.value)
            .filter(|count| *count > 0),
        answer_form: None,
        must_produce: options
            .prompt
            .must_produce
            .as_ref()
            .map(|file| config.environment.cwd().join(file)),
        thinking: thinking(config),
        sampling: sampling(config),
    })
}

/// Where the Agent SDKs look for the conversation; `None` where nothing is to be left behind.
pub fn transcript(store: &SessionStore, options: &Options, config: &Config) -> Option<PathBuf> {
    let path = config.transcript(store.uuid())?;
    (!options.resume.no_session_persistence).then_some(path)
}

/// The form that the answer must have.
fn answer_form(options: &Options) -> Result<Option<AnswerForm>, CliError> {
    let Some(text) = &options.prompt.json_schema else {
        return Ok(None);
    };
    let schema = serde_json::from_str(text).map_err(|error| error.to_string());
    match schema.and_then(AnswerForm::new) {
        Ok(form) => Ok(Some(form)),
        Err(fault) => Err(CliError::usage(format!(
            "the schema of the answer cannot be used: {fault}"
        ))
        .hint("give a JSON Schema whose `type` is `object`")),
    }
}

fn thinking(config: &Config) -> Thinking {
    Thinking {
        budget: config.max_thinking_tokens.as_ref().map(|count| count.value),
        effort: config.effort.as_ref().map(|effort| effort.value),
    }
}

fn sampling(config: &Config) -> Sampling {
    Sampling {
        temperature: config.temperature.as_ref().map(|share| share.value),
        top_p: config.top_p.as_ref().map(|share| share.value),
        stop: config
            .stop
            .as_ref()
            .map_or_else(Vec::new, |words| words.value.clone()),
    }
}

fn frontend(view: View, options: &Options, config: &Config, outlet: Outlet) -> Arc<dyn Frontend> {
    let look = Look::of_process(options.output.plain, &config.environment);
    let screen = || Screen::of_process(look, outlet);
    match options.output.output_format.unwrap_or_default() {
        OutputFormat::Events => Arc::new(Events::new(screen())),
        // The JSON formats have frontends of their own.
        OutputFormat::Text | OutputFormat::Json | OutputFormat::StreamJson => {
            Arc::new(Text::new(view, screen()))
        }
    }
}

fn view(
    provider: &dyn Provider,
    store: &SessionStore,
    tools: &Toolbox,
    options: &Options,
    config: &Config,
) -> View {
    View {
        interface: config.interface,
        model: provider.model().clone(),
        tools: tools.specs().clone(),
        cwd: config.environment.cwd().to_owned(),
        session: Some(store.id().to_string()),
        group: group(options, config),
        asks: safety::asks(options, config),
    }
}

/// Whether questions reach somebody who can answer them.
pub fn has_person(options: &Options, config: &Config) -> bool {
    let is_hosted = options.safety.permission_prompt_tool.as_deref() == Some("stdio");
    is_hosted || safety::asks(options, config).is_some()
}

/// The group of lines that a run by `--skill` is in, where GitHub shows the log.
fn group(options: &Options, config: &Config) -> Option<String> {
    let is_on_github = config.environment.get("GITHUB_ACTIONS") == Some("true");
    options.prompt.skill.clone().filter(|_| is_on_github)
}
