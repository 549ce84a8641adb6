//! A prompt on its way: a stream of messages, and what can be asked for meanwhile.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread;

use ah_config::overlay::Overlay;
use ah_config::{Config, Error};
use ah_conversation::{Environment, ExitReason, Interface, PermissionMode, Usage};
use ah_protocol::stream_json::{Served, Source, Streams};
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::host::{self, Ends, Host};
use super::message::{Message, ResultMessage};
use super::options::Options;
use crate::assemble::HostExtensions;
use crate::log::log_of;
use crate::serve::{ServeRequest, serve_host};

/// What a query tells, or why it could not go on.
type Told = Result<Message, Error>;

/// Runs `prompt`. The work begins at once, on a thread of its own, and waits where the messages are not read.
///
/// What keeps it from beginning (no key, no such session, a setting that cannot be read) is the first item of the
/// stream; how it ended is the last: a [`Message::Result`].
pub fn query(prompt: impl Into<String>, options: Options) -> Query {
    let abort = options.abort.clone();
    let stop = abort.child_token();
    let (tell, told) = mpsc::channel(1);
    let (host, ends) = Host::begin(options.clone(), &prompt.into());
    let task = Task {
        options,
        host: host.clone(),
        stop: stop.clone(),
        tell: tell.clone(),
    };
    let spawned = thread::Builder::new()
        .name("query".to_owned())
        .spawn(move || task.perform(ends));
    if let Err(error) = spawned {
        let _ = tell.try_send(Err(Error::failure(format!("cannot begin: {error}"))));
    }
    Query {
        host,
        stop,
        abort,
        told,
        backlog: VecDeque::new(),
        session_id: None,
        usage: Usage::default(),
        result: None,
    }
}

/// A prompt on its way. Dropped, it ends; what was said is stored.
pub struct Query {
    host: Arc<Host>,
    stop: CancellationToken,
    abort: CancellationToken,
    told: mpsc::Receiver<Told>,
    /// What came while an answer was waited for.
    backlog: VecDeque<Told>,
    session_id: Option<String>,
    usage: Usage,
    result: Option<Box<ResultMessage>>,
}

impl Query {
    /// The next message; `None` when all is said.
    pub async fn next(&mut self) -> Option<Told> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Ends the run that is on; its result still comes.
    ///
    /// # Errors
    /// Where the query has ended.
    pub async fn interrupt(&mut self) -> Result<(), Error> {
        self.ask(json!({"subtype": "interrupt"})).await
    }

    /// Changes what is allowed from the next call on.
    ///
    /// # Errors
    /// Where that mode may not be chosen, or the query has ended.
    pub async fn set_permission_mode(&mut self, mode: PermissionMode) -> Result<(), Error> {
        self.ask(json!({"subtype": "set_permission_mode", "mode": mode.as_str()}))
            .await
    }

    /// Asks another model from the next step on; `None` means the one of the settings.
    ///
    /// # Errors
    /// Where there is no such model or no key for it, or the query has ended.
    pub async fn set_model(&mut self, model: Option<&str>) -> Result<(), Error> {
        self.ask(json!({"subtype": "set_model", "model": model}))
            .await
    }

    /// Changes how many tokens of thought there are at most from the next step on; `None` means as at the start.
    ///
    /// # Errors
    /// Where the query has ended.
    pub async fn set_max_thinking_tokens(&mut self, tokens: Option<u32>) -> Result<(), Error> {
        self.ask(json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens}))
            .await
    }

    /// Ends the query, and returns when what was said is stored. What its tools have started was asked to end then, and
    /// is killed a second later.
    pub async fn close(mut self) {
        self.stop.cancel();
        while self.told.recv().await.is_some() {}
    }

    /// The session, once a message has named it: what [`Options::resume`] takes.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// All tokens, once the result has come.
    pub fn total_usage(&self) -> Usage {
        self.usage
    }

    /// The result, once it has come.
    pub fn result(&self) -> Option<&ResultMessage> {
        self.result.as_deref()
    }

    /// Why it ended, once the result has come.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        let result = self.result.as_deref()?;
        let ending = result.data.get("terminal_reason").and_then(Value::as_str);
        Some(match (&*result.subtype, ending) {
            _ if self.abort.is_cancelled() => ExitReason::Aborted,
            ("error_max_turns", _) => ExitReason::MaxTurns,
            ("error_max_budget_usd", _) => ExitReason::MaxBudget,
            (_, Some("aborted_streaming" | "aborted_tools")) => ExitReason::Interrupted,
            ("success", _) if !result.is_error => match result.stop_reason.as_deref() {
                Some("stop_sequence") => ExitReason::StopSequence,
                Some("end_turn") | None => ExitReason::EndTurn,
                Some(other) => ExitReason::Other(other.to_owned()),
            },
            _ => ExitReason::Error,
        })
    }

    /// Asks the engine for something, and keeps what it tells meanwhile.
    async fn ask(&mut self, request: Value) -> Result<(), Error> {
        let mut answer = self.host.ask(&request);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return host::granted(answer),
                told = self.told.recv() => match told {
                    Some(told) => self.backlog.push_back(told),
                    None => return Err(Error::failure("the query has ended")),
                },
            }
        }
    }

    fn note(&mut self, message: &Message) {
        let named = match message {
            Message::System(message) => &message.data,
            Message::Assistant(message) => &message.data,
            Message::Result(result) => {
                self.usage = result.usage;
                self.result = Some(result.clone());
                &result.data
            }
            Message::User(_) | Message::StreamEvent(_) | Message::Other(_) => return,
        };
        if let Some(id) = named.get("session_id").and_then(Value::as_str)
            && !id.is_empty()
        {
            self.session_id = Some(id.to_owned());
        }
    }
}

impl Stream for Query {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Told>> {
        let told = match self.backlog.pop_front() {
            Some(told) => Some(told),
            None => std::task::ready!(self.told.poll_recv(context)),
        };
        if let Some(Ok(message)) = &told {
            self.note(message);
        }
        Poll::Ready(told)
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The work of a query.
struct Task {
    options: Options,
    host: Arc<Host>,
    stop: CancellationToken,
    tell: mpsc::Sender<Told>,
}

impl Task {
    fn perform(self, ends: Ends) {
        let tell = self.tell.clone();
        if let Err(error) = self.logged(ends) {
            // Nobody may be there to hear it.
            let _ = tell.blocking_send(Err(error));
        }
    }

    /// Runs with the log that the options ask for; nobody else's is touched.
    fn logged(self, ends: Ends) -> Result<(), Error> {
        let environment = environment(&self.options)?;
        let file = self.options.debug_file.clone();
        let filter = self.options.debug.then_some("debug");
        let log = if filter.is_some() || file.is_some() {
            log_of(filter, file.as_deref(), &environment)?
        } else {
            None
        };
        match log {
            Some(log) => tracing::dispatcher::with_default(&log, || self.run(ends, environment)),
            None => self.run(ends, environment),
        }
    }

    fn run(self, ends: Ends, environment: Environment) -> Result<(), Error> {
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
        if is_confined && !super::HAS_ENTERED.load(Ordering::Relaxed) {
            // Its own program would be run again in the place of what confines a command.
            let error = Error::failure("this program cannot confine its commands");
            return Err(error.hint("call `ah::enter()` first thing in its `main`"));
        }
        let runtime = runtime()?;
        let request = ServeRequest {
            streams: Streams {
                source: Source::Lines(Box::new(ends.input)),
                output: Box::new(ends.output),
            },
            plan: self.options.plan()?,
            fork_at: None,
            config: &config,
            stop: &self.stop,
            extensions: HostExtensions {
                provider: self.options.provider.clone(),
                tools: self.options.own_tools.clone(),
            },
            warn: Arc::new(|text| tracing::warn!("{text}")),
        };
        // On a thread of its own, since the engine waits at its end until its last line is taken.
        let (host, lines, tell) = (self.host, ends.lines, self.tell);
        let callbacks = self::runtime()?;
        let relay = thread::Builder::new()
            .name("host".to_owned())
            .spawn(move || callbacks.block_on(relay(host, lines, tell)));
        let relay = relay.map_err(|error| Error::failure(format!("cannot begin: {error}")))?;
        let engaged = runtime.block_on(serve_host(request));
        drop(runtime);
        // It ends with the engine's last line. A panic of a callback is its owner's, and was told.
        let _ = relay.join();
        match engaged? {
            (Served::Ended { .. } | Served::Closed(_), _) => Ok(()),
            (Served::Refused, refusal) => Err(refusal),
            (Served::Lost(error), _) => Err(error.into()),
        }
    }
}

fn runtime() -> Result<Runtime, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::failure(format!("cannot begin: {error}")))
}

/// Hands on what the engine says, until it has said all.
async fn relay(host: Arc<Host>, mut lines: mpsc::Receiver<Vec<u8>>, tell: mpsc::Sender<Told>) {
    while let Some(line) = lines.recv().await {
        let Some(message) = host.take(&line) else {
            continue;
        };
        let is_last = matches!(message, Message::Result(_));
        // Where nobody listens any more, the engine is at its end too, and is heard out.
        let _ = tell.send(Ok(message)).await;
        if is_last {
            host.end();
        }
    }
}

/// The variables of the process and those of the options, in the folder that they name.
fn environment(options: &Options) -> Result<Environment, Error> {
    let process = ah_config::environment::read(None)?;
    let cwd = match &options.cwd {
        Some(cwd) => process.cwd().join(cwd),
        None => process.cwd().to_owned(),
    };
    if !cwd.is_dir() {
        let message = format!(
            "cannot work in `{}`: there is no such folder",
            cwd.display()
        );
        return Err(Error::failure(message));
    }
    let all = process
        .all()
        .chain({ options.env.iter() }.map(|(name, value)| (&**name, &**value)));
    Ok(Environment::new(
        all.map(|(name, value)| (name.to_owned(), value.to_owned())),
        cwd,
    ))
}
