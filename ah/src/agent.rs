//! A conversation of the program's own: it reads no settings files, and keeps what is said where the program wants it.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::hooks::{HookSession, Hooks};
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop, Toolbox,
    Watcher,
};
use ah_config::Error;
use ah_conversation::{
    Clock as _, ContentBlock, Cost, Event, Host, Limits, Message, Nobody, PermissionMode,
    PermissionUpdate, Permissions, Rulebook, Store, Thinking,
};
use ah_ids::SystemClock;
use tokio_util::sync::CancellationToken;

use crate::equipment::{self, Equipment};
use crate::host::{ClosureHook, PermissionCallback};
use crate::options::{Options, SystemPrompt};
use crate::store::StoreChoice;

/// Callback for events.
type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// A conversation of the program's own, prompt by prompt.
///
/// It reads no settings file and writes nothing but to its store. Its tools are those of [`Options::tool`], and the built-in
/// ones that [`Options::tools`] names. Unless [`Options::permission_mode`] says otherwise, calls of the program's own tools
/// are allowed, and asked about if there is somebody to ask ([`Options::can_use_tool`]) or built-in tools are among them.
///
/// ```
/// use ah::{Agent, Options};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // The scripted model `demo` needs no key and no network.
/// let options = Options::new()
///     .model("script:demo")
///     .system_prompt("You are terse.")
///     .max_turns(1);
/// let mut agent = Agent::with(options).open().await?;
/// let outcome = agent.run("Hello").await?;
/// assert_eq!(outcome.turns, 1);
/// # Ok::<(), ah::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Agent {
    session: Session,
    stop: CancellationToken,
}

impl Agent {
    /// Returns a builder with these options, which are those of a [`query`](crate::query()). Options that are about settings
    /// files and the sessions below a folder are for queries only: [`AgentBuilder::open`] refuses them.
    pub fn with(options: Options) -> AgentBuilder {
        AgentBuilder {
            options,
            store: None,
            on_event: None,
        }
    }

    /// Runs `prompt` until the model is done, a limit is reached or the agent is stopped. Dropping the future ends the
    /// run like a crash.
    ///
    /// # Errors
    ///
    /// If the store fails. Every other failure is in the [`RunOutcome`].
    pub async fn run(&mut self, prompt: impl Into<String>) -> Result<RunOutcome, Error> {
        let prompt = vec![ContentBlock::text(prompt.into())];
        Ok(self.session.run(prompt, &self.stop()).await?)
    }

    /// Continues a run that was left unfinished, by a kill of the process, a limit or a failure of the model, without
    /// another prompt; `None` if there is none. Calls that were running then are answered by an error that says so; none is
    /// made again by itself. An answer that was interrupted on purpose counts as an end.
    ///
    /// ```no_run
    /// # use ah::{Agent, Options};
    /// # async fn go_on() -> Result<(), ah::Error> {
    /// let options = Options::new().model("sonnet");
    /// let mut agent = Agent::with(options).store_file("chat.db").open().await?;
    /// if let Some(outcome) = agent.resume().await? {
    ///     println!("what was asked last: {}", outcome.answer);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Agent::run`].
    pub async fn resume(&mut self) -> Result<Option<RunOutcome>, Error> {
        Ok(self.session.resume(&self.stop()).await?)
    }

    /// Returns the messages of the conversation so far, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        self.session.transcript().messages()
    }

    /// Ends the conversation and all processes that tools have started.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn close(self) -> Result<(), Error> {
        Ok(self.session.close("other").await?)
    }

    fn stop(&self) -> Stop {
        Stop::abort(self.stop.child_token())
    }
}

/// Opens an [`Agent`].
///
/// ```no_run
/// use std::time::Duration;
///
/// use ah::{Agent, Options};
///
/// # async fn open() -> Result<(), ah::Error> {
/// let options = Options::new()
///     .model("sonnet")
///     .tools(["Read", "Grep"])
///     .max_tokens(200_000)
///     .timeout(Duration::from_secs(60));
/// let mut agent = Agent::with(options)
///     .store_file("chat.db")
///     .on_event(|event| eprintln!("{}", event.kind.name()))
///     .open()
///     .await?;
/// println!("{}", agent.run("Hello").await?.answer);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct AgentBuilder {
    options: Options,
    store: Option<StoreChoice>,
    on_event: Option<OnEvent>,
}

impl AgentBuilder {
    /// Keeps the conversation in the database in this file, such as `chat.db`, and continues one that is already there.
    /// Only one agent can have it open. Without a file or a store, the conversation is kept in memory.
    pub fn store_file(self, path: impl Into<PathBuf>) -> Self {
        Self {
            store: Some(StoreChoice::File(path.into())),
            ..self
        }
    }

    /// Keeps the conversation in this store of the program, and continues one that is already there.
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        Self {
            store: Some(StoreChoice::Own(store)),
            ..self
        }
    }

    /// Calls `on_event` with each event as it happens. It must not block.
    pub fn on_event(self, on_event: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self {
            on_event: Some(Arc::new(on_event)),
            ..self
        }
    }

    /// Opens the conversation.
    ///
    /// # Errors
    ///
    /// If there is no model, an option is for queries only or makes no sense ([`Usage`](crate::ErrorKind::Usage)), the model
    /// cannot be asked ([`Provider`](crate::ErrorKind::Provider)), or the store fails ([`Store`](crate::ErrorKind::Store)) or
    /// is open in another process ([`SessionBusy`](crate::ErrorKind::SessionBusy)).
    pub async fn open(self) -> Result<Agent, Error> {
        let options = self.options;
        options.check_for_agent()?;
        let Equipment {
            provider,
            store,
            tools,
            mut permissions,
            cwd,
        } = equipment::of(&options, self.store)?;
        permissions.mode = mode(&options);
        let hooks =
            ClosureHook::all(&options.hooks).map_err(|error| Error::usage(error.to_string()))?;
        let clock = Arc::new(SystemClock::default());
        let hooks = Hooks::new(
            hooks,
            HookSession {
                session_id: clock.message_id().to_string(),
                transcript_path: PathBuf::new(),
                cwd,
            },
        );
        let settings = settings(&options, permissions, provider.model());
        let watcher = Events {
            on_event: self.on_event,
            clock: SystemClock::default(),
        };
        let host: Arc<dyn Host> = match options.can_use_tool {
            Some(decide) => Arc::new(PermissionCallback(decide)),
            None => Arc::new(Nobody),
        };
        let ports = Ports {
            summarizer: provider.clone(),
            provider,
            store,
            clock,
            audience: Audience::watching(Arc::new(watcher)).with_host(host),
            variables: ah_agent::no_variables(),
            agent_id: None,
            rules: Arc::new(NoRules),
            hooks,
            pictures: equipment::pictures(),
            refusals: ah_agent::no_refusals(),
            command_files: None,
        };
        let tools = tools.into_iter().chain(options.own_tools);
        let session = Session::open(ports, Toolbox::new(tools), settings).await?;
        Ok(Agent {
            session,
            stop: options.abort,
        })
    }
}

/// Returns the permission mode: the one that is set, or else whether anything is asked about at all.
fn mode(options: &Options) -> PermissionMode {
    let has_built_in = options
        .tools
        .as_ref()
        .is_some_and(|tools| !tools.is_empty());
    match options.permission_mode {
        Some(mode) => mode,
        None if has_built_in || options.can_use_tool.is_some() => PermissionMode::Default,
        // The tools are the program's own, and nobody wants to be asked.
        None => PermissionMode::BypassPermissions,
    }
}

fn settings(
    options: &Options,
    permissions: Permissions,
    model: &ah_conversation::Model,
) -> SessionSettings {
    let prompt = match &options.system_prompt {
        SystemPrompt::Own(text) if !text.is_empty() => vec![text.clone()],
        _ => Vec::new(),
    };
    SessionSettings {
        prompt: prompt.into(),
        limits: Limits {
            max_turns: options.max_turns,
            max_tokens: options.max_tokens,
            max_budget: options.max_budget_usd.map(Cost::from_usd),
            context_window: model.context_window,
            reserved_output: model.max_output,
            ..Limits::default()
        },
        timeout_ms: options
            .timeout
            .map(|time| time.as_millis().try_into().unwrap_or(u64::MAX)),
        permissions,
        thinking: Thinking {
            budget: options.max_thinking_tokens,
            effort: options.effort,
        },
        ..SessionSettings::default()
    }
}

/// Watcher that hands events to a closure.
struct Events {
    on_event: Option<OnEvent>,
    clock: SystemClock,
}

impl Watcher for Events {
    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Notice(text) = update {
            tracing::info!("{text}");
        }
        if let Some(on_event) = &self.on_event
            && let Some(kind) = update.event()
        {
            on_event(&Event {
                kind: kind.into_owned(),
                timestamp: self.clock.now().seconds(),
            });
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

/// Rulebook that saves nothing.
struct NoRules;

impl Rulebook for NoRules {
    fn save(&self, _: &PermissionUpdate) -> Result<(), String> {
        Err("an agent does not save rules".to_owned())
    }
}
