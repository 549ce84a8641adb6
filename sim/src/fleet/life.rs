//! The processes of a fleet: workers with their own loop, who are stopped, stalled and killed, and clients with one thing to do.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ah_agent::{RunOutcome, Session, Stop, Toolbox};
use ah_config::Error;
use ah_conversation::Environment;
use ah_fleet::carried::Workspace;
use ah_fleet::worker::{Attempted, Resumed, Surroundings, WorkerRequest, work};
use ah_store::SessionStore;
use ah_store::fleet::{Fleet, Run};
use async_trait::async_trait;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use crate::opening::{ports_of, settings, watched};
use crate::plan::Process;
use crate::store::SimulatedStore;
use crate::tools;

/// Runs that a worker has at once.
const CONCURRENCY: usize = 2;

/// A process.
pub(crate) struct Life {
    /// Its threads.
    threads: FuturesUnordered<LocalBoxFuture<'static, ()>>,
    begun: Arc<Begun>,
    /// It has ended by itself, and how.
    ended: Arc<Mutex<Option<Result<usize, Error>>>>,
    /// Until when it does nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Asks it to end.
    pub(crate) stop: CancellationToken,
}

/// What is around the attempts of a worker.
struct Begun {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Attempted>>,
}

impl Begun {
    fn threads(&self) -> MutexGuard<'_, Vec<Attempted>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Life {
    /// Returns a worker of a fleet.
    pub(crate) fn worker(shared: &Arc<Shared>, fleet: Arc<dyn Fleet>) -> Self {
        let begun = Arc::new(Begun {
            shared: shared.clone(),
            threads: Mutex::default(),
        });
        let ended = Arc::new(Mutex::new(None));
        let stop = CancellationToken::new();
        let (around, token, end) = (begun.clone(), stop.clone(), ended.clone());
        let main = async move {
            let request = WorkerRequest {
                fleet,
                concurrency: CONCURRENCY,
                until_idle: false,
                runs_commands: false,
                around,
                stop: &token,
                probes: None,
                described: |_| String::new(),
                warn: Arc::new(|_| ()),
            };
            let worked = work(request).await;
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(worked);
        };
        Self {
            threads: FuturesUnordered::from_iter([main.boxed_local()]),
            begun,
            ended,
            stalled: None,
            stop,
        }
    }

    /// It does nothing for so long.
    pub(crate) fn stall(&mut self, time: Duration) {
        self.stalled = Some(Box::pin(sleep(time)));
    }

    /// Lets it go on; returns how it has ended, if it has.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, Error>> {
        if let Some(stalled) = &mut self.stalled
            && stalled.as_mut().poll(context).is_pending()
        {
            return Poll::Pending;
        }
        self.stalled = None;
        loop {
            let more = std::mem::take(&mut *self.begun.threads());
            for attempt in more {
                self.threads
                    .push(attempt().map(|report| report()).boxed_local());
            }
            let next = Pin::new(&mut self.threads).poll_next_unpin(context);
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(ended) = ended.take() {
                return Poll::Ready(ended);
            }
            if next.is_pending() && self.begun.threads().is_empty() {
                return Poll::Pending;
            }
        }
    }
}

#[async_trait(?Send)]
impl Surroundings for Begun {
    fn name(&self) -> String {
        format!("name-{}", self.shared.message_id())
    }

    fn begin(&self, attempt: Attempted) -> io::Result<()> {
        self.threads().push(attempt);
        Ok(())
    }

    fn environment(&self, folder: &Path) -> Result<Environment, Error> {
        Ok(Environment::new([], folder.to_owned()))
    }

    async fn files(&self, _: &Run, _: &SessionStore) -> Result<Option<Workspace>, Error> {
        Ok(None)
    }

    async fn resume(
        &self,
        run: &Run,
        with: Resumed,
        stop: &Stop,
    ) -> Result<Option<RunOutcome>, Error> {
        let world = self.shared.world(&run.session);
        let process = Process {
            is_calm: self.shared.is_calm(),
            ..Process::calm(self.shared.below(usize::MAX) as u64)
        };
        world.enter(&process);
        let number = self.shared.number(&run.session);
        self.shared.tell(&format!(
            "session {number} goes on, attempt {}",
            run.attempt
        ));
        let simulated = Arc::new(SimulatedStore::of(&world, with.store));
        let (model, audience) = watched(&world, with.audience);
        let ports = ports_of(&world, simulated, (with.around)(model), audience);
        let tools = Toolbox::new(tools::SimulatedTool::all(&world));
        let mut session = Session::take_over(ports, tools, settings(&world, &process)).await?;
        let outcome = session.resume(stop).await?;
        session.close("other").await?;
        let how = outcome
            .as_ref()
            .map_or("with nothing to do", |outcome| outcome.reason.as_str());
        self.shared.tell(&format!("session {number} ends: {how}"));
        Ok(outcome)
    }
}
