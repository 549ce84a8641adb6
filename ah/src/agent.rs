//! An agent with a model, tools and a store of the caller's choice; it reads no settings files.

use std::future::Future;
#[cfg(feature = "sqlite")]
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::Hooks;
use ah_agent::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop,
    ToolConcurrency, Toolbox, Watcher,
};
use ah_config::layers::Sources;
use ah_config::overlay::Overlay;
use ah_config::{Config, Error, Overrides, environment};
use ah_conversation::{
    Clock as _, ContentBlock, Cost, Elicitation, ElicitationAnswer, Event, Host, HostPermission,
    Interface, Limits, Nobody, PermissionAnswer, PermissionMode, PermissionRequest,
    PermissionUpdate, Permissions, Provider, Rulebook, Sampling, Store, Thinking, Tool, Transcript,
};
#[cfg(feature = "sqlite")]
use ah_engine::busy;
use ah_engine::model::model;
use ah_store::SystemClock;
#[cfg(feature = "sqlite")]
use ah_store::{OpenError, Paths, SessionStore};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Callback for calls that the permissions leave open.
type Ask = Arc<
    dyn Fn(PermissionRequest) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>>
        + Send
        + Sync,
>;
/// Callback for events.
type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// A conversation with a model, tools and a store of the caller's choice.
///
/// It reads no settings file and writes nothing but to its store. All calls are allowed unless
/// [`permissions`](AgentBuilder::permissions) say otherwise: the tools are the caller's own.
///
/// ```
/// use ah::Agent;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // The scripted model `demo` needs no key and no network.
/// let mut agent = Agent::builder()
///     .model("script:demo")
///     .system_prompt("You are terse.")
///     .max_turns(1)
///     .build()
///     .await?;
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
    /// Returns a builder that needs a model before it builds.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Runs `prompt` until the model is done, a limit is reached or the agent is stopped. Dropping the future ends the
    /// run like a crash; the next run resumes the conversation.
    ///
    /// # Errors
    ///
    /// If the store fails. Every other failure is in the [`RunOutcome`].
    pub async fn run(&mut self, prompt: impl Into<String>) -> Result<RunOutcome, Error> {
        let prompt = vec![ContentBlock::text(prompt.into())];
        let stop = Stop::abort(self.stop.child_token());
        Ok(self.session.run(prompt, &stop).await?)
    }

    /// Returns the conversation so far.
    pub fn transcript(&self) -> &Transcript {
        self.session.transcript()
    }

    /// Ends the conversation and all processes that tools have started.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn close(self) -> Result<(), Error> {
        Ok(self.session.close("other").await?)
    }
}

/// Builds an [`Agent`].
///
/// ```no_run
/// use std::time::Duration;
///
/// use ah::Agent;
///
/// # async fn build() -> Result<(), ah::Error> {
/// let mut agent = Agent::builder()
///     .model("sonnet")
///     .store_file("chat.db")
///     .timeout(Duration::from_secs(60))
///     .on_event(|event| eprintln!("{}", event.kind.name()))
///     .build()
///     .await?;
/// println!("{}", agent.run("Hello").await?.answer);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use]
pub struct AgentBuilder {
    model: Option<Model>,
    tools: Vec<Arc<dyn Tool>>,
    store: Option<StoreChoice>,
    system_prompt: String,
    thinking: Thinking,
    limits: Limits,
    timeout: Option<Duration>,
    permissions: Option<Permissions>,
    ask: Option<Ask>,
    on_event: Option<OnEvent>,
    stop: CancellationToken,
}

enum Model {
    Named(String),
    Own(Arc<dyn Provider>),
}

enum StoreChoice {
    #[cfg(feature = "sqlite")]
    File(PathBuf),
    Own(Arc<dyn Store>),
}

impl AgentBuilder {
    /// Sets the model by name: `sonnet`, `PROVIDER/NAME`, `script:FILE`. Its key and address come from the
    /// environment of the process, as for `ah -m NAME`.
    pub fn model(self, name: impl Into<String>) -> Self {
        Self {
            model: Some(Model::Named(name.into())),
            ..self
        }
    }

    /// Sets a model of the program.
    pub fn provider(self, provider: Arc<dyn Provider>) -> Self {
        Self {
            model: Some(Model::Own(provider)),
            ..self
        }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Keeps the conversation in this store, and resumes one that is already there. The default is a database in memory;
    /// without the feature `sqlite` there is none.
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        Self {
            store: Some(StoreChoice::Own(store)),
            ..self
        }
    }

    /// Keeps the conversation in the database in this file, such as `chat.db`, and resumes one that is already there.
    /// Only one agent can have it open.
    #[cfg(feature = "sqlite")]
    pub fn store_file(self, path: impl Into<PathBuf>) -> Self {
        Self {
            store: Some(StoreChoice::File(path.into())),
            ..self
        }
    }

    /// Sets the thinking budget and effort. The default is up to the server.
    pub fn thinking(self, thinking: Thinking) -> Self {
        Self { thinking, ..self }
    }

    /// Sets the system prompt. The default is none.
    pub fn system_prompt(self, text: impl Into<String>) -> Self {
        Self {
            system_prompt: text.into(),
            ..self
        }
    }

    /// Ends a run after this many model calls.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.limits.max_turns = Some(turns);
        self
    }

    /// Ends a run after this many input and output tokens.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.limits.max_tokens = Some(tokens);
        self
    }

    /// Ends a run after this many US dollars, for models whose price is known.
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.limits.max_budget = Some(Cost::from_usd(dollars));
        self
    }

    /// Ends a run after this time.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    /// Sets the permission mode and rules. The default allows all calls.
    pub fn permissions(self, permissions: Permissions) -> Self {
        Self {
            permissions: Some(permissions),
            ..self
        }
    }

    /// Asks `ask` about calls that the permissions leave open. Without it they are denied.
    pub fn ask<F>(self, ask: impl Fn(PermissionRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = PermissionAnswer> + Send + 'static,
    {
        Self {
            ask: Some(Arc::new(move |request| Box::pin(ask(request)))),
            ..self
        }
    }

    /// Calls `on_event` with each event as it happens.
    pub fn on_event(self, on_event: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self {
            on_event: Some(Arc::new(on_event)),
            ..self
        }
    }

    /// Aborts the current run and all later ones when `stop` is cancelled.
    pub fn stop(self, stop: CancellationToken) -> Self {
        Self { stop, ..self }
    }

    /// Opens the conversation.
    ///
    /// # Errors
    ///
    /// If there is no model ([`Usage`](crate::ErrorKind::Usage)) or it cannot be asked
    /// ([`Provider`](crate::ErrorKind::Provider)), or there is no store, it fails ([`Store`](crate::ErrorKind::Store)) or is
    /// open in another process ([`SessionBusy`](crate::ErrorKind::SessionBusy)).
    pub async fn build(self) -> Result<Agent, Error> {
        let provider = match self.model {
            Some(Model::Own(provider)) => provider,
            Some(Model::Named(name)) => connect(name)?,
            None => {
                let error = Error::usage("the agent has no model");
                return Err(error.hint("name one with `model`, or give one with `provider`"));
            }
        };
        let store = match self.store {
            Some(StoreChoice::Own(store)) => store,
            #[cfg(feature = "sqlite")]
            Some(StoreChoice::File(path)) => open_file(&path)?,
            None => default_store()?,
        };
        let limits = Limits {
            context_window: provider.model().context_window,
            reserved_output: provider.model().max_output,
            ..self.limits
        };
        let permissions = self.permissions.unwrap_or_else(|| Permissions {
            mode: PermissionMode::BypassPermissions,
            ..Permissions::default()
        });
        let system = Some(self.system_prompt).filter(|text| !text.is_empty());
        let settings = SessionSettings {
            setup: None,
            plan_instructions: None,
            tool_aliases: Arc::default(),
            prompt: system.into_iter().collect::<Vec<_>>().into(),
            limits,
            timeout_ms: self
                .timeout
                .map(|time| time.as_millis().try_into().unwrap_or(u64::MAX)),
            permissions,
            concurrency: ToolConcurrency::Auto,
            max_messages: None,
            max_result_chars: None,
            must_produce: None,
            answer_form: None,
            thinking: self.thinking,
            sampling: Sampling::default(),
        };
        let ports = Ports {
            summarizer: provider.clone(),
            provider,
            store,
            clock: Arc::new(SystemClock::default()),
            audience: Audience::of(Arc::new(Callbacks {
                on_event: self.on_event,
                ask: self.ask,
                clock: SystemClock::default(),
            })),
            variables: ah_agent::no_variables(),
            agent_id: None,
            rules: Arc::new(NoRules),
            hooks: Hooks::default(),
            pictures: Arc::new(ah_tools::checked_picture),
            refusals: ah_agent::no_refusals(),
            command_files: None,
        };
        let session = Session::open(ports, Toolbox::new(self.tools), settings).await?;
        Ok(Agent {
            session,
            stop: self.stop,
        })
    }
}

/// Opens the database in this file.
#[cfg(feature = "sqlite")]
fn open_file(path: &Path) -> Result<Arc<dyn Store>, Error> {
    match SessionStore::open(&Paths::of(path)) {
        Ok(store) => Ok(Arc::new(store)),
        Err(OpenError::Busy(holder)) => Err(busy(&holder)),
        Err(OpenError::Store(error)) => Err(error.into()),
    }
}

/// Returns a database in memory.
#[cfg(feature = "sqlite")]
fn default_store() -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(SessionStore::in_memory(&std::env::temp_dir())?))
}

/// Returns an error: this build has no store of its own.
#[cfg(not(feature = "sqlite"))]
fn default_store() -> Result<Arc<dyn Store>, Error> {
    Err(Error::usage("the agent has no store")
        .hint("give one with `store`, or build with the feature `sqlite`"))
}

/// Connects the model of this name, with keys of the environment and without settings files.
fn connect(name: String) -> Result<Arc<dyn Provider>, Error> {
    let overrides = Overrides {
        model: Some(name),
        setting_sources: Some(Sources::NONE),
        ..Overrides::default()
    };
    let environment = environment::read(None)?;
    let config = Config::resolve(
        overrides,
        Interface::Native,
        environment,
        &Overlay::default(),
    )?;
    let mut warnings = Vec::new();
    let provider = model(&config, &mut warnings)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(provider)
}

/// Watcher and host of closures.
struct Callbacks {
    on_event: Option<OnEvent>,
    ask: Option<Ask>,
    clock: SystemClock,
}

#[async_trait]
impl Host for Callbacks {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        match &self.ask {
            Some(ask) => ask(request.clone()).await,
            None => Nobody.permission(request).await,
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        Nobody.new_host(host).await
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        Nobody.elicitation(question).await
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

impl Watcher for Callbacks {
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
        Err("an agent saves no rules".to_owned())
    }
}
