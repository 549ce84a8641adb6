//! The sessions of this machine for the doors of this program: editors, an MCP server, a server over HTTP, runs in the
//! background. Each run is that of `-p`, with the same rules and the same sandbox, on a thread of its own; its questions go
//! to the door. A session that a client drives itself is opened for it.

mod files;
mod open;
pub(crate) mod place;
pub(crate) mod refusal;
mod run;
mod starts;
mod stored;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ah_agent::Audience;
use ah_config::{Config, Error, Overrides, Resolver};
use ah_conversation::{Interface, MailKind, MessageId, PermissionRequest};
use ah_desk::{
    Choices, FileLeft, FilesAt, FilesDiff, OpenSession, Prompt, Refusal, RunEvent, Running, Scope,
    SessionSummary, Sessions, Start, Transcript, Waiting,
};
use ah_protocol::stream_json::Streams;
use ah_store::{Changes, Paths, Queue, Tree};
use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::desk::refusal::refusal;
use crate::model;
use crate::sessions::folders::{directory, everywhere, sessions, title};
use crate::warn::Warn;
use run::Run;
use starts::Starts;
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
            tracing::warn!("a run did not end in time and was abandoned");
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

    /// Returns the paths of a session that has to be there.
    fn paths_of(&self, id: &str) -> Result<Paths, Refusal> {
        let missing = || Refusal::failed(format!("there is no session `{id}`"));
        self.paths(id)?.ok_or_else(missing)
    }
}

#[async_trait]
impl Sessions for Desk {
    fn list(&self, scope: Scope<'_>) -> Result<Vec<SessionSummary>, Refusal> {
        let mut heads = match scope {
            Scope::Here => sessions(&self.starts.config).list()?,
            Scope::Folder(folder) => {
                let config = self.starts.config_of(Some(folder));
                sessions(&config.map_err(|error| refusal(&error))?).list()?
            }
            Scope::Everywhere => {
                let all = everywhere(&self.starts.config);
                all.map_err(|error| refusal(&error))?.heads
            }
        };
        heads.retain(|head| head.problem.is_none());
        heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
        let summaries = heads.iter().map(|head| SessionSummary {
            id: head.id.clone(),
            folder: match scope {
                Scope::Folder(folder) => Some(folder.to_owned()),
                Scope::Here | Scope::Everywhere => directory(head),
            },
            title: title(head),
            is_known: head.is_known,
            messages: head.messages,
            tokens: head.tokens,
            updated: head.last_written,
        });
        Ok(summaries.collect())
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

    async fn open(&self, start: &Start, audience: Audience) -> Result<OpenSession, Refusal> {
        let opened = self.starts.open(start, audience).await;
        opened.map_err(|error| refusal(&error))
    }

    fn begin(&self, start: Start, prompt: Prompt) -> Running {
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

    fn send(&self, id: &str, message: &str) -> Result<String, Refusal> {
        let queue = Queue::open(&self.paths_of(id)?)?;
        Ok(queue.send(MailKind::Steer, message)?.to_string())
    }

    fn waiting(&self, id: &str) -> Result<Vec<Waiting>, Refusal> {
        let paths = self.paths_of(id)?;
        if !paths.queue().exists() {
            return Ok(Vec::new());
        }
        let waiting = Queue::open(&paths)?.waiting(MailKind::Steer)?;
        let waiting = waiting.into_iter().map(|mail| Waiting {
            id: mail.id.to_string(),
            text: mail.content,
        });
        Ok(waiting.collect())
    }

    fn withdraw(&self, id: &str, message: &str) -> Result<bool, Refusal> {
        let queue = Queue::open(&self.paths_of(id)?)?;
        Ok(queue.withdraw(&MessageId::from(message.to_owned()))?)
    }

    async fn rename(&self, id: &str, name: &str) -> Result<(), Refusal> {
        let renamed = self.starts.rename(&self.paths_of(id)?, name).await;
        renamed.map_err(|error| refusal(&error))
    }

    async fn files(&self, id: &str, at: FilesAt) -> Result<Option<FilesDiff>, Refusal> {
        let found = self.starts.files(&self.paths_of(id)?, at).await;
        found.map_err(|error| refusal(&error))
    }

    async fn restore(
        &self,
        id: &str,
        at: FilesAt,
        plan: &str,
    ) -> Result<Option<Vec<FileLeft>>, Refusal> {
        let restored = self.starts.restore(&self.paths_of(id)?, at, plan).await;
        restored.map_err(|error| refusal(&error))
    }

    fn choices(&self) -> Result<Choices, Refusal> {
        let choices = self.starts.choices();
        choices.map_err(|error| refusal(&error))
    }

    fn remove(&self, id: &str) -> Result<(), Refusal> {
        let removed = self.starts.remove(id);
        removed.map_err(|error| refusal(&error))
    }

    fn has_key(&self) -> bool {
        // Read again: the key may have been kept a moment ago.
        let config = self.starts.config_of(None);
        config.is_ok_and(|config| model::credentials(&config).is_ok())
    }
}
