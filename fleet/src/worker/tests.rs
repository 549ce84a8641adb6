use std::io;
use std::path::Path;
use std::sync::Arc;

use ah_agent::{RunOutcome, Stop};
use ah_config::Error;
use ah_conversation::{Clock as _, Environment, SessionId};
use ah_ids::SystemClock;
use ah_store::fleet::{Fleet, NewRun, Run, RunState, Timing};
use ah_store::{LocalFleet, SessionStore, Sessions};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Attempted, Resumed, Surroundings, WorkerRequest, work};
use crate::carried::Workspace;

/// Surroundings in which nothing can begin.
struct Full;

#[async_trait(?Send)]
impl Surroundings for Full {
    fn name(&self) -> String {
        "me".to_owned()
    }

    fn begin(&self, _: Attempted) -> io::Result<()> {
        Err(io::Error::other("no room"))
    }

    fn environment(&self, _: &Path) -> Result<Environment, Error> {
        unreachable!("nothing begins")
    }

    async fn files(&self, _: &Run, _: &SessionStore) -> Result<Option<Workspace>, Error> {
        unreachable!("nothing begins")
    }

    async fn resume(&self, _: &Run, _: Resumed, _: &Stop) -> Result<Option<RunOutcome>, Error> {
        unreachable!("nothing begins")
    }
}

#[tokio::test]
async fn a_run_that_cannot_begin_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = Sessions::in_folder(folder.path());
    let fleet = Arc::new(LocalFleet::open(&sessions, Timing::default()).unwrap());
    for session in ["A", "B"] {
        let run = NewRun {
            session: SessionId::from(session),
            message: SystemClock::default().message_id(),
            prompt: "task".to_owned(),
            command: Vec::new(),
            folder: folder.path().to_owned(),
            model: None,
            priority: 0,
            delay: std::time::Duration::ZERO,
            attempts: 1,
            answer_within: None,
        };
        fleet.enqueue(&run).await.unwrap();
    }
    let request = WorkerRequest {
        fleet: fleet.clone(),
        concurrency: 1,
        until_idle: true,
        runs_commands: false,
        around: Arc::new(Full),
        stop: &CancellationToken::new(),
        probes: None,
        described: |_| String::new(),
        warn: Arc::new(|_| ()),
    };
    assert_eq!(work(request).await.unwrap(), 2);
    let runs = fleet.runs(None, 9).await.unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run.state, RunState::Failed);
    }
}
