//! Options of queries and agents, named after those of the official SDKs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::HookEvent;
use ah_config::Error;
use ah_conversation::{Effort, PermissionAnswer, PermissionMode, PermissionUpdate, Provider, Tool};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// Future that a callback returns.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Callback for tool calls that no rule covers.
pub type CanUseTool = Arc<dyn Fn(ToolRequest) -> BoxFuture<Decision> + Send + Sync>;

/// Options of a [`query`](crate::query()) or an [`Agent`](crate::Agent).
///
/// For a query, an option that is not set comes from the settings, and otherwise has the default of `ah -p`. An agent reads no
/// settings; those of its options that are for queries only say so.
///
/// ```
/// use ah::Options;
///
/// let options = Options::new()
///     .model("sonnet")
///     .allow("Read")
///     .allow("Bash(git log:*)")
///     .max_budget_usd(0.5);
/// assert_eq!(options.allowed_tools, ["Read", "Bash(git log:*)"]);
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Model, by any name that `--model` takes.
    pub model: Option<String>,
    /// Models that answer if the main one stays overloaded or fails, in order.
    pub fallback_models: Vec<String>,
    /// System prompt. An agent has none but its own.
    pub system_prompt: SystemPrompt,
    /// Maximum number of model calls of a run.
    pub max_turns: Option<u32>,
    /// Maximum number of input and output tokens of a run.
    pub max_tokens: Option<u64>,
    /// Maximum cost of a run in US dollars, for models whose price is known.
    pub max_budget_usd: Option<f64>,
    /// Maximum time of a run.
    pub timeout: Option<Duration>,
    /// Command line that has to pass before a run ends. An agent has none: it has no project.
    pub until: Option<String>,
    /// Maximum number of thinking tokens per answer; 0 turns thinking off.
    pub max_thinking_tokens: Option<u32>,
    /// Reasoning effort of the model.
    pub effort: Option<Effort>,
    /// The only built-in tools that are available, by the names of the official SDKs. If it is not set, a query has all of
    /// them, and an agent has none.
    pub tools: Option<Vec<String>>,
    /// Permission rules for calls that are allowed without a question.
    pub allowed_tools: Vec<String>,
    /// Permission rules for calls that are asked about, whatever else would allow them.
    pub asked_tools: Vec<String>,
    /// Permission rules for calls that are denied.
    pub disallowed_tools: Vec<String>,
    /// Tools of the program; they replace others of the same name.
    pub own_tools: Vec<Arc<dyn Tool>>,
    /// Model of the program, in place of `model`.
    pub provider: Option<Arc<dyn Provider>>,
    /// Name of the subagent definition with which the conversation itself runs; for queries only.
    pub agent: Option<String>,
    /// Subagent definitions by name, in the form of the official SDKs; for queries only.
    pub agents: Map<String, Value>,
    /// Working directory, if not that of the process.
    pub cwd: Option<PathBuf>,
    /// Additional working directories.
    pub additional_directories: Vec<PathBuf>,
    /// UUID of the new session; for queries only.
    pub session_id: Option<String>,
    /// Id or name of the session to resume; for queries only.
    pub resume: Option<String>,
    /// Whether a resumed session is copied first; for queries only.
    pub fork_session: bool,
    /// Whether to resume the session that was used last; for queries only.
    pub continue_last: bool,
    /// Whether the session is kept in memory only; for queries only: an agent says where it is kept.
    pub ephemeral: bool,
    /// Permission mode for calls that no rule covers.
    pub permission_mode: Option<PermissionMode>,
    /// Callback for calls that neither a rule nor the mode covers; without one they are denied.
    pub can_use_tool: Option<CanUseTool>,
    /// Callbacks for events of the run, called after the hooks of the settings.
    pub hooks: Vec<HookCallback>,
    /// MCP servers by name, as in `.mcp.json`; for queries only.
    pub mcp_servers: Map<String, Value>,
    /// Whether answers are also sent in pieces, as [`Message::StreamEvent`](crate::Message::StreamEvent); for queries only.
    pub include_partial_messages: bool,
    /// Settings files to read: `user`, `project`, `local`; none of them if the list is empty. For queries only.
    pub setting_sources: Option<Vec<String>>,
    /// Additional settings, an object as in a settings file; for queries only.
    pub settings: Option<Value>,
    /// Beta features of the model's API to ask for.
    pub betas: Vec<String>,
    /// Environment variables in addition to those of the process: keys, base addresses.
    pub env: BTreeMap<String, String>,
    /// Whether the query writes a log of its own, at level `debug`. Without one, events go to the subscriber of
    /// `tracing` that the program has set. For queries only.
    pub debug: bool,
    /// File to which that log is appended, in place of standard error; turns the log on. For queries only.
    pub debug_file: Option<PathBuf>,
    /// Token that aborts the run when cancelled, and all later ones of an agent; the exit reason is `Aborted` then.
    pub abort: CancellationToken,
}

/// System prompt of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemPrompt {
    /// The built-in one.
    #[default]
    BuiltIn,
    /// The built-in one with this text appended.
    Appended(String),
    /// This text.
    Own(String),
}

/// A tool call that needs permission.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolRequest {
    /// Name of the tool.
    pub tool_name: String,
    /// Input of the call.
    pub input: Map<String, Value>,
    /// Id of the call.
    pub tool_use_id: String,
    /// Permission updates that would avoid this question in future.
    pub suggestions: Vec<PermissionUpdate>,
}

/// Decision about a tool call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// The call is allowed.
    Allow,
    /// The call is allowed with changes.
    AllowWith {
        /// Input that replaces the call's own.
        input: Option<Map<String, Value>>,
        /// Changes of the permissions.
        updates: Vec<PermissionUpdate>,
    },
    /// The call is denied.
    Deny {
        /// Message for the model.
        message: String,
        /// Whether the run ends.
        interrupt: bool,
    },
}

impl Decision {
    /// Returns a denial with a message for the model; the run continues.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny {
            message: message.into(),
            interrupt: false,
        }
    }
}

impl From<Decision> for PermissionAnswer {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allow {
                input: None,
                updates: Vec::new(),
            },
            Decision::AllowWith { input, updates } => Self::Allow {
                input: input.map(|input| Value::Object(input).into()),
                updates,
            },
            Decision::Deny { message, interrupt } => Self::Deny { message, interrupt },
        }
    }
}

/// Callback for an event of the run.
///
/// ```
/// use ah::{HookCallback, HookEvent, Options};
/// use serde_json::json;
///
/// let hook = HookCallback::new(HookEvent::PreToolUse, |input| async move {
///     eprintln!("{}", input.payload["tool_name"]);
///     json!({})
/// });
/// let options = Options::new().hook(hook.matching("Bash|Write"));
/// assert_eq!(options.hooks.len(), 1);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HookCallback {
    /// Event at which it is called.
    pub event: HookEvent,
    /// Filter for tools, or kinds of the event: a name, several separated by `|`, or a pattern; `None` matches all.
    pub matcher: Option<String>,
    /// Closure to call; it returns the object that a hook command would print.
    pub ask: Arc<dyn Fn(HookInput) -> BoxFuture<Value> + Send + Sync>,
}

impl HookCallback {
    /// Creates a hook that is called at every `event`. `ask` returns the object that a hook command would print; `{}`
    /// is no opinion.
    pub fn new<F>(event: HookEvent, ask: impl Fn(HookInput) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Value> + Send + 'static,
    {
        Self {
            event,
            matcher: None,
            ask: Arc::new(move |input| Box::pin(ask(input))),
        }
    }

    /// Restricts the hook to tools, or kinds of the event, that match.
    #[must_use]
    pub fn matching(self, matcher: impl Into<String>) -> Self {
        Self {
            matcher: Some(matcher.into()),
            ..self
        }
    }
}

/// Input of a hook.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookInput {
    /// Payload that a hook command would read.
    pub payload: Value,
    /// Id of the tool call that the event is about, if any.
    pub tool_use_id: Option<String>,
}

/// Setters. Each returns the options, so that calls can be chained.
impl Options {
    /// Creates the options with nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model, by any name that `--model` takes.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the models that answer if the main one stays overloaded or fails, in order.
    #[must_use]
    pub fn fallback_models(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.fallback_models = names.into_iter().map(Into::into).collect();
        self
    }

    /// Replaces the built-in system prompt.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = SystemPrompt::Own(text.into());
        self
    }

    /// Appends to the built-in system prompt.
    #[must_use]
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = SystemPrompt::Appended(text.into());
        self
    }

    /// Lets a run go on until this command passes, which is run on a copy of the project, in a sandbox: the program has to call
    /// [`enter`](crate::enter). The `data` of the result says whether it did, as `verification`.
    #[must_use]
    pub fn until(mut self, command: impl Into<String>) -> Self {
        self.until = Some(command.into());
        self
    }

    /// Limits the number of model calls.
    #[must_use]
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Limits the input and output tokens of a run.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Limits the time of a run.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Limits the cost in US dollars.
    #[must_use]
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.max_budget_usd = Some(dollars);
        self
    }

    /// Limits the thinking tokens of an answer; 0 turns thinking off.
    #[must_use]
    pub fn max_thinking_tokens(mut self, tokens: u32) -> Self {
        self.max_thinking_tokens = Some(tokens);
        self
    }

    /// Sets the reasoning effort.
    #[must_use]
    pub fn effort(mut self, effort: Effort) -> Self {
        self.effort = Some(effort);
        self
    }

    /// Restricts the built-in tools to these, for an agent, which has none otherwise: gives it these.
    #[must_use]
    pub fn tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Allows calls that match this permission rule.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.allowed_tools.push(rule.into());
        self
    }

    /// Has calls that match this permission rule asked about, whatever else would allow them: `convert` stands for each call
    /// of the tool `convert`.
    #[must_use]
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.asked_tools.push(rule.into());
        self
    }

    /// Denies calls that match this permission rule.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.disallowed_tools.push(rule.into());
        self
    }

    /// Adds a tool of the program; it replaces another of the same name.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.own_tools.push(Arc::new(tool));
        self
    }

    /// Sets a model of the program, in place of `model`.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Runs the conversation itself with this subagent definition.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.agent = Some(name.into());
        self
    }

    /// Adds a subagent definition, in the form of the official SDKs.
    #[must_use]
    pub fn define_agent(mut self, name: impl Into<String>, definition: Value) -> Self {
        self.agents.insert(name.into(), definition);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Adds a working directory.
    #[must_use]
    pub fn directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.additional_directories.push(folder.into());
        self
    }

    /// Sets the UUID of the new session.
    #[must_use]
    pub fn session_id(mut self, uuid: impl Into<String>) -> Self {
        self.session_id = Some(uuid.into());
        self
    }

    /// Resumes a session, by id or name.
    #[must_use]
    pub fn resume(mut self, session: impl Into<String>) -> Self {
        self.resume = Some(session.into());
        self
    }

    /// Sets whether a resumed session is copied first.
    #[must_use]
    pub fn fork_session(mut self, forks: bool) -> Self {
        self.fork_session = forks;
        self
    }

    /// Sets whether to resume the session that was used last.
    #[must_use]
    pub fn continue_last(mut self, continues: bool) -> Self {
        self.continue_last = continues;
        self
    }

    /// Sets whether the session is kept in memory only.
    #[must_use]
    pub fn ephemeral(mut self, is_ephemeral: bool) -> Self {
        self.ephemeral = is_ephemeral;
        self
    }

    /// Sets the permission mode for calls that no rule covers.
    #[must_use]
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.permission_mode = Some(mode);
        self
    }

    /// Adds a callback for an event of the run.
    #[must_use]
    pub fn hook(mut self, hook: HookCallback) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Adds an MCP server, as in `.mcp.json`.
    #[must_use]
    pub fn mcp_server(mut self, name: impl Into<String>, server: Value) -> Self {
        self.mcp_servers.insert(name.into(), server);
        self
    }

    /// Sets whether answers are also sent in pieces.
    #[must_use]
    pub fn include_partial_messages(mut self, includes: bool) -> Self {
        self.include_partial_messages = includes;
        self
    }

    /// Restricts the settings files to these: `user`, `project`, `local`.
    #[must_use]
    pub fn setting_sources(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.setting_sources = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Sets additional settings, an object as in a settings file.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = Some(settings);
        self
    }

    /// Asks for a beta feature of the model's API.
    #[must_use]
    pub fn beta(mut self, name: impl Into<String>) -> Self {
        self.betas.push(name.into());
        self
    }

    /// Sets an environment variable of the query.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets whether the query writes a log of its own.
    #[must_use]
    pub fn debug(mut self, is_on: bool) -> Self {
        self.debug = is_on;
        self
    }

    /// Appends the log of the query to this file.
    #[must_use]
    pub fn debug_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.debug_file = Some(file.into());
        self
    }

    /// Sets the token that aborts the run when cancelled.
    #[must_use]
    pub fn abort(mut self, token: CancellationToken) -> Self {
        self.abort = token;
        self
    }

    /// Sets the callback for calls that neither a rule nor the permission mode covers.
    ///
    /// ```
    /// use ah::{Decision, Options};
    ///
    /// let options = Options::new().can_use_tool(|request| async move {
    ///     match &*request.tool_name {
    ///         "Write" => Decision::deny("nothing is written today"),
    ///         _ => Decision::Allow,
    ///     }
    /// });
    /// assert!(options.can_use_tool.is_some());
    /// ```
    #[must_use]
    pub fn can_use_tool<F>(
        mut self,
        decide: impl Fn(ToolRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Decision> + Send + 'static,
    {
        self.can_use_tool = Some(Arc::new(move |request| Box::pin(decide(request))));
        self
    }
}

impl Options {
    /// Returns an error if an option is set that is for queries only: an agent would ignore it.
    pub(crate) fn check_for_agent(&self) -> Result<(), Error> {
        let is_appended = matches!(self.system_prompt, SystemPrompt::Appended(_));
        let set = [
            ("append_system_prompt", is_appended),
            ("agent", self.agent.is_some()),
            ("agents", !self.agents.is_empty()),
            ("session_id", self.session_id.is_some()),
            ("resume", self.resume.is_some()),
            ("fork_session", self.fork_session),
            ("continue_last", self.continue_last),
            ("ephemeral", self.ephemeral),
            ("mcp_servers", !self.mcp_servers.is_empty()),
            ("include_partial_messages", self.include_partial_messages),
            ("setting_sources", self.setting_sources.is_some()),
            ("settings", self.settings.is_some()),
            ("debug", self.debug),
            ("debug_file", self.debug_file.is_some()),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((name, _)) => Err(Error::usage(format!(
                "the option `{name}` is for queries, and an agent has no use for it"
            ))
            .hint("leave it out, or run the prompt with `query`")),
        }
    }
}
