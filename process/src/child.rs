//! A child as its owner holds it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::living::Entry;
use crate::watch::{Stage, Watch};
use crate::{Command, Outcome, StartError};

/// A running child. To drop it is to end the child and all that it started: TERM, and KILL a second later.
#[derive(Debug)]
pub struct Child {
    stage: watch::Receiver<Stage>,
    entry: Entry,
}

impl Command {
    /// Starts the program.
    pub async fn start(self) -> Result<Child, StartError> {
        let mut child = self.launch()?;
        let started = child
            .stage
            .wait_for(|stage| !matches!(stage, Stage::Starting))
            .await;
        match started.as_deref() {
            Ok(Stage::Failed(error)) => Err(error.clone()),
            _ => {
                drop(started);
                Ok(child)
            }
        }
    }

    /// Runs the program to its end. It is ended when the future is dropped.
    pub async fn run(self) -> Result<Outcome, StartError> {
        let child = self.launch()?;
        child.ended().await.map(Arc::unwrap_or_clone)
    }

    fn launch(self) -> Result<Child, StartError> {
        let (stages, stage) = watch::channel(Stage::Starting);
        let entry = Watch::launch(self, stages)?;
        Ok(Child { stage, entry })
    }
}

impl Child {
    /// Waits for the end of the program. May be given up and asked again.
    pub async fn wait(&self) -> Arc<Outcome> {
        self.ended().await.expect("it was started")
    }

    /// What came of the program, if it has ended.
    pub fn outcome(&self) -> Option<Arc<Outcome>> {
        match &*self.stage.borrow() {
            Stage::Ended(outcome) => Some(outcome.clone()),
            Stage::Starting | Stage::Running | Stage::Failed(_) => None,
        }
    }

    /// Asks for the end of the program, as dropping does.
    pub fn stop(&self) {
        self.entry.stop();
    }

    async fn ended(&self) -> Result<Arc<Outcome>, StartError> {
        let mut stage = self.stage.clone();
        let last = stage
            .wait_for(|stage| matches!(stage, Stage::Ended(_) | Stage::Failed(_)))
            .await;
        match last.as_deref() {
            Ok(Stage::Ended(outcome)) => Ok(outcome.clone()),
            Ok(Stage::Failed(error)) => Err(error.clone()),
            Ok(Stage::Starting | Stage::Running) | Err(_) => {
                unreachable!("the watching thread tells the end before it leaves")
            }
        }
    }
}
