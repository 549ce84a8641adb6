//! Runs for other agents, which use this engine as an MCP server. Each run is that of `-p`: a session of the folder, with the
//! same rules and the same sandbox; its questions go to the client.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ah_config::overlay::Overlay;
use ah_config::overrides::HostOptions;
use ah_config::{Config, Error, ErrorKind, Overrides};
use ah_conversation::{
    ContentBlock, Environment, ExitReason, Interface, MailKind, Message as StoredMessage,
    PermissionRequest, Question, neutralise,
};
use ah_engine::assemble::HostExtensions;
use ah_engine::person::{Ask, Elsewhere, cut};
use ah_engine::plan::{ResumePoint, SessionChoice, SessionPlan};
use ah_engine::serve::{ServeRequest, serve_program};
use ah_engine::session_folders::{sessions, title};
use ah_engine::warn::Warn;
use ah_protocol::stream_json::{Messages, Program, Requests, Served};
use ah_protocol::{Message, ResultMessage};
use ah_store::{Paths, Queue, SessionHead, Tree};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::runner::{At, Ended, Listed, Opened, Refusal, RunEvent, Runner, Running, Wanted};
use crate::server::serve;

/// Longest step, in characters.
const SHOWN_STEP: usize = 200;
/// Time that runs have to end: their tools are ended within three seconds.
const LONGEST_END: Duration = Duration::from_secs(5);

/// A client to serve, and what its runs start with.
pub struct ClientRequest<'a> {
    /// The choices of the command line.
    pub overrides: Overrides,
    /// The interface of its runs.
    pub interface: Interface,
    /// The configuration of the folder that the program was started in.
    pub config: &'a Config,
    /// The files in the executable.
    pub overlay: Overlay,
    /// Ends all runs when cancelled.
    pub stop: &'a CancellationToken,
    /// Callback for warnings.
    pub warn: Warn,
    /// Writes a conversation, given its name, as Markdown.
    pub written: fn(&str, &[StoredMessage]) -> String,
    /// Writes what a call would do, as plain text.
    pub described: fn(&PermissionRequest) -> String,
    /// Called when a run needs somebody while no client watches it.
    pub call: Option<Call>,
}

/// Callback: the id of the session, whether the run waits for an answer (else it has ended), and what it is about.
pub type Call = Arc<dyn Fn(&str, bool, &str) + Send + Sync>;

/// Serves the client at the other end of `streams` until it is gone.
///
/// # Errors
///
/// If the settings are not valid for its runs, or the connection fails.
pub async fn serve_client(
    streams: (
        impl AsyncRead + Send + Unpin + 'static,
        impl AsyncWrite + Send + Unpin + 'static,
    ),
    request: ClientRequest<'_>,
) -> Result<(), Error> {
    let stop = request.stop.clone();
    let runs = Arc::new(ClientRuns::new(request)?);
    let served = serve(runs.clone(), streams, &stop).await;
    // Runs whose client is gone end, with all messages stored.
    runs.end().await;
    served.map_err(|text| Error::failure(format!("the connection failed: {text}")))
}

/// What every run starts with.
struct Starts {
    overrides: Overrides,
    interface: Interface,
    config: Config,
    overlay: Overlay,
    warn: Warn,
}

/// The runs of a client.
pub struct ClientRuns {
    starts: Arc<Starts>,
    stop: CancellationToken,
    /// Each thread of a run has a receiver until it ends.
    threads: watch::Sender<()>,
    written: fn(&str, &[StoredMessage]) -> String,
    described: fn(&PermissionRequest) -> String,
}

impl Runner for ClientRuns {
    fn begin(&self, wanted: Wanted) -> Running {
        let stop = self.stop.child_token();
        let (events, receiver) = mpsc::unbounded_channel();
        let run = ClientRun {
            starts: self.starts.clone(),
            stop: stop.clone(),
            events: events.clone(),
            described: self.described,
        };
        let spawned = self.spawn("run", move || run.perform(wanted));
        if let Err(error) = spawned {
            let failed = failed(&Error::failure(format!("cannot start: {error}")));
            // The receiver is ours.
            let _ = events.send(RunEvent::Ended(failed));
        }
        Running {
            events: receiver,
            stop,
        }
    }

    fn steer(&self, session: &str, message: &str) -> Result<(), String> {
        let paths = self.paths(session)?;
        let paths = paths.ok_or_else(|| format!("there is no session `{session}`"))?;
        let queued = Queue::open(&paths).and_then(|queue| queue.send(MailKind::Steer, message));
        queued.map(drop).map_err(|error| error.to_string())
    }

    fn sessions(&self) -> Result<Vec<Listed>, String> {
        let heads = sessions(&self.starts.config).list();
        let mut heads = heads.map_err(|error| error.to_string())?;
        heads.retain(|head| head.problem.is_none() && head.messages > 0);
        heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
        Ok(heads.iter().map(listed).collect())
    }

    fn read(&self, session: &str) -> Result<Option<Opened>, String> {
        let Some(paths) = self.paths(session)? else {
            return Ok(None);
        };
        let read = || {
            let tree = Tree::open(&paths)?;
            let messages = match tree.current()? {
                Some(current) => tree.branch(&current)?,
                None => Vec::new(),
            };
            let name = tree.name()?.unwrap_or_else(|| format!("Session {session}"));
            Ok((name, messages))
        };
        let read: Result<_, ah_conversation::StoreError> = read();
        let (name, messages) = read.map_err(|error| error.to_string())?;
        let markdown = (self.written)(&name, &messages);
        Ok(Some(Opened {
            markdown: self
                .starts
                .config
                .environment
                .redact(&markdown)
                .into_owned(),
        }))
    }
}

impl ClientRuns {
    /// Runs that start with what is in the request.
    ///
    /// # Errors
    ///
    /// If the settings are not valid for them.
    pub fn new(request: ClientRequest<'_>) -> Result<Self, Error> {
        let variables = request.config.environment.all();
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::new(variables, request.config.environment.cwd().to_owned());
        let mut overrides = request.overrides;
        overrides.run.host.answers_questions = true;
        let config = Config::resolve(
            overrides.clone(),
            request.interface,
            environment,
            &request.overlay,
        )?;
        Ok(Self {
            starts: Arc::new(Starts {
                overrides,
                interface: request.interface,
                config: Config {
                    unpacked: request.config.unpacked.clone(),
                    ..config
                },
                overlay: request.overlay,
                warn: request.warn,
            }),
            stop: request.stop.child_token(),
            threads: watch::Sender::new(()),
            written: request.written,
            described: request.described,
        })
    }

    /// Starts a thread that [`Self::end`] waits for.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let running = self.threads.subscribe();
        let work = move || {
            let _running = running;
            work();
        };
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map(drop)
    }

    /// Ends all runs, and waits until they have stored what was said, at most `LONGEST_END`.
    pub async fn end(&self) {
        self.stop.cancel();
        if timeout(LONGEST_END, self.threads.closed()).await.is_err() {
            tracing::warn!("a run has not ended, and is left");
        }
    }

    /// Returns the configuration that every run starts with.
    pub fn config(&self) -> &Config {
        &self.starts.config
    }

    /// Returns the configuration of a session that a host drives.
    pub fn of_host(&self, model: Option<String>, is_partial: bool) -> Result<Config, Error> {
        self.starts.configured(model, |host| {
            host.decides_permissions = true;
            host.partial_messages = is_partial;
        })
    }

    /// Returns what ends all runs.
    pub fn stop(&self) -> CancellationToken {
        self.stop.child_token()
    }

    /// Returns the callback for warnings.
    pub fn warn(&self) -> Warn {
        self.starts.warn.clone()
    }

    /// Returns the paths of the session with exactly this id; `None` if the folder has none.
    pub fn paths(&self, session: &str) -> Result<Option<Paths>, String> {
        let heads = sessions(&self.starts.config).list();
        let heads = heads.map_err(|error| error.to_string())?;
        let head = heads.into_iter().find(|head| head.id.as_str() == session);
        Ok(head.map(|head| head.paths))
    }
}

fn listed(head: &SessionHead) -> Listed {
    Listed {
        id: head.id.to_string(),
        title: neutralise(&title(head)).into_owned(),
        updated: Timestamp::from_millisecond(head.last_written.0)
            .unwrap_or_default()
            .to_string(),
    }
}

impl Starts {
    /// Returns the configuration of a run. It is read anew, since settings may have changed.
    fn of_run(&self, model: Option<String>) -> Result<Config, Error> {
        self.configured(model, |_| {})
    }

    /// Returns the configuration of a run, with these options of its host.
    fn configured(
        &self,
        model: Option<String>,
        choose: impl FnOnce(&mut HostOptions),
    ) -> Result<Config, Error> {
        let variables = self.config.environment.all();
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::new(variables, self.config.environment.cwd().to_owned());
        let mut overrides = self.overrides.clone();
        overrides.model = model.or(overrides.model);
        choose(&mut overrides.run.host);
        let config = Config::resolve(overrides, self.interface, environment, &self.overlay)?;
        Ok(Config {
            unpacked: self.config.unpacked.clone(),
            ..config
        })
    }
}

/// Returns the id of the session with this UUID, which is unchanged if there is none.
fn session_id(uuid: &str, config: &Config) -> String {
    let found = sessions(config).find(uuid).ok();
    let id = found.and_then(|paths| paths.id());
    id.map_or_else(|| uuid.to_owned(), |id| id.to_string())
}

/// A run, on its thread.
struct ClientRun {
    starts: Arc<Starts>,
    stop: CancellationToken,
    events: mpsc::UnboundedSender<RunEvent>,
    described: fn(&PermissionRequest) -> String,
}

impl ClientRun {
    fn perform(self, wanted: Wanted) {
        let events = self.events.clone();
        let ended = self.run(wanted).unwrap_or_else(|error| failed(&error));
        // The client may be gone.
        let _ = events.send(RunEvent::Ended(ended));
    }

    fn run(self, wanted: Wanted) -> Result<Ended, Error> {
        let Wanted {
            prompt,
            session,
            is_fork,
            at,
            model,
        } = wanted;
        let config = self.starts.of_run(model)?;
        let (at, fork_at) = match at {
            None => (None, None),
            Some(At::Number(seq)) => (None, Some(seq)),
            Some(At::Message(id)) => (Some(ResumePoint::of(&id)), None),
        };
        let plan = SessionPlan {
            choice: session.map_or(SessionChoice::New, SessionChoice::Find),
            fork: is_fork,
            at,
            is_impatient: true,
            ..SessionPlan::default()
        };
        let (mut program, requests, messages) = Program::new();
        let begun = CancellationToken::new();
        program.host = Some(Arc::new(Elsewhere {
            ask: AskClient {
                events: self.events.clone(),
                begun: begun.clone(),
            },
            described: self.described,
        }));
        requests.prompt(vec![ContentBlock::text(prompt)]);
        let ends = CancellationToken::new();
        let request = ServeRequest {
            plan: plan.checked()?,
            fork_at,
            config: &config,
            stop: &ends,
            extensions: HostExtensions::default(),
            warn: self.starts.warn.clone(),
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::failure(format!("cannot start: {error}")))?;
        let (served, ended) = runtime.block_on(async {
            let to = (&self.events, &self.stop, &begun);
            let told = told(&config, messages, requests, to);
            tokio::join!(serve_program(program, request), told)
        });
        let (served, refusal) = served?;
        match (served, ended) {
            // Its result has the words, and not what kind of error it is.
            (Served::Refused, _) => Err(refusal),
            (_, Some(ended)) => Ok(ended),
            (Served::Lost(error), None) => Err(error.into()),
            (_, None) => Err(refusal),
        }
    }
}

/// Passes on what happens in a run; returns its end. When `stop` is cancelled, or nobody listens, the run is interrupted.
async fn told(
    config: &Config,
    mut messages: Messages,
    requests: Requests,
    (events, stop, begun): (
        &mpsc::UnboundedSender<RunEvent>,
        &CancellationToken,
        &CancellationToken,
    ),
) -> Option<Ended> {
    let (mut ended, mut has_begun, mut is_stopped) = (None, false, false);
    // The session ends once there are no requests to come.
    let mut requests = Some(requests);
    loop {
        let message = tokio::select! {
            message = messages.next() => message?,
            () = interrupted(stop, events), if !is_stopped => {
                is_stopped = true;
                if let Some(requests) = &requests {
                    drop(requests.interrupt());
                }
                continue;
            }
        };
        let event = match &message {
            Message::System(system) if system.subtype == "init" && !has_begun => {
                has_begun = true;
                let id = system.data.get("session_id").and_then(Value::as_str);
                id.map(|uuid| RunEvent::Began(session_id(uuid, config)))
            }
            Message::Assistant(said) => step(&said.message).map(RunEvent::Step),
            Message::StreamEvent(piece) => Some(RunEvent::Streamed(piece.event.clone())),
            Message::Result(result) => {
                ended = Some(end(result, is_stopped));
                requests = None;
                None
            }
            _ => None,
        };
        if let Some(event) = event {
            // Checked above.
            let _ = events.send(event);
        }
        if has_begun {
            begun.cancel();
        }
        if requests.is_none() {
            while messages.next().await.is_some() {}
            return ended;
        }
    }
}

async fn interrupted(stop: &CancellationToken, events: &mpsc::UnboundedSender<RunEvent>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = events.closed() => {}
    }
}

/// Returns the call in a message of the model, on one line.
fn step(message: &Map<String, Value>) -> Option<String> {
    let blocks = message.get("content")?.as_array()?;
    let call = blocks.iter().find(|block| block["type"] == "tool_use")?;
    let input = call["input"].as_object();
    let about = input.and_then(|input| input.values().find_map(Value::as_str));
    let line = format!("{} {}", call["name"].as_str()?, about.unwrap_or_default());
    Some(cut(
        line.lines().next().unwrap_or_default().trim(),
        SHOWN_STEP,
    ))
}

fn end(result: &ResultMessage, was_stopped: bool) -> Ended {
    let text = match result.result.as_deref() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => result.errors.join("\n"),
    };
    let reason = result.exit_reason.as_ref();
    Ended {
        text,
        is_error: result.is_error,
        is_stopped: was_stopped
            || matches!(reason, Some(ExitReason::Interrupted | ExitReason::Aborted)),
        turns: result.num_turns,
        cost_usd: result.total_cost_usd,
        refusal: None,
    }
}

fn failed(error: &Error) -> Ended {
    let refusal = match error.kind {
        ErrorKind::SessionBusy => Some(Refusal::Busy),
        ErrorKind::NotFound => Some(Refusal::Missing),
        _ => None,
    };
    Ended {
        // Their hints are for a command line.
        text: match refusal {
            Some(_) => error.message.clone(),
            None => error.in_one_line(),
        },
        is_error: true,
        refusal,
        ..Ended::default()
    }
}

/// Asks the client, by its run.
struct AskClient {
    events: mpsc::UnboundedSender<RunEvent>,
    /// Cancelled once the client knows the session, which is what it answers.
    begun: CancellationToken,
}

#[async_trait]
impl Ask for AskClient {
    async fn ask(&self, question: Question) -> Option<BTreeMap<String, String>> {
        self.begun.cancelled().await;
        let (answer, answered) = oneshot::channel();
        self.events.send(RunEvent::Asked(question, answer)).ok()?;
        answered.await.ok().flatten()
    }
}
