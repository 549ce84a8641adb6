//! Assembly of a session: the only place that names concrete providers, stores and tools.

pub(crate) mod agents;
pub mod check;
mod check_tool;
mod config_tool;
pub mod goal;
mod hooks;
mod isolation;
pub mod mcp;
mod post_hook;
pub mod recorded_check;
pub mod safety;
mod set_goal_tool;
pub mod specs;
pub mod tools;
pub mod web;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{Hook, HookEvent, HookedElicitations, Hooks};
use ah_agent::prompt::{Fact, PromptPart, PromptSource, SystemPrompt};
use ah_agent::skills::{Skill, Skills};
use ah_agent::{
    AnswerForm, Audience, Ports, SessionSettings, Subagents, ToolConcurrency, Toolbox, Watcher,
};
use ah_config::overrides::RunOptions;
use ah_config::rulebook::SettingsFiles;
use ah_config::{Concurrency, Config, Error};
use ah_conversation::{
    CheckInForce, CompactAt, Cost, Interface, Limits, Model, Provider, ServerState, Servers, Spent,
    Store, Thinking, Tool, ToolSpec, estimate_text,
};
use ah_ids::SystemClock;
use ah_mcp::{Asked, RemoteServers, SdkHost, Transport};
use ah_protocol::stream_json::PermissionTool;
use ah_store::SessionStore;

use crate::confinement::SandboxStatus;
use crate::confinement::command_files;
use crate::model::Around;
use crate::model::small;
use crate::model::{connect, sampling, thinking};
use crate::prompt::instructions::{milliseconds, system_prompt};
use crate::warn::Warn;
use crate::watched::watched;
pub use agents::{Main, as_main, subagents};
pub use hooks::before_session;
use isolation::InWorktrees;
use mcp::{mcp_options, without_hosts};
use recorded_check::RecordedTo;
use tools::Sources;

/// Maximum time that a request waits for MCP servers that were just started.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Inputs of a session besides its model, its store and its configuration.
pub struct SessionInputs<'a> {
    /// All skills.
    pub skills: &'a Arc<Skills>,
    /// The skill in use.
    pub active: Option<&'a Skill>,
    /// Sandbox status of the run.
    pub sandbox: &'a SandboxStatus,
    /// Whether a person can be asked.
    pub has_person: bool,
    /// The MCP servers of type `sdk`, if a host drives the session.
    pub host: Option<SdkHost>,
    /// Hooks besides those of the settings, asked after them.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// The model and the tools of the program that embeds the engine.
    pub extensions: HostExtensions,
    /// The file that the run is recorded to.
    pub recorded_to: RecordedTo,
    /// Callback for warnings while the session runs.
    pub warn: Warn,
}

/// The model, the tools and the store of a program that embeds the engine.
#[derive(Clone, Default)]
pub struct HostExtensions {
    /// Its store, open for writing; the session that the plan chooses is then not looked for.
    pub store: Option<Arc<SessionStore>>,
    /// What it puts around that store: the conversation is written there.
    pub conversation_store: Option<Arc<dyn Store>>,
    /// Its model; overrides that of the settings.
    pub provider: Option<Arc<dyn Provider>>,
    /// Its tools; each overrides another tool of the same name.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What it puts around each model that the session asks, those of subagents included.
    pub around: Option<Around>,
    /// Who watches its session besides the host.
    pub watch: Option<Watch>,
}

/// Returns a watcher of a session.
pub type Watch = Arc<dyn Fn(&SessionView) -> Arc<dyn Watcher> + Send + Sync>;

/// Properties of a session that those who see it need.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// The interface that the output is for.
    pub interface: Interface,
    /// The session's model; its context window is displayed.
    pub model: Model,
    /// The tools, for the display of their calls.
    pub tools: Arc<[ToolSpec]>,
    /// The folder that displayed paths are relative to.
    pub cwd: PathBuf,
    /// The session's id.
    pub session: String,
}

/// Returns what those who see a session need.
fn view(
    provider: &dyn Provider,
    tools: &Toolbox,
    store: &SessionStore,
    config: &Config,
) -> SessionView {
    SessionView {
        interface: config.interface,
        model: provider.model().clone(),
        tools: tools.specs().clone(),
        cwd: config.environment.cwd().to_owned(),
        session: store.id().to_string(),
    }
}

/// Returns the parts of a session on `store`, and warnings for the user. `make_audience` creates those who see it.
///
/// # Errors
///
/// If an option makes no sense with this model, or a file that the prompt needs cannot be read.
pub async fn session(
    provider: Arc<dyn Provider>,
    store: &Arc<SessionStore>,
    config: &Config,
    inputs: SessionInputs<'_>,
    make_audience: impl FnOnce(SessionView) -> Audience,
    warnings: &mut Vec<String>,
) -> Result<(Ports, Toolbox, SessionSettings), Error> {
    warnings.extend({ command_files::recover(store, config).await? }.map(|it| it.notice));
    let web = web::of(&provider, inputs.sandbox.confined(), config, warnings)?;
    let subagents = subagents(
        inputs.skills,
        config,
        inputs.sandbox,
        Some(InWorktrees::of(config, store, inputs.skills, &web)),
        (&inputs.warn, inputs.extensions.around.clone()),
        warnings,
    )?;
    let (sandbox, recorded_to, mut seals) = (inputs.sandbox, &inputs.recorded_to, None);
    let check = check::of(config, sandbox, recorded_to, store, &mut seals);
    let check = CheckInForce::from(check.await?);
    let sources = Sources {
        check: check.clone(),
        subagents: subagents.clone(),
        sandbox,
        recorded_to,
        store: store.clone(),
        skills: inputs.skills,
        active: inputs.active,
        has_person: config.run.host.answers_questions || inputs.has_person,
        web,
    };
    let (layered, more) = tools::layered(sources, config).await;
    warnings.extend(more);
    let form = answer_form(&config.run)?;
    let known = layered.iter().map(|known| known.tool.clone());
    let own = inputs.extensions.tools.iter().cloned();
    let tools = Toolbox::new(known.chain(own).chain(form.iter().map(AnswerForm::tool)))
        .with_search(config.tool_search(), config.interface);
    let tools = led(tools, subagents);
    let mut settings = SessionSettings {
        answer_form: form,
        ..settings(&*provider, &tools, &inputs, config, warnings)?
    };
    settings.permissions.readable = safety::readable(store, inputs.skills, config);
    let view = view(&*provider, &tools, store, config);
    let audience = seen_by(view, &inputs, config, make_audience);
    settings.check = check;
    seals.iter().for_each(|text| audience.notice(text));
    let summarizer = summarizer(&provider, config, warnings)?;
    let is_hosted = inputs.host.is_some();
    let transcribed = hooks::transcript(store, config, is_hosted, audience, warnings);
    let (transcript, audience) = transcribed.await?;
    let hooks = hooks::of(store, transcript, config, sandbox, &audience, inputs.hooks);
    let asked = (inputs.host, inputs.has_person);
    let options = ah_mcp::Options {
        outputs: Some(store.outputs().to_owned()),
        ..server_options(asked, &hooks, &audience, config, sandbox)
    };
    // A host has the state of each server, in its first message and by request.
    let warn = (!is_hosted).then(|| inputs.warn.clone());
    let tools = with_servers(tools, (config, sandbox), options, warn, warnings);
    let audience = decided_by_tool(audience, &tools, &config.run);
    let (audience, variables) = watched(audience, &config.environment, store.uuid(), warnings);
    let ports = Ports {
        provider,
        summarizer,
        store: { inputs.extensions.conversation_store.clone() }.unwrap_or_else(|| store.clone()),
        clock: Arc::new(SystemClock::default()),
        audience,
        variables,
        agent_id: None,
        rules: Arc::new(SettingsFiles::of(config)),
        hooks,
        pictures: Arc::new(ah_tools::checked_picture),
        refusals: safety::refusals(sandbox),
        command_files: safety::command_files(sandbox, store, config),
    };
    Ok((ports, tools, settings))
}

/// Returns the tools of a session that has these subagents.
fn led(tools: Toolbox, subagents: Option<Arc<Subagents>>) -> Toolbox {
    match subagents {
        Some(subagents) => tools.with_subagents(subagents),
        None => tools,
    }
}

/// Returns those who see the session, who are told what its sandbox means for them.
fn seen_by(
    view: SessionView,
    inputs: &SessionInputs<'_>,
    config: &Config,
    make_audience: impl FnOnce(SessionView) -> Audience,
) -> Audience {
    let watcher = inputs.extensions.watch.as_ref().map(|watch| watch(&view));
    let audience = make_audience(view);
    let audience = match watcher {
        Some(watcher) => audience.with_first(watcher),
        None => audience,
    };
    safety::ask_about_hosts(inputs.sandbox, &audience, config);
    if let Some(text) = safety::notice(inputs.sandbox, inputs.has_person, config) {
        audience.notice(&text);
    }
    audience
}

/// Returns the model that writes summaries: the one that the settings name, or that of the session.
fn summarizer(
    provider: &Arc<dyn Provider>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<Arc<dyn Provider>, Error> {
    match &config.compaction_model {
        Some(name) => connect(config, &name.value, warnings),
        None => Ok(provider.clone()),
    }
}

/// Returns the options of MCP servers; what they ask the user goes to the hooks, and to the host of an Agent SDK or to the
/// person at the terminal.
fn server_options(
    (host, has_person): (Option<SdkHost>, bool),
    hooks: &Hooks,
    audience: &Audience,
    config: &Config,
    sandbox_status: &SandboxStatus,
) -> ah_mcp::Options {
    let is_answered = host.is_some() || has_person || hooks.has(HookEvent::Elicitation);
    let asked = || HookedElicitations::new(hooks.clone(), audience.clone());
    ah_mcp::Options {
        host,
        asked: is_answered.then(|| Asked(Arc::new(asked()))),
        ..mcp_options(config, sandbox_status)
    }
}

/// Returns the audience, whose questions about permissions a tool answers if one is named.
fn decided_by_tool(audience: Audience, tools: &Toolbox, options: &RunOptions) -> Audience {
    match (&options.host.permission_tool, tools.servers()) {
        (Some(name), Some(servers)) => {
            let (servers, name) = (servers.clone(), name.clone());
            let host = PermissionTool::new(audience.clone(), servers, name);
            audience.with_host(Arc::new(host))
        }
        _ => audience,
    }
}

/// Returns the tools including those of MCP servers, which are started here. The first request waits for them: tools
/// that came and went with the start-up times would change the beginning of every request.
fn with_servers(
    tools: Toolbox,
    (config, sandbox_status): (&Config, &SandboxStatus),
    options: ah_mcp::Options,
    warn: Option<Warn>,
    warnings: &mut Vec<String>,
) -> Toolbox {
    let (mut servers, errors) = config.mcp_servers();
    warnings.extend(errors);
    let open = config.open_servers();
    let asks = "ah mcp test {name}";
    warnings.extend(without_hosts(open, asks, sandbox_status));
    if options.host.is_none() {
        servers.retain(|name, server| {
            let is_reached = server.transport != Transport::Sdk;
            if !is_reached {
                warnings.push(format!(
                    "the MCP server `{name}` is left out: it has type `sdk`, but the program that drives this session does not provide it"
                ));
            }
            is_reached
        });
        if servers.is_empty() {
            return tools;
        }
    }
    let servers = RemoteServers::start(servers, options);
    let mut left_out = Vec::new();
    for status in servers.not_started() {
        let reason = status.error.unwrap_or_default();
        warnings.push(format!(
            "the MCP server `{}` is left out: {reason}",
            status.name
        ));
        left_out.push(status.name);
    }
    let servers: Arc<dyn Servers> = Arc::new(servers);
    if let Some(warn) = warn {
        tokio::spawn(tell_failures(servers.clone(), left_out, warn));
    }
    tools.with_servers(servers, PATIENCE)
}

/// Says which servers have not started, and which tools of the others cannot be used, where nobody would notice that they
/// are not there. Servers in `known` have been named.
async fn tell_failures(servers: Arc<dyn Servers>, known: Vec<String>, warn: Warn) {
    servers.ready(PATIENCE).await;
    for status in servers.status() {
        for tool in &status.left_out {
            let tool = tool.trim().replace('\n', " ");
            warn(&format!(
                "a tool of the MCP server `{}` is left out: {tool}",
                status.name
            ));
        }
        let has_failed = matches!(status.state, ServerState::Failed | ServerState::NeedsAuth);
        if has_failed && !known.contains(&status.name) {
            let reason = status.error.unwrap_or_default();
            let reason = reason.trim().replace('\n', " ");
            warn(&format!(
                "the MCP server `{}` failed: {reason}",
                status.name
            ));
        }
    }
}

fn settings(
    provider: &dyn Provider,
    tools: &Toolbox,
    inputs: &SessionInputs<'_>,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<SessionSettings, Error> {
    let model = provider.model();
    let wanted = &config.run.limits;
    let sandbox = inputs.sandbox.summary();
    let (blocks, more) = system_prompt(config, tools.specs(), inputs.skills, &sandbox)?;
    warnings.extend(more);
    let system: Vec<_> = blocks
        .iter()
        .map(|block| ah_agent::prompt::text(block))
        .collect();
    let estimated = system.iter().map(|text| estimate_text(text)).sum::<u64>();
    if let Some(most) = wanted.max_context_tokens.filter(|most| estimated > *most) {
        let message = format!(
            "the system prompt alone takes about {estimated} tokens, more than the {most} that --max-context-tokens allows"
        );
        return Err(
            Error::usage(message).hint("`ah prompt` shows the prompt and the sources of its parts")
        );
    }
    Ok(SessionSettings {
        prompt: prompt_source(config, tools, inputs.skills, sandbox, &blocks),
        plan_instructions: config.run.prompt.plan_instructions.clone(),
        setup: config.run.prompt.setup,
        tool_aliases: Arc::new(config.run.tools.aliases.clone()),
        limits: Limits {
            max_turns: wanted.max_turns,
            max_tokens: wanted.max_tokens,
            max_context_tokens: wanted.max_context_tokens,
            compact_at: compact_at(config),
            max_budget: wanted.max_budget_usd.map(Cost::from_usd),
            spent_beside: Spent::default(),
            deadline: None,
            context_window: model.context_window,
            reserved_output: model.max_output,
            allows_repetition: false,
            ends_chants: small::is_on(&config.tools),
        },
        timeout_ms: wanted.timeout.map(milliseconds),
        permissions: safety::permissions(inputs.sandbox, inputs.has_person, config),
        concurrency: match config.tools.tool_concurrency.value {
            Concurrency::Auto => ToolConcurrency::Auto,
            Concurrency::Serial => ToolConcurrency::Serial,
            Concurrency::Parallel => ToolConcurrency::Parallel,
        },
        max_messages: config
            .requests
            .max_conversation_messages
            .as_ref()
            .map(|count| count.value),
        max_result_chars: config
            .tools
            .max_tool_result_chars
            .as_ref()
            .map(|count| count.value)
            .filter(|count| *count > 0),
        answer_form: None,
        check: CheckInForce::default(),
        must_produce: config
            .run
            .prompt
            .must_produce
            .as_ref()
            .map(|file| config.environment.cwd().join(file)),
        thinking: match thinking(&config.requests) {
            Thinking {
                budget: None,
                effort: None,
            } => small::thinking(&config.tools, model.context_window).unwrap_or_default(),
            chosen => chosen,
        },
        sampling: sampling(&config.requests),
    })
}

/// Returns when the conversation is summarised: as typed, or the part of the window in the settings that triggers a summary.
fn compact_at(config: &Config) -> Option<CompactAt> {
    let window = config
        .requests
        .auto_compact_window
        .as_ref()
        .map(|window| window.value);
    let crowded = window.map(|window| window.saturating_mul(Limits::CROWDED) / 100);
    let chosen = config.run.limits.compact_at.or(crowded);
    { chosen.map(CompactAt::Tokens) }.or_else(|| small::compact_at(&config.tools))
}

/// Returns the source of the session's prompt: `blocks`, as long as a file that replaces them cannot be read again.
fn prompt_source(
    config: &Config,
    tools: &Toolbox,
    skills: &Arc<Skills>,
    sandbox: String,
    blocks: &[Vec<PromptPart>],
) -> PromptSource {
    let (config, specs) = (config.clone(), tools.specs().clone());
    let (skills, first) = (skills.clone(), SystemPrompt::of(blocks));
    PromptSource::new(move || {
        let mut prompt = match system_prompt(&config, &specs, &skills, &sandbox) {
            Ok((blocks, _)) => SystemPrompt::of(&blocks),
            Err(_) => first.clone(),
        };
        prompt
            .facts
            .extend(config.run.prompt.files.as_ref().map(|text| Fact {
                name: "files".to_owned(),
                text: text.clone(),
                is_apart: true,
            }));
        prompt
    })
}

/// Returns the required form of the answer.
fn answer_form(options: &RunOptions) -> Result<Option<AnswerForm>, Error> {
    let Some(schema) = &options.prompt.answer_schema else {
        return Ok(None);
    };
    match AnswerForm::new(schema.clone()) {
        Ok(form) => Ok(Some(form)),
        Err(error) => Err(bad_schema(&error)),
    }
}

/// Returns the error for an unusable JSON Schema of the answer.
pub fn bad_schema(error: &str) -> Error {
    Error::usage(format!("the schema of the answer cannot be used: {error}"))
        .hint("give a JSON Schema whose `type` is `object`")
}
