//! Sessions for programs, which get the messages of the Agent SDK (all of them or only the result) and may drive the
//! session by its protocol.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ah_agent::Session;
use ah_agent::hooks::LineHooks;
use ah_agent::skills::{Skill, Skills};
use ah_agent::styles::DEFAULT;
use ah_config::overrides::{McpSource, PluginFolder, SystemPromptSource};
use ah_config::{Config, Error, Overrides, extensions, parse_rules};
use ah_conversation::{Check, PermissionMode, Servers, TellSealed, json};
use ah_desk::{Command, Offered, Refusal};
use ah_mcp::{SdkHost, SdkPipe};
use ah_protocol::stream_json::{
    self, Asks, Initialize, Pipe, Pipes, Program, Served, Streams, Wanted, serve,
};
use ah_protocol::{Engaged, Engine, ExpandedPrompt, Introduction, Setting};
use ah_store::SessionStore;
use async_trait::async_trait;
use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::assemble::recorded_check::RecordedTo;
use crate::assemble::{self, HostExtensions, SessionInputs, before_session};
use crate::confinement::SandboxProbe;
use crate::desk::refusal::kind;
use crate::identity::{STANDS_IN_FOR, SystemIds};
use crate::model::{self, Catalogued};
use crate::prompt::expand::{Expanded, expand};
use crate::prompt::served;
use crate::sessions::folders::give_up;
use crate::sessions::open::Opened;
use crate::sessions::opening::Opening;
use crate::sessions::place::transcript;
use crate::sessions::plan::{SessionChoice, SessionPlan};
use crate::warn::Warn;

/// Stands for the session's UUID in the texts of commands and skills.
const SESSION_ID: &str = "${CLAUDE_SESSION_ID}";
/// Server of models that no server's list names.
const ANTHROPIC: &str = "anthropic";

/// Session to serve, and the settings it starts with.
pub struct ServeRequest<'a> {
    /// The session that the host wants.
    pub plan: SessionPlan,
    /// The number of the message at which the session is forked.
    pub fork_at: Option<u32>,
    /// The configuration until the host sends its own.
    pub config: &'a Config,
    /// Ends the conversation when cancelled.
    pub stop: &'a CancellationToken,
    /// The model and the tools of the program that embeds the engine.
    pub extensions: HostExtensions,
    /// Callback for warnings.
    pub warn: Warn,
}

/// Serves another process over `streams` until it ends. Returns how it ended, and the reason if no session was opened.
///
/// # Errors
///
/// If the required sandbox is unavailable.
pub async fn serve_host(
    streams: Streams,
    request: ServeRequest<'_>,
) -> Result<(Served, Error), Error> {
    let (stop, wanted) = (request.stop.clone(), wanted(request.config));
    let opener = SessionOpener::new(request)?;
    let ids = Arc::new(SystemIds::default());
    let served = serve(streams, opener.clone(), ids, wanted, &stop).await;
    Ok(opener.finish(served).await)
}

/// Serves this program, with values in place of lines, until its requests end. Returns how it ended, and the reason if
/// no session was opened.
///
/// # Errors
///
/// If the required sandbox is unavailable.
pub async fn serve_program(
    program: Program,
    request: ServeRequest<'_>,
) -> Result<(Served, Error), Error> {
    let (stop, wanted) = (request.stop.clone(), wanted(request.config));
    let wanted = Wanted {
        // The program's own host answers permission questions, if it has one.
        asks: Asks::Nobody,
        ..wanted
    };
    let opener = SessionOpener::new(request)?;
    let ids = Arc::new(SystemIds::default());
    let served = stream_json::serve_program(program, opener.clone(), ids, wanted, &stop).await;
    Ok(opener.finish(served).await)
}

/// Returns the additional messages that the configuration asks for.
fn wanted(config: &Config) -> Wanted {
    // The SDKs set the one, other hosts the other.
    let reads_state = [
        "CLAUDE_CODE_SDK_READS_SESSION_STATE",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    ];
    let is_set = |name: &str| matches!(config.environment.get(name), Some("1" | "true"));
    let reads_state = reads_state.into_iter().any(is_set);
    let host = &config.run.host;
    Wanted {
        partial_messages: host.partial_messages,
        replays: host.replays,
        hooks: host.hook_events,
        mirror: host.mirror,
        subagent_text: host.subagent_text,
        session_state: reads_state,
        asks: if host.decides_permissions {
            Asks::Host
        } else {
            Asks::Nobody
        },
    }
}

/// Opens the session once the host has said what it wants.
struct SessionOpener {
    probe: Arc<SandboxProbe>,
    config: Config,
    plan: SessionPlan,
    fork_at: Option<u32>,
    extensions: HostExtensions,
    warn: Warn,
    /// The error that prevented the session.
    refusal: OnceLock<Error>,
    /// Text that the first prompt begins with, until it has come.
    first_words: Mutex<Option<String>>,
    /// The configuration with the host's options applied.
    held: OnceLock<Config>,
    /// The servers of the session that is open.
    servers: Mutex<Option<Arc<dyn Servers>>>,
    /// The store of the session that is open.
    store: Mutex<Option<Arc<SessionStore>>>,
    /// The file that it is recorded to.
    recorded_to: Mutex<RecordedTo>,
    /// The hooks of the session that is open, for the lines of commands.
    line_hooks: Mutex<Option<LineHooks>>,
    /// The stores of new sessions.
    begun: Mutex<Vec<Arc<SessionStore>>>,
}

impl SessionOpener {
    fn new(request: ServeRequest<'_>) -> Result<Arc<Self>, Error> {
        let config = request.config;
        let mut warnings = Vec::new();
        let probe = SandboxProbe::begin(config, &mut warnings)?;
        warnings.iter().for_each(|warning| (request.warn)(warning));
        Ok(Arc::new(Self {
            probe: Arc::new(probe),
            config: config.clone(),
            plan: request.plan,
            fork_at: request.fork_at,
            extensions: request.extensions,
            warn: request.warn,
            refusal: OnceLock::new(),
            first_words: Mutex::new(None),
            held: OnceLock::new(),
            servers: Mutex::new(None),
            store: Mutex::default(),
            recorded_to: Mutex::default(),
            line_hooks: Mutex::default(),
            begun: Mutex::default(),
        }))
    }

    /// Removes what is empty; returns how it ended with the reason why no session was opened.
    async fn finish(&self, served: Served) -> (Served, Error) {
        self.clear_away().await;
        (served, self.refusal())
    }

    fn config(&self) -> &Config {
        self.held.get().unwrap_or(&self.config)
    }

    /// Removes new sessions without messages.
    async fn clear_away(&self) {
        // A store that somebody has open is not removed.
        drop(lock(&self.store).take());
        let begun = std::mem::take(&mut *lock(&self.begun));
        for store in begun {
            give_up(store, &self.config).await;
        }
    }

    /// Returns the text of the server's prompt that `typed` calls; `None` if it calls none.
    async fn served(&self, typed: &str, config: &Config) -> Result<Option<Expanded>, Error> {
        let servers = lock(&self.servers).clone();
        let Some(servers) = servers.filter(|_| served::is_meant(typed, config)) else {
            return Ok(None);
        };
        servers.ready(assemble::PATIENCE).await;
        servers.prompts_known(assemble::PATIENCE).await;
        served::expand(typed, Some(&servers)).await
    }

    /// Returns a prompt with what its run is given.
    fn lent(&self, expanded: &Expanded, config: &Config) -> ExpandedPrompt {
        let text = match expanded.is_as_typed {
            true => expanded.text.clone(),
            false => expanded.text.replace(SESSION_ID, &self.session_id()),
        };
        let (applied, mut notices) = expanded.applied_to(config);
        if !expanded.warnings.is_empty() {
            // What is wrong with files was told when the session began.
            let (_, known) = extensions::commands(config);
            let own = expanded.warnings.iter();
            notices.extend(own.filter(|warning| !known.contains(warning)).cloned());
        }
        let own = applied.allow.iter().skip(config.allow.len());
        ExpandedPrompt {
            text: match lock(&self.first_words).take() {
                Some(words) => format!("{words}\n\n{text}"),
                None => text,
            },
            allow: own.map(|rule| rule.value.clone()).collect(),
            model: (applied.model != config.model).then(|| applied.model.value.clone()),
            notices,
        }
    }

    /// Returns the UUID of the open session; empty if there is none.
    fn session_id(&self) -> String {
        let store = lock(&self.store);
        store
            .as_ref()
            .map_or_else(String::new, |store| store.uuid().to_owned())
    }

    fn refusal(&self) -> Error {
        let refusal = self.refusal.get().cloned();
        refusal.unwrap_or_else(|| Error::failure("the session could not be opened"))
    }

    fn refuse(&self, error: Error) -> Refusal {
        let refusal = Refusal {
            text: error.in_one_line(),
            kind: kind(&error),
        };
        // Only the first error is reported.
        let _ = self.refusal.set(error);
        refusal
    }

    async fn opened(&self, setting: Setting<'_>) -> Result<Engaged, Error> {
        let mut config = self.config.clone();
        let wishes = setting.wishes;
        config.apply(overrides(wishes)?)?;
        // The session is opened only once.
        let _ = self.held.set(config.clone());
        if let Some(main) = assemble::as_main(&config)? {
            config = main.config;
            if let Some(words) = main.first_words.filter(|_| !setting.is_cleared) {
                *lock(&self.first_words) = Some(words);
            }
        }
        let mut opening = Opening::with(config, self.probe.clone());
        let (_, of_commands) = extensions::commands(&opening.config);
        opening.warnings.extend(of_commands);
        if let Some(wanted) = &wishes.skills {
            let is_wanted = |skill: &Skill| wanted.contains(&skill.name);
            Arc::make_mut(&mut opening.skills).retain(is_wanted);
        }
        let config = &opening.config;
        let new = SessionPlan {
            choice: SessionChoice::New,
            ephemeral: self.plan.ephemeral,
            ..SessionPlan::default()
        };
        let (plan, fork_at) = match setting.is_cleared {
            true => (&new, None),
            false => (&self.plan, self.fork_at),
        };
        let inputs = SessionInputs {
            // Behind this interface it is a program that answers, and its settings say what it is asked.
            has_person: config.interface.asks_person() && config.run.host.answers_questions,
            host: Some(host(setting.pipes)),
            hooks: setting.hooks,
            extensions: self.extensions.clone(),
            ..opening.inputs(self.warn.clone())
        };
        let audience = setting.audience.clone();
        let opened = opening.open(plan, fork_at, inputs, |_| audience).await?;
        let Opened {
            mut session,
            store,
            recorded_to,
            warnings,
        } = opened;
        *lock(&self.recorded_to) = recorded_to;
        if setting.is_cleared {
            session.begins_by("clear");
        }
        warnings.iter().for_each(|warning| (self.warn)(warning));
        if plan.choice == SessionChoice::New && !plan.ephemeral {
            lock(&self.begun).push(store.clone());
        }
        for notice in &opening.warnings {
            setting.audience.notice(notice);
        }
        for notice in store.take_notices().await {
            setting.audience.notice(&notice.to_string());
        }
        if let Some(title) = &wishes.title
            && session.transcript().last().is_none()
        {
            store.set_name(title.clone()).await?;
        }
        Ok(self.engaged(session, &store, opening))
    }

    fn engaged(&self, session: Session, store: &Arc<SessionStore>, opening: Opening) -> Engaged {
        let Opening { config, skills, .. } = opening;
        *lock(&self.servers) = session.tools().servers().cloned();
        *lock(&self.line_hooks) = Some(session.line_hooks());
        *lock(&self.store) = Some(store.clone());
        let source = model::credentials(&config).ok().flatten();
        Engaged {
            session_id: store.uuid().to_owned(),
            settings: settings(&config),
            cwd: config.environment.cwd().to_owned(),
            entrypoint: { config.environment.get("CLAUDE_CODE_ENTRYPOINT") }
                .unwrap_or("sdk-cli")
                .to_owned(),
            transcript_path: transcript(store, &config),
            session,
            max_turns: config.run.limits.max_turns,
            max_budget_usd: config.run.limits.max_budget_usd,
            task_patience: config.task_patience,
            max_retries: config.retry.retries,
            api_key_source: source.unwrap_or_else(|| "none".to_owned()),
            skills: skills.iter().map(|skill| skill.name.clone()).collect(),
            plugins: { config.plugins.iter() }
                .map(|plugin| (plugin.name.clone(), plugin.root.clone()))
                .collect(),
            models: Arc::new(Catalogued::new(config, self.warn.clone())),
        }
    }
}

#[async_trait]
impl Engine for SessionOpener {
    fn introduction(&self) -> Introduction {
        let config = self.config();
        let (styles, _) = extensions::output_styles(config);
        let (skills, _) = extensions::skills(config);
        Introduction {
            version: format!("{STANDS_IN_FOR} (ah {})", env!("CARGO_PKG_VERSION")),
            commands: commands(config, &skills),
            models: models(config),
            plugins: { config.plugins.iter() }
                .map(|plugin| (plugin.name.clone(), plugin.root.clone()))
                .collect(),
            // Programs look for the name that they have set, also where no style has it.
            style: extensions::output_style(config)
                .map(|style| style.name)
                .or_else(|| Some(config.requests.output_style.as_ref()?.value.clone()))
                .unwrap_or_else(|| DEFAULT.to_owned()),
            styles: std::iter::once(DEFAULT.to_owned())
                .chain(styles.into_iter().map(|style| style.name))
                .collect(),
            agents: extensions::agents(config)
                .map(|(agents, _)| agents)
                .unwrap_or_default(),
            account: json!({
                "tokenSource": "none",
                "apiKeySource": model::credentials(config).ok().flatten(),
            }),
        }
    }

    async fn open(&self, setting: Setting<'_>) -> Result<Engaged, Refusal> {
        self.opened(setting)
            .await
            .map_err(|error| self.refuse(error))
    }

    async fn expand(&self, prompt: &str) -> Result<ExpandedPrompt, Refusal> {
        let config = self.config();
        let (skills, _) = extensions::skills(config);
        let given = self.config.run.prompt.skill.as_deref();
        let own = lock(&self.line_hooks).clone();
        let hooks = || {
            own.clone()
                .unwrap_or_else(|| before_session(config, self.probe.status(), &self.warn))
        };
        let expanded = match self.served(prompt, config).await {
            Ok(Some(served)) => Ok(served),
            Ok(None) => expand(prompt, given, &skills, config, &self.probe, &hooks).await,
            Err(error) => Err(error),
        };
        match expanded {
            Ok(expanded) => Ok(self.lent(&expanded, config)),
            Err(error) => Err(self.refuse(error)),
        }
    }

    async fn check(
        &self,
        command: Option<&str>,
        mode: PermissionMode,
        tell: TellSealed<'_>,
    ) -> Result<Arc<dyn Check>, Refusal> {
        let store = lock(&self.store).clone();
        let store = store.ok_or_else(|| Refusal::failed("no session is open"))?;
        let (config, recorded_to) = (self.config().clone(), lock(&self.recorded_to).clone());
        let recorded = (self.probe.status(), &recorded_to);
        let sealed = assemble::goal::check_of((command, mode), config, recorded, &store, tell);
        sealed.await.map_err(|error| in_one_line(&error))
    }

    fn end_check(&self) -> Result<(), Refusal> {
        assemble::goal::may_change(&self.config().check).map_err(|error| in_one_line(&error))
    }

    async fn rename(&self, name: &str) -> Result<(), Refusal> {
        let store = lock(&self.store).clone();
        let store = store.ok_or_else(|| Refusal::failed("no session is open"))?;
        Ok(store.set_name(name.to_owned()).await?)
    }
}

fn in_one_line(error: &Error) -> Refusal {
    Refusal {
        text: error.in_one_line(),
        kind: kind(error),
    }
}

/// Returns the overrides that a host's `initialize` request asks for.
fn overrides(wishes: &Initialize) -> Result<Overrides, Error> {
    let mut overrides = Overrides {
        deny: parse_rules(wishes.disallowed_tools.as_deref().unwrap_or_default())?,
        ..Overrides::default()
    };
    let prompt = &mut overrides.run.prompt;
    prompt.system_prompt = wishes
        .system_prompt
        .as_ref()
        .map(|given| SystemPromptSource::Text(given.joined()));
    prompt
        .append_system_prompt
        .clone_from(&wishes.append_system_prompt);
    prompt
        .plan_instructions
        .clone_from(&wishes.plan_mode_instructions);
    prompt.answer_schema.clone_from(&wishes.json_schema);
    prompt.agents = wishes.agents.clone().unwrap_or_default();
    overrides.run.tools.aliases.clone_from(&wishes.tool_aliases);
    let mut servers = wishes.mcp_servers.clone().unwrap_or_default();
    for name in &wishes.sdk_mcp_servers {
        servers.insert(name.clone(), json!({"type": "sdk", "name": name}));
    }
    overrides.mcp_servers = vec![McpSource::of_values("initialize", &servers)];
    let plugins = wishes.plugins.iter().map(|plugin| PluginFolder {
        path: plugin.path.clone(),
        has_servers: !plugin.skip_mcp_discovery,
        runs_programs: true,
    });
    overrides.plugins = plugins.collect();
    Ok(overrides)
}

/// Returns the MCP servers provided by the program that drives this one.
fn host(pipes: Pipes) -> SdkHost {
    SdkHost::new(move |name| {
        let Pipe { outbound, inbound } = pipes.pipe(name);
        SdkPipe {
            to_host: Box::pin(outbound.sink_map_err(io::Error::other)),
            from_host: inbound,
        }
    })
}

/// Returns the commands and skills that a prompt may begin with.
pub(crate) fn commands(config: &Config, skills: &Skills) -> Vec<Command> {
    let (commands, _) = extensions::commands(config);
    let commands = commands.iter().map(|command| Command {
        name: command.name.clone(),
        description: command.description.clone(),
        hint: command.argument_hint.clone(),
    });
    let skills = skills.iter().filter(|skill| skill.is_command);
    let skills = skills.map(|skill| Command {
        name: skill.name.clone(),
        description: skill.description.clone(),
        hint: None,
    });
    commands.chain(skills).collect()
}

/// Returns the models that have a short name, after the one of the settings.
pub(crate) fn models(config: &Config) -> Vec<Offered> {
    let Ok(catalog) = config.catalog() else {
        return Vec::new();
    };
    let info = |alias: &str, title: &str, name: &str, description: String| {
        let resolved = catalog.resolve(name);
        let server = catalog.servers_with(resolved).next().unwrap_or(ANTHROPIC);
        let efforts = catalog.entry(server, resolved).abilities.efforts;
        Offered {
            alias: alias.to_owned(),
            name: resolved.to_owned(),
            title: title.to_owned(),
            description,
            efforts: efforts.unwrap_or_default(),
        }
    };
    let default = &config.model.value;
    let of_settings = format!("the model of the settings, {default}");
    let mut models = vec![info("default", "Default", default, of_settings)];
    models.extend(catalog.aliases().map(|(alias, model)| {
        let description = format!("{model}, by its short name");
        info(alias, alias, model, description)
    }));
    models
}

/// Returns the settings files in force, the lowest first: their source in the SDKs' words, and their content.
fn settings(config: &Config) -> Vec<(String, Value)> {
    let files = config.files.iter().rev().filter_map(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        let content = json::from_str(&text).ok()?;
        let is_local = path.to_string_lossy().ends_with(".local.json");
        let is_managed = path.ends_with("managed-settings.json");
        let source = match path.starts_with(&config.project_root) {
            _ if is_managed => "policySettings",
            true if is_local => "localSettings",
            true => "projectSettings",
            false => "userSettings",
        };
        Some((source.to_owned(), content))
    });
    files.collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
