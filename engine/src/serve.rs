//! Sessions for programs, which get the messages of the Agent SDK (all of them or only the result) and may drive the
//! session by its protocol.

use std::io;
use std::sync::{Arc, OnceLock};

use ah_agent::Session;
use ah_agent::skills::{Skill, Skills};
use ah_agent::styles::DEFAULT;
use ah_config::overrides::{HostOptions, McpSource, PluginFolder, SystemPromptSource};
use ah_config::{Config, Error, Overrides, extensions, parse_rules};
use ah_conversation::{Environment, json};
use ah_desk::{Command, Offered, Refusal};
use ah_mcp::{SdkHost, SdkPipe};
use ah_protocol::stream_json::{
    self, Asks, Initialize, Pipe, Pipes, Program, Served, Streams, Wanted, serve,
};
use ah_protocol::{Engaged, Engine, Introduction, Setting};
use ah_store::SessionStore;
use async_trait::async_trait;
use futures_util::SinkExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::assemble::recorded_check::RecordedTo;
use crate::assemble::{self, HostExtensions, SessionInputs};
use crate::confinement::SandboxProbe;
use crate::desk::place::OpenPlace;
use crate::desk::refusal::in_one_line;
use crate::identity::{STANDS_IN_FOR, SystemIds};
use crate::model::{self, Catalogued};
use crate::sessions::folders::give_up;
use crate::sessions::open::Opened;
use crate::sessions::opening::Opening;
use crate::sessions::place::transcript;
use crate::sessions::plan::{SessionChoice, SessionPlan};
use crate::warn::Warn;

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
    let (stop, wanted) = (
        request.stop.clone(),
        wanted(&request.config.environment, &request.config.run.host),
    );
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
    let (stop, wanted) = (
        request.stop.clone(),
        wanted(&request.config.environment, &request.config.run.host),
    );
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
fn wanted(environment: &Environment, host: &HostOptions) -> Wanted {
    // The SDKs set the one, other hosts the other.
    let reads_state = [
        "CLAUDE_CODE_SDK_READS_SESSION_STATE",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    ];
    let is_set = |name: &str| matches!(environment.get(name), Some("1" | "true"));
    let reads_state = reads_state.into_iter().any(is_set);
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
    /// The configuration with the host's options applied.
    held: OnceLock<Config>,
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
            held: OnceLock::new(),
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
        let begun = std::mem::take(&mut *self.begun.lock());
        for store in begun {
            give_up(store, &self.config).await;
        }
    }

    fn refusal(&self) -> Error {
        let refusal = self.refusal.get().cloned();
        refusal.unwrap_or_else(|| Error::failure("the session could not be opened"))
    }

    fn refuse(&self, error: Error) -> Refusal {
        let refusal = in_one_line(&error);
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
        let main = assemble::as_main(&config)?;
        let (config, first_words) = match main {
            Some(main) => (main.config, main.first_words),
            None => (config, None),
        };
        let mut opening = Opening {
            first_words: first_words.filter(|_| !setting.is_cleared),
            ..Opening::with(config, self.probe.clone())
        };
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
        if setting.is_cleared {
            session.begins_by("clear");
        }
        warnings.iter().for_each(|warning| (self.warn)(warning));
        if plan.choice == SessionChoice::New && !plan.ephemeral {
            self.begun.lock().push(store.clone());
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
        Ok(self.engaged(session, (store, recorded_to), opening))
    }

    fn engaged(
        &self,
        session: Session,
        (store, recorded_to): (Arc<SessionStore>, RecordedTo),
        opening: Opening,
    ) -> Engaged {
        let config = &opening.config;
        let source = model::credentials(config).ok().flatten();
        Engaged {
            session_id: store.uuid().to_owned(),
            settings: settings(config),
            cwd: config.environment.cwd().to_owned(),
            entrypoint: { config.environment.get("CLAUDE_CODE_ENTRYPOINT") }
                .unwrap_or("sdk-cli")
                .to_owned(),
            transcript_path: transcript(&store, config),
            max_turns: config.run.limits.max_turns,
            max_budget_usd: config.run.limits.max_budget_usd,
            task_patience: config.task_patience,
            max_retries: config.retry.retries,
            api_key_source: source.unwrap_or_else(|| "none".to_owned()),
            skills: { opening.skills.iter() }
                .map(|skill| skill.name.clone())
                .collect(),
            plugins: { config.plugins.iter() }
                .map(|plugin| (plugin.name.clone(), plugin.root.clone()))
                .collect(),
            models: Arc::new(Catalogued::new(config.clone(), self.warn.clone())),
            place: OpenPlace::of(&session, (store, recorded_to), opening, self.warn.clone()),
            session,
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
    let of_settings = format!("the model from the settings, {default}");
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
