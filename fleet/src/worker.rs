//! A worker of a fleet: takes runs from a queue and runs them, several at once.
//!
//! A run is that of `ah "TASK"` without a person: the settings of its folder, the same rules and the same sandbox. Its
//! prompt is mail, so a run that was cut off anywhere goes on with what the store has, and nothing is read twice. The
//! worker says for all its runs that they live; a run that it has lost is dropped at once, as by a crash.

mod around;
mod asking;
mod command;
mod cron;
mod metrics;
mod pace;
#[cfg_attr(not(feature = "postgres"), path = "worker/no_postgres.rs")]
mod postgres;
mod probes;
mod run;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::{PermissionRequest, StoreError};
use ah_store::LocalFleet;
use ah_store::fleet::{End, Fleet, Run, RunId, Start, Timing, Wish};
use futures_util::FutureExt as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use ah_engine::sessions::folders::sessions;
use ah_engine::warn::Warn;
pub use around::{Attempted, Report, Resumed, Surroundings};
pub use command::{COMMANDS, end_with_worker};
pub use cron::next_time;
use metrics::Metrics;
use pace::Meter;
pub use postgres::migrate;
use run::{Attempt, again};
pub use threads::Threads;

/// How long a worker that ends waits for its runs to be handed on.
const HAND_OVER: Duration = Duration::from_millis(1500);

/// What a worker works with.
pub struct WorkerRequest<'a> {
    /// The queue and its sessions.
    pub fleet: Arc<dyn Fleet>,
    /// How many runs there may be at once.
    pub concurrency: usize,
    /// Whether the worker ends when there is nothing to do.
    pub until_idle: bool,
    /// Whether it runs [`COMMANDS`], which have the permissions of this process.
    pub runs_commands: bool,
    /// What is around the runs.
    pub around: Arc<dyn Surroundings>,
    /// Hands all runs on when cancelled, and ends the worker.
    pub stop: &'a CancellationToken,
    /// Where it answers whether it is well, and what it has done: `/healthz`, `/readyz`, `/metrics`.
    pub probes: Option<TcpListener>,
    /// Writes what a call would do, as plain text, for questions.
    pub described: fn(&PermissionRequest) -> String,
    /// Callback for what happens to runs.
    pub warn: Warn,
}

/// Opens the fleet of a store: an address such as `postgres://role@host/database`, or `None` for the sessions of this
/// folder.
///
/// # Errors
///
/// If it cannot be opened, or is of a kind that this build does not have.
pub async fn fleet(
    store: Option<&str>,
    config: &Config,
    timing: Timing,
) -> Result<Arc<dyn Fleet>, Error> {
    match store {
        None => Ok(Arc::new(LocalFleet::open(&sessions(config), timing)?)),
        Some(url) if is_postgres(url) => postgres::connect(url, timing).await,
        Some(other) => Err(Error::usage(format!("`{other}` is not a store"))
            .hint("use `postgres://ROLE@HOST/DATABASE`, or omit `--store` for the sessions of this folder")),
    }
}

fn is_postgres(url: &str) -> bool {
    ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
}

/// Works until it is stopped, or until there is nothing to do; returns the number of runs that ended here.
///
/// # Errors
///
/// If the store fails for longer than it is tried again.
pub async fn work(mut request: WorkerRequest<'_>) -> Result<usize, Error> {
    let metrics = Arc::new(Metrics::new());
    let is_probed = request.probes.is_some();
    if let Some(listener) = request.probes.take() {
        probe(listener, &metrics, &request);
    }
    let waker = request.fleet.clone().waker().await?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    let mut worker = Worker {
        name: request.around.name(),
        attempts: Arc::new(request.attempts()),
        metrics,
        fleet: request.fleet,
        running: BTreeMap::new(),
        ended,
        warn: request.warn,
    };
    let mut count = 0;
    let mut look_at = Instant::now();
    let stop = request.stop;
    // A store that does not answer must not hold up the end.
    while let Some(filled) = stop
        .run_until_cancelled(worker.fill(request.concurrency))
        .await
    {
        let is_full = filled?;
        if request.until_idle && worker.running.is_empty() && worker.has_no_more().await? {
            break;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = ends.recv() => count += worker.end(ended).await?,
            () = sleep_until(look_at) => {
                let Some(pause) = stop.run_until_cancelled(worker.look(is_probed)).await else {
                    break;
                };
                look_at = Instant::now() + pause?;
            }
            () = waker.wait(Duration::from_secs(3600)), if !is_full => {
                look_at = look_at.min(Instant::now() + worker.fleet.timing().beat);
            }
        }
    }
    for running in worker.running.values() {
        let _ = running.wishes.send(Wish::Leave);
    }
    let handed_on = async {
        while !worker.running.is_empty() {
            let Some((id, attempt, end)) = ends.recv().await else {
                break;
            };
            let on = End::HandedOn(Duration::ZERO);
            worker.end((id, attempt, end.or(Some(on)))).await?;
        }
        Ok::<(), StoreError>(())
    };
    // Runs that take longer are taken over when their beats are missed.
    match timeout(HAND_OVER, handed_on).await {
        Ok(handed_on) => handed_on?,
        Err(_) => tracing::warn!("a run did not end in time; another worker will take it over"),
    }
    Ok(count)
}

/// Answers at an address whether the worker is well.
fn probe(listener: TcpListener, metrics: &Arc<Metrics>, request: &WorkerRequest<'_>) {
    let of_worker = probes::OfWorker {
        worker: metrics::Worker {
            began: std::time::SystemTime::now(),
            concurrency: request.concurrency,
        },
        metrics: metrics.clone(),
        fleet: request.fleet.clone(),
        stop: request.stop.clone(),
    };
    let answered = ah_serve::probe(listener, Arc::new(of_worker), CancellationToken::new());
    tokio::spawn(answered);
}

impl WorkerRequest<'_> {
    fn attempts(&self) -> run::Starts {
        run::Starts {
            around: self.around.clone(),
            described: self.described,
            runs_commands: self.runs_commands,
        }
    }
}

struct Worker {
    name: String,
    fleet: Arc<dyn Fleet>,
    attempts: Arc<run::Starts>,
    metrics: Arc<Metrics>,
    running: BTreeMap<RunId, Running>,
    ended: mpsc::UnboundedSender<Ended>,
    warn: Warn,
}

/// The end of an attempt: its run, its attempt, and how it left it.
type Ended = (RunId, u32, Option<End>);

/// A run in progress.
struct Running {
    run: Run,
    wishes: watch::Sender<Wish>,
}

impl Worker {
    /// Takes runs while there are any and there is room; returns whether there is no room.
    async fn fill(&mut self, most: usize) -> Result<bool, Error> {
        while self.running.len() < most {
            let Some(run) = self.fleet.claim(&self.name).await? else {
                return Ok(false);
            };
            self.begin(run).await?;
        }
        Ok(true)
    }

    /// Whether there is nothing left that could begin.
    async fn has_no_more(&self) -> Result<bool, Error> {
        if self.fleet.is_idle().await? {
            return Ok(true);
        }
        let limits = self.fleet.limits().await?;
        let is_spent = limits
            .iter()
            .any(|limit| limit.budget.is_some_and(|left| left <= 0));
        if is_spent {
            (self.warn)(
                "a budget is spent, so no queued run can start; `ah fleet limit` raises it",
            );
        }
        Ok(is_spent)
    }

    async fn begin(&mut self, run: Run) -> Result<(), Error> {
        if run.attempt > run.attempts {
            let reason = format!("gave up after {} attempts", run.attempts);
            self.fleet
                .end(run.id, &self.name, &End::Failed(reason))
                .await?;
            return Ok(());
        }
        let (wishes, heard) = watch::channel(Wish::GoOn);
        let attempt = Attempt {
            run: run.clone(),
            worker: self.name.clone(),
            fleet: self.fleet.clone(),
            starts: self.attempts.clone(),
            meter: Arc::new(Meter::new(self.fleet.clone(), self.metrics.clone())),
            wishes: heard,
            warn: self.warn.clone(),
        };
        let (id, number, ended) = (run.id, run.attempt, self.ended.clone());
        let attempted = Box::new(move || {
            async move {
                let end = AssertUnwindSafe(attempt.perform()).catch_unwind().await;
                let end = end.unwrap_or_else(|_| Some(attempt.again("it panicked".to_owned())));
                let report: Report = Box::new(move || {
                    // The receiver is gone only when the worker is.
                    let _ = ended.send((id, number, end));
                });
                report
            }
            .boxed_local()
        });
        if let Err(error) = self.attempts.around.begin(attempted) {
            // The others go on.
            let end = again(&run, format!("cannot start it: {error}"));
            let _ = self.ended.send((id, number, Some(end)));
        }
        self.running.insert(id, Running { run, wishes });
        self.metrics.running(self.running.len());
        Ok(())
    }

    /// Does what is due from time to time; returns the pause until the next time.
    async fn look(&mut self, is_probed: bool) -> Result<Duration, Error> {
        self.beat().await?;
        self.start_due().await?;
        Ok(self.pause(is_probed).await?)
    }

    /// Queues the runs of schedules that are due. Times that passed while nobody worked have one run together.
    async fn start_due(&self) -> Result<(), Error> {
        let schedules = self.fleet.schedules().await?;
        self.metrics.answered();
        if schedules.is_empty() {
            return Ok(());
        }
        let now = self.fleet.now().await?;
        for schedule in schedules.iter().filter(|schedule| schedule.due <= now) {
            match next_time(&schedule.cron, now) {
                Ok(next) => {
                    let start = Start::of(schedule);
                    self.fleet.start(schedule, &start, next).await?;
                }
                Err(error) => (self.warn)(&error.message),
            }
        }
        Ok(())
    }

    /// Returns the pause until the worker looks again. It is longer only if nothing can become due by itself, and nobody
    /// asks whether the store answers.
    async fn pause(&self, is_probed: bool) -> Result<Duration, StoreError> {
        let timing = self.fleet.timing();
        let rests = !is_probed
            && self.running.is_empty()
            && self.fleet.schedules().await?.is_empty()
            && self.fleet.is_idle().await?;
        Ok(if rests {
            self.fleet.rest()
        } else {
            timing.beat
        })
    }

    /// Renews the claims of all runs, and forwards requests to interrupt or cancel them.
    async fn beat(&mut self) -> Result<(), StoreError> {
        for (id, running) in &self.running {
            let wish = self.fleet.beat(*id, &self.name).await?;
            running.wishes.send_if_modified(|known| {
                let is_new = *known != wish && wish != Wish::GoOn;
                if is_new {
                    *known = wish;
                }
                is_new
            });
        }
        Ok(())
    }

    /// Records the end of a run; returns 1 if it ended here.
    async fn end(&mut self, (id, attempt, end): Ended) -> Result<usize, StoreError> {
        let of_attempt = |running: &Running| running.run.attempt == attempt;
        if !self.running.get(&id).is_some_and(of_attempt) {
            // It was lost, and taken anew.
            return Ok(0);
        }
        let Some(running) = self.running.remove(&id) else {
            return Ok(0);
        };
        self.metrics.running(self.running.len());
        self.fleet.close(&running.run.session, &self.name).await?;
        let Some(end) = end else {
            return Ok(0);
        };
        let session = &running.run.session;
        match &end {
            End::Failed(error) => (self.warn)(&format!("run {id} of {session}: {error}")),
            End::Again(error, pause) => (self.warn)(&format!(
                "run {id} of {session}, attempt {attempt} of {}: {error}; next attempt in {} s",
                running.run.attempts,
                pause.as_secs()
            )),
            _ => {}
        }
        self.metrics.ended(&end);
        let is_ours = self.fleet.end(id, &self.name, &end).await?;
        let is_over = matches!(end, End::Done(_) | End::Failed(_) | End::Cancelled);
        Ok(usize::from(is_ours && is_over))
    }
}
