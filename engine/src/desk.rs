//! The sessions of a folder for the doors of this program: an MCP server, a server over HTTP, runs in the background.
//! Each run is that of `-p`, with the same rules and the same sandbox, on a thread of its own; its questions go to the
//! door.

mod run;
mod stored;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ah_config::{Config, Error, ErrorKind, Overrides, Resolver};
use ah_conversation::{Interface, MailKind, PermissionRequest};
use ah_desk::{
    At, Refusal, RefusalKind, RunEvent, Running, SessionSummary, Sessions, Start, Transcript, Which,
};
use ah_protocol::stream_json::{Served, Streams};
use ah_store::{Changes, Paths, Queue, SessionHead, Tree};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::assemble::HostExtensions;
use crate::plan::{ResumePoint, SessionChoice, SessionPlan};
use crate::serve::{ServeRequest, serve_host};
use crate::session_folders::{sessions, title};
use crate::warn::Warn;
use run::Run;
use stored::Stored;

/// Time that runs have to end: their tools are ended within three seconds.
const LONGEST_END: Duration = Duration::from_secs(5);
/// Pause after a look at a session that another process may write.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Time after which it is looked at although nothing was told.
const LONGEST: Duration = Duration::from_secs(60);

/// What the sessions of a desk start with.
pub struct DeskRequest<'a> {
    /// The choices of the command line.
    pub overrides: Overrides,
    /// The interface of its runs.
    pub interface: Interface,
    /// The configuration of the folder that the program was started in.
    pub config: &'a Config,
    /// Ends all runs when cancelled.
    pub stop: &'a CancellationToken,
    /// Callback for warnings.
    pub warn: Warn,
    /// Writes what a call would do, as plain text.
    pub described: fn(&PermissionRequest) -> String,
}

/// The sessions of a folder, and the runs of its doors.
pub struct Desk {
    starts: Arc<Starts>,
    stop: CancellationToken,
    /// Each thread of a run has a receiver until it ends.
    threads: watch::Sender<()>,
}

/// What every run starts with.
struct Starts {
    resolver: Resolver,
    config: Config,
    described: fn(&PermissionRequest) -> String,
    warn: Warn,
}

impl Desk {
    /// A desk whose sessions start with what is in the request.
    ///
    /// # Errors
    ///
    /// If the settings are not valid for them.
    pub fn new(request: DeskRequest<'_>) -> Result<Self, Error> {
        let DeskRequest {
            overrides,
            interface,
            config,
            stop,
            warn,
            described,
        } = request;
        let resolver = Resolver::new(overrides, interface, config);
        let starts = Starts {
            config: resolver.resolve(config.environment.cwd(), |_| {})?,
            resolver,
            described,
            warn,
        };
        Ok(Self {
            starts: Arc::new(starts),
            stop: stop.child_token(),
            threads: watch::Sender::new(()),
        })
    }

    /// Returns the configuration of its folder.
    pub fn config(&self) -> &Config {
        &self.starts.config
    }

    /// Ends all runs, and waits until they have stored what was said, at most `LONGEST_END`.
    pub async fn end(&self) {
        self.stop.cancel();
        if timeout(LONGEST_END, self.threads.closed()).await.is_err() {
            tracing::warn!("a run has not ended, and is left");
        }
    }

    /// Has a session driven by a host, which speaks the protocol of the Agent SDKs and wants answers piece by piece if
    /// `is_partial`. Returns what receives the end: why it failed, if it did.
    pub fn drive(
        &self,
        start: Start,
        is_partial: bool,
        streams: Streams,
    ) -> oneshot::Receiver<Result<(), String>> {
        let (end, ended) = oneshot::channel();
        let (starts, stop) = (self.starts.clone(), self.stop.child_token());
        let spawned = self.spawn("host", move || {
            let done = starts.driven(start, is_partial, streams, &stop);
            // The host may be gone.
            let _ = end.send(done.map_err(|error| error.message));
        });
        if let Err(error) = spawned {
            tracing::warn!("cannot start the thread of a host: {error}");
        }
        ended
    }

    /// Starts a thread that [`Self::end`] waits for.
    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let running = self.threads.subscribe();
        let work = move || {
            let _running = running;
            work();
        };
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map(drop)
    }

    /// Returns the paths of the session with exactly this id; `None` if the folder has none.
    fn paths(&self, id: &str) -> Result<Option<Paths>, Refusal> {
        let heads = sessions(&self.starts.config).list()?;
        let head = heads.into_iter().find(|head| head.id.as_str() == id);
        Ok(head.map(|head| head.paths))
    }
}

impl Sessions for Desk {
    fn list(&self) -> Result<Vec<SessionSummary>, Refusal> {
        let mut heads = sessions(&self.starts.config).list()?;
        heads.retain(|head| head.problem.is_none());
        heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
        Ok(heads.iter().map(summary).collect())
    }

    fn transcript(&self, id: &str) -> Result<Option<Box<dyn Transcript>>, Refusal> {
        let Some(paths) = self.paths(id)? else {
            return Ok(None);
        };
        Ok(Some(Box::new(Stored(Tree::open(&paths)?))))
    }

    fn follow(&self, id: &str, changed: Box<dyn Fn() -> bool + Send>) {
        let Ok(Some(paths)) = self.paths(id) else {
            return;
        };
        let changes = Changes::of_session(&paths);
        tokio::spawn(async move {
            while changed() {
                // A commit changes files several times.
                sleep(BETWEEN_LOOKS).await;
                changes.next(LONGEST).await;
            }
        });
    }

    fn begin(&self, start: Start, prompt: String) -> Running {
        let stop = self.stop.child_token();
        let (events, receiver) = mpsc::unbounded_channel();
        let run = Run::new(self.starts.clone(), stop.clone(), events.clone());
        let spawned = self.spawn("run", move || run.perform(start, prompt));
        if let Err(error) = spawned {
            let refused = Refusal::failed(format!("cannot start: {error}"));
            // The receiver is ours.
            let _ = events.send(RunEvent::Refused(refused));
        }
        Running {
            events: receiver,
            stop,
        }
    }

    fn send(&self, id: &str, message: &str) -> Result<(), Refusal> {
        let paths = self.paths(id)?;
        let paths = paths.ok_or_else(|| Refusal::failed(format!("there is no session `{id}`")))?;
        Queue::open(&paths)?.send(MailKind::Steer, message)?;
        Ok(())
    }
}

impl Starts {
    /// Returns the configuration of a session. It is read anew, since settings may have changed.
    fn config(
        &self,
        model: Option<String>,
        choose: impl FnOnce(&mut Overrides),
    ) -> Result<Config, Error> {
        let folder = self.config.environment.cwd();
        self.resolver.resolve(folder, |overrides| {
            overrides.model = model.or(overrides.model.take());
            overrides.run.host.answers_questions = true;
            choose(overrides);
        })
    }

    /// Serves a host until it is gone.
    fn driven(
        &self,
        start: Start,
        is_partial: bool,
        streams: Streams,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let config = self.config(start.model, |overrides| {
            overrides.run.host.decides_permissions = true;
            overrides.run.host.partial_messages = is_partial;
        })?;
        let (plan, fork_at) = plan(start.which);
        let request = ServeRequest {
            plan: plan.checked()?,
            fork_at,
            config: &config,
            stop,
            extensions: HostExtensions::default(),
            warn: self.warn.clone(),
        };
        let (served, refusal) = runtime()?.block_on(serve_host(streams, request))?;
        match served {
            Served::Refused => Err(refusal),
            Served::Lost(error) => Err(error.into()),
            Served::Closed(_) | Served::Ended { .. } => Ok(()),
        }
    }
}

/// Returns the runtime of a session, which is on one thread.
fn runtime() -> Result<Runtime, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::failure(format!("cannot start: {error}")))
}

/// Returns the plan for a session, and the number of the message at which it goes on.
fn plan(which: Which) -> (SessionPlan, Option<u32>) {
    let (choice, fork, at) = match which {
        Which::New => (SessionChoice::New, false, None),
        Which::Resume(id, at) => (SessionChoice::Find(id), false, at),
        Which::Fork(id, at) => (SessionChoice::Find(id), true, at),
    };
    let (at, number) = match at {
        None => (None, None),
        Some(At::Number(number)) => (None, Some(number)),
        Some(At::Message(id)) => (Some(ResumePoint::of(&id)), None),
    };
    let plan = SessionPlan {
        choice,
        fork,
        at,
        ..SessionPlan::default()
    };
    (plan, number)
}

fn summary(head: &SessionHead) -> SessionSummary {
    SessionSummary {
        id: head.id.clone(),
        title: title(head),
        messages: head.messages,
        tokens: head.tokens,
        updated: head.last_written,
    }
}

/// Returns why a session was not opened, for a client.
fn refusal(error: &Error) -> Refusal {
    let kind = match error.kind {
        ErrorKind::SessionBusy => RefusalKind::Busy,
        ErrorKind::NotFound => RefusalKind::Missing,
        _ => RefusalKind::Failed,
    };
    Refusal {
        // Hints of the others are for a command line.
        text: match kind {
            RefusalKind::Failed => error.in_one_line(),
            RefusalKind::Busy | RefusalKind::Missing => error.message.clone(),
        },
        kind,
    }
}
