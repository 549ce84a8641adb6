//! A prompt run by the engine: a stream of messages, and requests to the run meanwhile.

mod overrides;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;

use ah_config::overlay::Overlay;
use ah_config::{Config, Error};
use ah_conversation::{
    ContentBlock, Environment, ExitReason, Host, Interface, PermissionMode, Usage,
};
use ah_engine::assemble::HostExtensions;
use ah_engine::serve::{ServeRequest, serve_program};
use ah_engine::{has_entered, log_of};
use ah_protocol::stream_json::{Initialize, Messages, Program, Requests, Served};
use ah_protocol::{Message, ResultMessage};
use futures_util::Stream;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::host::{ClosureHook, PermissionCallback};
use crate::options::Options;

/// Runs `prompt`. The work begins at once, on a thread of its own, and waits while messages are not read.
///
/// An error that prevents the run (no key, no such session, an invalid setting) is an item of the stream, and the only
/// one. Otherwise the last item is a [`Message::Result`].
///
/// ```
/// use ah::{Message, Options, query};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// // The scripted model `demo` needs no key and no network.
/// let options = Options::new().model("script:demo").ephemeral(true).max_turns(1);
/// # let folder = tempfile::tempdir()?;
/// # let options = options.cwd(folder.path()).setting_sources([""; 0]);
/// let mut query = query("Hello", options);
/// while let Some(message) = query.next().await {
///     if let Message::Assistant(answer) = message? {
///         println!("{}", answer.text());
///     }
/// }
/// assert!(query.result().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn query(prompt: impl Into<String>, options: Options) -> Query {
    begin(Some(prompt.into()), options)
}

/// Continues the session that `options` name ([`Options::resume`], [`Options::continue_last`]) without another prompt, if its
/// last run was left unfinished: by a kill of the process, a limit or a failure of the model. Calls that were running then are
/// answered by an error that says so; none is made again by itself. If nothing was left unfinished, the model is not asked,
/// and the [`Message::Result`] comes at once: an answer that was interrupted on purpose counts as an end.
///
/// ```no_run
/// use ah::{Options, resume};
///
/// # async fn go_on() -> Result<(), ah::Error> {
/// let mut query = resume(Options::new().continue_last(true));
/// while let Some(message) = query.next().await {
///     message?;
/// }
/// # Ok(())
/// # }
/// ```
pub fn resume(options: Options) -> Query {
    begin(None, options)
}

fn begin(prompt: Option<String>, options: Options) -> Query {
    let abort = options.abort.clone();
    let stop = abort.child_token();
    let (mut program, requests, messages) = Program::new();
    if let Some(decide) = options.can_use_tool.clone() {
        let host: Arc<dyn Host> = Arc::new(PermissionCallback(decide));
        program.host = Some(host);
    }
    let hooks = ClosureHook::all(&options.hooks);
    match prompt {
        Some(prompt) => requests.prompt(vec![ContentBlock::text(prompt)]),
        None => {
            program.resumes = true;
            // The answer is the first message.
            drop(requests.initialize(Initialize::default()));
        }
    }
    let (failed, failure) = oneshot::channel();
    let task = Task {
        options,
        stop: stop.clone(),
    };
    let spawned = thread::Builder::new()
        .name("query".to_owned())
        .spawn(move || {
            let hooks = hooks.map_err(|error| Error::failure(error.to_string()));
            let performed = hooks.and_then(|hooks| {
                program.hooks = hooks;
                task.perform(program)
            });
            if let Err(error) = performed {
                // The query may have been dropped.
                let _ = failed.send(error);
            }
        });
    let failure = match spawned {
        Ok(_) => failure,
        Err(error) => {
            let (failed, failure) = oneshot::channel();
            let _ = failed.send(Error::failure(format!("cannot start: {error}")));
            failure
        }
    };
    Query {
        requests: Some(requests),
        messages,
        failure: Some(failure),
        stop,
        abort,
        session_id: None,
        usage: Usage::default(),
        result: None,
    }
}

/// A run of a prompt: a stream of its messages. Dropping it ends the run; all messages so far are stored.
///
/// ```
/// # use ah::{Options, query};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let options = Options::new().model("script:demo").ephemeral(true).cwd(folder.path());
/// # let options = options.setting_sources([""; 0]).max_turns(1);
/// let mut query = query("Hello", options);
/// while let Some(message) = query.next().await {
///     message?;
/// }
/// println!("session {:?}", query.session_id());
/// println!("ended with {:?}", query.exit_reason());
/// println!("{} tokens of output", query.total_usage().output_tokens);
/// assert!(query.interrupt().await.is_err(), "it has ended");
/// query.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Query {
    /// `None` once the result was read; the session ends then.
    requests: Option<Requests>,
    messages: Messages,
    /// Closed when the thread has ended; `None` once it was read.
    failure: Option<oneshot::Receiver<Error>>,
    stop: CancellationToken,
    abort: CancellationToken,
    session_id: Option<String>,
    usage: Usage,
    result: Option<Box<ResultMessage>>,
}

impl Query {
    /// Returns the next message; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Interrupts the current run; its result still comes.
    ///
    /// ```no_run
    /// # async fn interrupt(query: ah::Query) -> Result<(), ah::Error> {
    /// query.interrupt().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the query has ended.
    pub async fn interrupt(&self) -> Result<(), Error> {
        granted(self.requests()?.interrupt().await)
    }

    /// Changes the permission mode from the next call on.
    ///
    /// ```no_run
    /// # async fn plan(query: ah::Query) -> Result<(), ah::Error> {
    /// query.set_permission_mode(ah::permission::PermissionMode::Plan).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the mode may not be chosen, or the query has ended.
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), Error> {
        granted(self.requests()?.set_permission_mode(mode).await)
    }

    /// Changes the model from the next step on; `None` restores the configured one.
    ///
    /// ```no_run
    /// # async fn change(query: ah::Query) -> Result<(), ah::Error> {
    /// query.set_model(Some("haiku")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such model or no key for it, or the query has ended.
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), Error> {
        granted(self.requests()?.set_model(model).await)
    }

    /// Changes the thinking budget in tokens from the next step on; `None` restores the configured one.
    ///
    /// ```no_run
    /// # async fn change(query: ah::Query) -> Result<(), ah::Error> {
    /// query.set_max_thinking_tokens(Some(4096)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the query has ended.
    pub async fn set_max_thinking_tokens(&self, tokens: Option<u32>) -> Result<(), Error> {
        granted(self.requests()?.set_max_thinking_tokens(tokens).await)
    }

    /// Ends the query, and returns when all messages are stored. Processes of tools have been asked to end by then, and
    /// are killed a second later.
    pub async fn close(mut self) {
        self.stop.cancel();
        self.requests = None;
        while self.next().await.is_some() {}
    }

    /// Returns the session's id, once a message has named it, for [`Options::resume`].
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the tokens of all model calls, once the result was read.
    pub fn total_usage(&self) -> Usage {
        self.usage
    }

    /// Returns the result, once it was read.
    pub fn result(&self) -> Option<&ResultMessage> {
        self.result.as_deref()
    }

    /// Returns the reason why the run ended, once the result was read.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        let result = self.result.as_deref()?;
        if self.abort.is_cancelled() {
            return Some(ExitReason::Aborted);
        }
        Some(result.exit_reason.clone().unwrap_or(ExitReason::Error))
    }

    fn requests(&self) -> Result<&Requests, Error> {
        let requests = self.requests.as_ref();
        requests.ok_or_else(|| Error::failure("the query has ended"))
    }

    fn note(&mut self, message: &Message) {
        let named = match message {
            Message::System(message) => &message.data,
            Message::Assistant(message) => &message.data,
            Message::Result(result) => {
                self.usage = result.usage;
                self.result = Some(result.clone());
                self.requests = None;
                &result.data
            }
            _ => return,
        };
        if let Some(id) = named.get("session_id").and_then(Value::as_str)
            && !id.is_empty()
        {
            self.session_id = Some(id.to_owned());
        }
    }
}

impl Stream for Query {
    type Item = Result<Message, Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Message, Error>>> {
        if let Some(message) = ready!(Pin::new(&mut self.messages).poll_next(context)) {
            self.note(&message);
            return Poll::Ready(Some(Ok(message)));
        }
        let Some(failure) = &mut self.failure else {
            return Poll::Ready(None);
        };
        let failure = ready!(Pin::new(failure).poll(context));
        self.failure = None;
        self.requests = None;
        Poll::Ready(failure.ok().map(Err))
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn granted(answer: Result<(), String>) -> Result<(), Error> {
    answer.map_err(Error::failure)
}

/// Work of a query, on its thread.
struct Task {
    options: Options,
    stop: CancellationToken,
}

impl Task {
    /// Runs with the log of the options, if there is one; only this thread writes to it.
    fn perform(self, program: Program) -> Result<(), Error> {
        let environment = self.options.environment()?;
        let file = self.options.debug_file.clone();
        let filter = self.options.debug.then_some("debug");
        let log = if filter.is_some() || file.is_some() {
            log_of(filter, file.as_deref(), &environment)?
        } else {
            None
        };
        match log {
            Some(log) => tracing::dispatcher::with_default(&log, || self.run(program, environment)),
            None => self.run(program, environment),
        }
    }

    fn run(self, program: Program, environment: Environment) -> Result<(), Error> {
        let config = Config::resolve(
            self.options.overrides()?,
            Interface::AgentSdk,
            environment,
            &Overlay::default(),
        )?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        tracing::debug!(model = config.model.value, "a query begins");
        let is_confined = config.sandbox.enabled.as_ref().is_some_and(|is| is.value);
        let is_checked = config.check.command().is_some();
        if (is_confined || is_checked) && !has_entered() {
            let error = Error::failure("this program cannot confine its commands");
            return Err(error.hint("call `ah::enter()` first thing in its `main`"));
        }
        #[cfg(feature = "otel")]
        ah_engine::watch_sessions(ah_trace::watcher);
        let request = ServeRequest {
            plan: self.options.plan()?,
            fork_at: None,
            config: &config,
            stop: &self.stop,
            extensions: HostExtensions {
                provider: self.options.provider.clone(),
                tools: self.options.own_tools.clone(),
                ..HostExtensions::default()
            },
            warn: Arc::new(|text| tracing::warn!("{text}")),
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::failure(format!("cannot start: {error}")))?;
        match runtime.block_on(serve_program(program, request))? {
            (Served::Ended { .. } | Served::Closed(_), _) => Ok(()),
            (Served::Refused, refusal) => Err(refusal),
            (Served::Lost(error), _) => Err(error.into()),
        }
    }
}
