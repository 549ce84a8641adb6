//! Sessions over HTTP. Runs are those that other agents get ([`ah_mcp_server`]): a session of the folder, with
//! the rules and the sandbox of `-p`, whose questions go to the clients.

mod shown;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use ah_config::Error;
use ah_conversation::{Environment, neutralise};
use ah_mcp_server::{self as agent, Runner as _};
use ah_protocol::stream_json::{Served, Source, Streams};
use ah_serve::{Driven, Ended, HostStreams, Need, Running, Sessions, Transcript};
use ah_store::{Changes, SessionHead, Tree};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use ah_engine::assemble::HostExtensions;
use ah_engine::plan::{SessionChoice, SessionPlan};
use ah_engine::serve::{ServeRequest, serve_host};
use ah_engine::session_folders::{sessions, title};
use ah_mcp_server::{Call, ClientRequest, ClientRuns};
use shown::Shown;
use stored::Stored;

pub use ah_serve::{At, Certificate, Door, FirstRun, Life, Token, Wanted};

/// Bytes of a token.
const TOKEN: usize = 32;
/// Pause after a look at a session that another process may write.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Time after which it is looked at although nothing was told.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns a new token as text.
///
/// # Errors
///
/// If the system has no random numbers.
pub fn new_token() -> Result<String, Error> {
    let mut bytes = [0; TOKEN];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("there are no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The sessions of a folder, for clients over HTTP.
pub struct HttpRuns {
    sessions: Arc<HttpSessions>,
    stop: CancellationToken,
}

impl HttpRuns {
    /// Runs that start with what is in the request.
    ///
    /// # Errors
    ///
    /// If the settings are not valid for them.
    pub fn new(mut request: ClientRequest<'_>) -> Result<Self, Error> {
        // A child: a server that ends by itself stops nothing else.
        let stop = request.stop.child_token();
        request.overrides.run.host.partial_messages = true;
        let call = request.call.take();
        let runs = Arc::new(ClientRuns::new(request)?);
        let sessions = Arc::new(HttpSessions { runs, call });
        Ok(Self { sessions, stop })
    }

    /// Serves clients at a door until the request's `stop` is cancelled or its life is over; then the runs end, with all
    /// messages stored.
    ///
    /// # Errors
    ///
    /// If the address cannot be served.
    pub async fn serve(self, door: Door, life: Life) -> Result<(), Error> {
        let served = ah_serve::serve(door, self.sessions.clone(), life, self.stop).await;
        self.sessions.runs.end().await;
        served.map_err(|error| Error::failure(format!("cannot serve: {error}")))
    }
}

/// The sessions of the folder.
struct HttpSessions {
    runs: Arc<ClientRuns>,
    call: Option<Call>,
}

impl Sessions for HttpSessions {
    fn list(&self) -> Result<Vec<Value>, String> {
        let heads = sessions(self.runs.config()).list();
        let mut heads = heads.map_err(|error| error.to_string())?;
        heads.retain(|head| head.problem.is_none());
        heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
        let environment = &self.runs.config().environment;
        let listed = heads.iter().map(|head| listed(head, environment));
        Ok(listed.collect())
    }

    fn transcript(&self, session: &str) -> Result<Option<Box<dyn Transcript>>, String> {
        let Some(paths) = self.runs.paths(session)? else {
            return Ok(None);
        };
        let tree = Tree::open(&paths).map_err(|error| error.to_string())?;
        let runs = self.runs.clone();
        Ok(Some(Box::new(Stored { tree, runs })))
    }

    fn follow(&self, session: &str, changed: Box<dyn Fn() -> bool + Send>) {
        let Ok(Some(paths)) = self.runs.paths(session) else {
            return;
        };
        let changes = Changes::of_session(&paths);
        tokio::spawn(async move {
            while changed() {
                // A commit changes files several times.
                tokio::time::sleep(BETWEEN_LOOKS).await;
                changes.next(LONGEST).await;
            }
        });
    }

    fn begin(&self, wanted: Wanted) -> Running {
        let wanted = agent::Wanted {
            prompt: wanted.prompt,
            session: wanted.session,
            is_fork: wanted.is_fork,
            at: wanted.at.map(|at| match at {
                At::Number(seq) => agent::At::Number(seq),
                At::Message(id) => agent::At::Message(id),
            }),
            model: wanted.model,
        };
        let agent::Running { mut events, stop } = self.runs.begin(wanted);
        let (sender, receiver) = mpsc::unbounded_channel();
        let ends = stop.clone();
        let mut shown = Shown::to_clients(self.runs.config().environment.clone());
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let mut events = shown.translated(event).into_iter();
                if !events.all(|event| sender.send(event).is_ok()) {
                    ends.cancel();
                    break;
                }
            }
        });
        Running {
            events: receiver,
            stop,
        }
    }

    fn steer(&self, session: &str, message: &str) -> Result<(), String> {
        self.runs.steer(session, message)
    }

    fn drive(&self, driven: Driven, streams: HostStreams) -> oneshot::Receiver<Result<(), String>> {
        let (end, ended) = oneshot::channel();
        let runs = self.runs.clone();
        let spawned = self.runs.spawn("host", move || {
            let done = driven_by(&runs, driven, streams);
            // The host may be gone.
            let _ = end.send(done.map_err(|error| error.message));
        });
        if let Err(error) = spawned {
            tracing::warn!("cannot start the thread of a host: {error}");
        }
        ended
    }

    fn call_for(&self, session: &str, need: Need<'_>) {
        let Some(call) = &self.call else {
            return;
        };
        match need {
            Need::Answer(question) => {
                let pick = question.picks.first().map(|pick| pick.question.as_str());
                // Which tool, and the first of its arguments.
                let about: Vec<_> = question.about.lines().take(2).map(str::trim).collect();
                let about = match &about[..] {
                    [] => pick.unwrap_or_default().to_owned(),
                    about => about.join(" "),
                };
                call(session, true, &neutralise(&about));
            }
            Need::End(ended) => call(session, false, how(ended)),
        }
    }
}

/// Serves a host until it is gone.
fn driven_by(runs: &ClientRuns, driven: Driven, streams: HostStreams) -> Result<(), Error> {
    let config = runs.of_host(driven.model, driven.include_partial_messages)?;
    let plan = SessionPlan {
        choice: driven
            .resume
            .map_or(SessionChoice::New, SessionChoice::Find),
        fork: driven.fork_session,
        ..SessionPlan::default()
    };
    let stop = runs.stop();
    let request = ServeRequest {
        plan: plan.checked()?,
        fork_at: None,
        config: &config,
        stop: &stop,
        extensions: HostExtensions::default(),
        warn: runs.warn(),
    };
    let streams = Streams {
        source: Source::Lines(streams.input),
        output: streams.output,
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failure(format!("cannot start: {error}")))?;
    let (served, refusal) = runtime.block_on(serve_host(streams, request))?;
    match served {
        Served::Refused => Err(refusal),
        Served::Lost(error) => Err(error.into()),
        Served::Closed(_) | Served::Ended { .. } => Ok(()),
    }
}

fn how(ended: &Ended) -> &'static str {
    match (ended.is_stopped, ended.is_error) {
        (true, _) => "interrupted",
        (false, true) => "failed",
        (false, false) => "finished",
    }
}

fn listed(head: &SessionHead, environment: &Environment) -> Value {
    json!({
        "id": head.id.to_string(),
        "title": neutralise(&environment.redact(&title(head))),
        "messages": head.messages,
        "tokens": head.tokens,
        "updated_ms": head.last_written.0,
    })
}
