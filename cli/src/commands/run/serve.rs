//! Runs for programs: they get the messages of the Agent SDK, all of them or the result alone, and may drive the
//! session by its protocol.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ah_agent::Session;
use ah_agent::agents::Agents;
use ah_agent::skills::Skills;
use ah_conversation::{Clock, ExitReason, MessageId, SessionId, Time};
use ah_mcp::{SdkHost, SdkPipe};
use ah_protocol::stream_json::{
    Asks, Initialize, Pipe, Pipes, Served, Source, Streams, Wanted, serve,
};
use ah_protocol::{AgentInfo, Engaged, Engine, Ids, Introduction, Refusal, Setting};
use ah_store::{Paths, SystemClock, uuid_of};
use async_trait::async_trait;
use futures_util::SinkExt as _;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use super::{Opened, open};
use crate::args::options::{Options, OutputFormat, PermissionPrompts, PluginFolder};
use crate::args::session::{SessionChoice, SessionPlan};
use crate::assemble::{self, Catalogued, Own, Shown, Stage};
use crate::config::layers::Origin;
use crate::config::{Config, Sourced};
use crate::confinement::Attempt;
use crate::error::CliError;
use crate::print::Outlet;
use crate::{exit, extensions};

/// The version of the program that the official SDKs know: what it does is what we do, and they read the digits.
const STANDS_IN_FOR: &str = "2.1.329";

/// Serves the program that has started us; gives the exit code.
///
/// # Errors
///
/// Where the session cannot be opened, or could not be kept.
pub async fn perform(
    source: Source,
    fork_at: Option<u32>,
    options: &Options,
    config: &Config,
    signals: &Signals,
) -> Result<u8, CliError> {
    let is_driven = matches!(source, Source::Lines(_));
    let format = options.output.output_format.unwrap_or_default();
    let kept = Kept::default();
    let output: Box<dyn Write + Send> = match (format, options.output.verbose) {
        (OutputFormat::StreamJson, _) => Box::new(io::stdout()),
        (_, keeps_all) => Box::new(Keeper {
            kept: kept.clone(),
            keeps_all,
        }),
    };
    let engaging = Engaging {
        streams: Streams { source, output },
        fork_at,
        options,
        config,
        stop: signals.token(),
        own: Own::default(),
    };
    let (served, refusal) = engage(engaging).await?;
    if format == OutputFormat::Json && !matches!(served, Served::Refused) {
        kept.print(options.output.verbose)?;
    }
    match (served, signals.interrupt()) {
        (Served::Closed(fault), _) => {
            Err(CliError::failure(fault).code(crate::error::OUTPUT_CLOSED))
        }
        (Served::Lost(error), _) => Err(error.into()),
        (Served::Refused, _) => Err(refusal),
        (Served::Ended { .. }, interrupt @ Some(_)) => Ok(exit::code(
            config.interface,
            &ExitReason::Interrupted,
            interrupt,
        )),
        (
            Served::Ended {
                failure: Some(failure),
                ..
            },
            None,
        ) if !is_driven => Err(CliError {
            message: failure.to_string(),
            hint: failure.hint(),
            code: crate::error::FAILURE,
        }),
        (Served::Ended { is_error, .. }, None) => Ok(u8::from(is_error)),
    }
}

/// What a talk with a host needs.
pub(crate) struct Engaging<'a> {
    /// Both directions of it.
    pub(crate) streams: Streams,
    /// Where the session is forked.
    pub(crate) fork_at: Option<u32>,
    pub(crate) options: &'a Options,
    pub(crate) config: &'a Config,
    /// Ends it when it is cancelled.
    pub(crate) stop: &'a CancellationToken,
    pub(crate) own: Own,
}

/// Talks with a host to the end. Gives how it ended, and why there was no session, where there was none.
///
/// # Errors
///
/// Where the sandbox that was insisted on is not to be had.
pub(crate) async fn engage(engaging: Engaging<'_>) -> Result<(Served, CliError), CliError> {
    let (options, config) = (engaging.options, engaging.config);
    let workshop = Arc::new(Workshop {
        attempt: Attempt::begin(options, config)?,
        options: options.clone(),
        config: config.clone(),
        fork_at: engaging.fork_at,
        outlet: Outlet::new(engaging.stop.clone()),
        own: engaging.own,
        refusal: OnceLock::new(),
        first_words: Mutex::new(None),
        held: OnceLock::new(),
        begun: Mutex::new(None),
    });
    let reads_state = config
        .environment
        .get("CLAUDE_CODE_SDK_READS_SESSION_STATE");
    let wanted = Wanted {
        partial_messages: options.output.include_partial_messages,
        replays: options.output.replay_user_messages,
        hooks: options.output.include_hook_events,
        mirror: options.output.session_mirror,
        session_state: reads_state == Some("1"),
        asks: match (
            options.safety.permission_prompt_tool.as_deref(),
            options.safety.permission_prompts,
        ) {
            (Some("stdio"), None | Some(PermissionPrompts::Host)) => Asks::Host,
            _ => Asks::Nobody,
        },
    };
    let ids = Arc::new(SystemIds::default());
    let served = serve(
        engaging.streams,
        workshop.clone(),
        ids,
        wanted,
        engaging.stop,
    );
    let served = served.await;
    workshop.clear_away().await;
    Ok((served, workshop.refusal()))
}

/// The lines of a run that is told only when it has ended.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Vec<u8>>>>);

struct Keeper {
    kept: Kept,
    keeps_all: bool,
}

impl Write for Keeper {
    /// Takes one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut lines = self.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.keeps_all {
            lines.clear();
        }
        lines.push(line.trim_ascii_end().to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kept {
    /// Prints the last line, or all as one array.
    fn print(&self, all: bool) -> io::Result<()> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = io::stdout().lock();
        match (all, &lines[..]) {
            (false, [.., last]) => out.write_all(last)?,
            (false, []) => return Ok(()),
            (true, lines) => {
                out.write_all(b"[")?;
                out.write_all(&lines.join(&b","[..]))?;
                out.write_all(b"]")?;
            }
        }
        out.write_all(b"\n")
    }
}

/// Puts the session together once the program has said what it wants.
struct Workshop {
    attempt: Attempt,
    options: Options,
    config: Config,
    fork_at: Option<u32>,
    outlet: Outlet,
    own: Own,
    /// Why there is no session, with its exit code.
    refusal: OnceLock<CliError>,
    /// What the first prompt begins with, until it has come.
    first_words: Mutex<Option<String>>,
    /// What holds once the host has said what it wants.
    held: OnceLock<Config>,
    /// A session that is new.
    begun: Mutex<Option<Arc<ah_store::SessionStore>>>,
}

impl Workshop {
    fn config(&self) -> &Config {
        self.held.get().unwrap_or(&self.config)
    }

    /// Removes a new session in which nobody has said anything.
    async fn clear_away(&self) {
        let Some(store) = lock(&self.begun).take() else {
            return;
        };
        let is_empty = store.read(|tree| Ok(tree.heads()?.is_empty())).await;
        let paths = Paths::of(store.path());
        // It is still held, so nobody else has begun to use it.
        drop(store);
        if is_empty.is_ok_and(|is_empty| is_empty) {
            // What cannot be removed now is cleared away by `ah gc`.
            let _ = self.config.sessions().remove(&paths);
        }
    }

    fn refusal(&self) -> CliError {
        let refusal = self.refusal.get().cloned();
        refusal.unwrap_or_else(|| CliError::failure("the session could not be opened"))
    }

    fn refuse(&self, error: CliError) -> Refusal {
        let text = match &error.hint {
            Some(hint) => format!("{} ({hint})", error.message),
            None => error.message.clone(),
        };
        // The first one is told.
        let _ = self.refusal.set(error);
        Refusal { text }
    }

    async fn opened(&self, setting: Setting<'_>) -> Result<Engaged, CliError> {
        let (mut options, mut config) = (self.options.clone(), self.config.clone());
        let wishes = setting.wishes;
        heed(wishes, &mut options, &mut config)?;
        // It is opened once.
        let _ = self.held.set(config.clone());
        if let Some(main) = assemble::as_main(&options, &config)? {
            (options, config) = (main.options, main.config);
            if let Some(words) = main.first_words {
                *lock(&self.first_words) = Some(words);
            }
        }
        let (mut skills, warnings) = extensions::skills(&config);
        if let Some(wanted) = &wishes.skills {
            skills.retain(|skill| wanted.contains(&skill.name));
        }
        let skills = Arc::new(skills);
        let plan = SessionPlan::of(&options, config.interface)?;
        let Opened { session, store } = open(
            &plan,
            &options,
            &config,
            self.fork_at,
            Shown {
                skills: &skills,
                active: None,
                standing: self.attempt.standing(),
                outlet: self.outlet.clone(),
                host: Some(host(setting.pipes)),
                stage: Stage::Host(setting.frontend.clone()),
                hooks: setting.hooks,
                own: self.own.clone(),
            },
        )
        .await?;
        if plan.choice == SessionChoice::New && !plan.ephemeral {
            *lock(&self.begun) = Some(store.clone());
        }
        for warning in warnings {
            setting.frontend.notice(&warning);
        }
        for notice in store.take_notices().await {
            setting.frontend.notice(&notice.to_string());
        }
        if let Some(title) = &wishes.title
            && session.transcript().last().is_none()
        {
            store.set_name(title.clone()).await?;
        }
        Ok(self.engaged(session, &store, &skills, &options, config))
    }

    fn engaged(
        &self,
        session: Session,
        store: &ah_store::SessionStore,
        skills: &Skills,
        options: &Options,
        config: Config,
    ) -> Engaged {
        let source = assemble::credentials(&config).ok().flatten();
        let subagents = session.tools().subagents();
        let agents = subagents.map(|subagents| told(subagents.agents()));
        let agents = agents.unwrap_or_default();
        Engaged {
            session_id: store.uuid().to_owned(),
            cwd: config.environment.cwd().to_owned(),
            transcript_path: assemble::transcript(store, options, &config),
            servers: session.tools().servers().cloned(),
            session,
            max_turns: options.limits.max_turns,
            max_budget_usd: options.limits.max_budget_usd,
            max_retries: config.retry.retries,
            api_key_source: source.unwrap_or_else(|| "none".to_owned()),
            skills: skills.iter().map(|skill| skill.name.clone()).collect(),
            plugins: { config.plugins.iter() }
                .map(|plugin| (plugin.name.clone(), plugin.root.clone()))
                .collect(),
            agents,
            models: Arc::new(Catalogued::new(config, options.clone())),
        }
    }
}

#[async_trait]
impl Engine for Workshop {
    fn introduction(&self) -> Introduction {
        let config = self.config();
        let (commands, _) = extensions::commands(config);
        let (skills, _) = extensions::skills(config);
        let skills = skills.iter().filter(|skill| skill.is_command);
        let compact = (
            "compact".to_owned(),
            "Put a summary in the place of all that was said".to_owned(),
            "[what it is to heed]".to_owned(),
        );
        let commands = { commands.iter() }
            .map(|command| {
                let hint = command.argument_hint.clone().unwrap_or_default();
                (command.name.clone(), command.description.clone(), hint)
            })
            .chain(skills.map(|skill| {
                let none = String::new();
                (skill.name.clone(), skill.description.clone(), none)
            }))
            .chain([compact]);
        Introduction {
            version: format!("{STANDS_IN_FOR} (ah {})", env!("CARGO_PKG_VERSION")),
            commands: commands.collect(),
            models: models(config),
            agents: extensions::agents(&self.options.prompt, config)
                .map_or_else(|_| Vec::new(), |(agents, _)| told(&agents)),
            account: json!({
                "apiKeySource": assemble::credentials(config).ok().flatten(),
            }),
        }
    }

    async fn open(&self, setting: Setting<'_>) -> Result<Engaged, Refusal> {
        self.opened(setting)
            .await
            .map_err(|error| self.refuse(error))
    }

    async fn expand(&self, prompt: &str) -> Result<String, Refusal> {
        let config = self.config();
        let (skills, _) = extensions::skills(config);
        let given = self.options.prompt.skill.as_deref();
        let expanded = extensions::expand(prompt, given, &skills, config, &self.attempt).await;
        match expanded {
            Ok(expanded) => Ok(match lock(&self.first_words).take() {
                Some(words) => format!("{words}\n\n{}", expanded.text),
                None => expanded.text,
            }),
            Err(error) => Err(self.refuse(error)),
        }
    }
}

/// Takes up what a host wants besides what stands on the command line.
fn heed(wishes: &Initialize, options: &mut Options, config: &mut Config) -> Result<(), CliError> {
    if let Some(prompt) = &wishes.system_prompt {
        options.prompt.system_prompt = Some(prompt.joined());
    }
    if let Some(text) = &wishes.append_system_prompt {
        options.prompt.append_system_prompt = Some(text.clone());
    }
    if let Some(schema) = &wishes.json_schema {
        options.prompt.json_schema = Some(schema.to_string());
    }
    if let Some(agents) = &wishes.agents {
        let given = options.prompt.agents.as_deref();
        options.prompt.agents = Some(with_agents(given, agents)?);
    }
    for rule in wishes.disallowed_tools.iter().flatten() {
        let value = rule.parse();
        let value = value.map_err(|fault| CliError::failure(format!("{rule}: {fault}")))?;
        config.deny.push(Sourced {
            value,
            origin: Origin::CommandLine,
        });
    }
    if let Some(servers) = &wishes.mcp_servers {
        let text = json!({"mcpServers": servers}).to_string();
        config.add_servers("initialize", &text)?;
    }
    for name in &wishes.sdk_mcp_servers {
        let entry = serde_json::from_value(json!({"type": "sdk", "name": name}));
        let value = entry.map_err(|fault| CliError::failure(format!("{name}: {fault}")))?;
        let origin = Origin::CommandLine;
        config
            .mcp_servers
            .insert(name.clone(), Sourced { value, origin });
    }
    let plugins = wishes.plugins.iter().map(|plugin| PluginFolder {
        path: plugin.path.clone(),
        has_servers: !plugin.skip_mcp_discovery,
    });
    let is_strict = options.tools.strict_mcp_config;
    config.add_plugins(&plugins.collect::<Vec<_>>(), is_strict);
    Ok(())
}

/// The definitions of the command line, with those of the host over them.
fn with_agents(given: Option<&str>, more: &Map<String, Value>) -> Result<String, CliError> {
    let given = given.map_or_else(|| Ok(Map::new()), serde_json::from_str);
    let mut agents: Map<String, Value> =
        given.map_err(|fault| CliError::usage(format!("--agents is no JSON object: {fault}")))?;
    agents.extend(more.clone());
    Ok(Value::Object(agents).to_string())
}

/// The definitions, as hosts are told of them.
fn told(agents: &Agents) -> Vec<AgentInfo> {
    let agents = agents.iter().map(|agent| AgentInfo {
        name: agent.name.clone(),
        description: agent.description.clone(),
        model: agent.model.clone(),
    });
    agents.collect()
}

/// The MCP servers that live in the program that drives this one.
fn host(pipes: Pipes) -> SdkHost {
    SdkHost::new(move |name| {
        let Pipe { outbound, inbound } = pipes.pipe(name);
        SdkPipe {
            to_host: Box::pin(outbound.sink_map_err(io::Error::other)),
            from_host: inbound,
        }
    })
}

/// The models that have a short name, and what they stand for.
fn models(config: &Config) -> Vec<(String, String, String)> {
    let default = config.model.value.clone();
    let mut models = vec![(
        "default".to_owned(),
        "Default".to_owned(),
        format!("the model of the settings, {default}"),
    )];
    if let Ok(catalog) = config.catalog() {
        let aliases = catalog.aliases();
        models.extend(aliases.map(|(alias, model)| {
            let description = format!("{model}, by its short name");
            (alias.to_owned(), alias.to_owned(), description)
        }));
    }
    models
}

/// Time and ids of the system.
#[derive(Default)]
struct SystemIds(SystemClock);

impl Clock for SystemIds {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn message_id(&self) -> MessageId {
        self.0.message_id()
    }
}

impl Ids for SystemIds {
    fn fresh(&self) -> String {
        self.of(&self.message_id())
    }

    fn of(&self, message: &MessageId) -> String {
        uuid_of(&SessionId::from(message.as_str()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
