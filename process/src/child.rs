//! The caller's handle to a child.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;

use tokio::sync::watch;

use crate::command::{Command, CommandOutcome, Ending, StartError};
use crate::living::StopHandle;
use crate::watch::{ChildEnds, ChildStage, Watch};

/// A running child. Dropping it ends the child and its descendants: SIGTERM, and SIGKILL a second later.
#[derive(Debug)]
pub struct Child {
    stage: watch::Receiver<ChildStage>,
    stop: StopHandle,
}

/// The caller's ends of a child's standard streams. The caller has to read the output, which is not recorded.
#[derive(Debug)]
pub struct Pipes {
    /// Standard input of the child.
    pub stdin: PipeWriter,
    /// Standard output of the child.
    pub stdout: PipeReader,
    /// Standard error of the child.
    pub stderr: PipeReader,
}

impl Command {
    /// Starts the program with its output recorded.
    pub async fn start(self) -> Result<Child, StartError> {
        let child = self.launch(None)?;
        child.started().await
    }

    /// Starts the program with pipes that the caller reads and writes; `stdin` and `keep` are ignored.
    pub async fn converse(self) -> Result<(Child, Pipes), StartError> {
        let (ends, pipes) = pipes().map_err(|error| StartError {
            program: self.program.clone(),
            cwd: self.cwd.clone(),
            reason: error.to_string(),
        })?;
        let child = self.launch(Some(ends))?;
        Ok((child.started().await?, pipes))
    }

    /// Runs the program to its end. Dropping the future stops it.
    pub async fn run(self) -> Result<CommandOutcome, StartError> {
        let child = self.launch(None)?;
        child.ended().await.map(Arc::unwrap_or_clone)
    }

    fn launch(self, ends: Option<ChildEnds>) -> Result<Child, StartError> {
        let (stages, stage) = watch::channel(ChildStage::Starting);
        let stop = Watch::launch(self, ends, stages)?;
        Ok(Child { stage, stop })
    }
}

fn pipes() -> io::Result<(ChildEnds, Pipes)> {
    let (child_stdin, stdin) = io::pipe()?;
    let (stdout, child_stdout) = io::pipe()?;
    let (stderr, child_stderr) = io::pipe()?;
    let ends = ChildEnds {
        stdin: child_stdin,
        stdout: child_stdout,
        stderr: child_stderr,
    };
    let pipes = Pipes {
        stdin,
        stdout,
        stderr,
    };
    Ok((ends, pipes))
}

impl Child {
    /// Waits for the end of the program. Cancel safe: the future may be dropped and called again.
    pub async fn wait(&self) -> Arc<CommandOutcome> {
        self.ended().await.expect("it was started")
    }

    /// Returns the outcome, if the program has ended.
    pub fn outcome(&self) -> Option<Arc<CommandOutcome>> {
        match &*self.stage.borrow() {
            ChildStage::Ended(outcome) => Some(outcome.clone()),
            ChildStage::Starting | ChildStage::Running | ChildStage::Failed(_) => None,
        }
    }

    /// Returns a future of the program's end that does not keep the child running.
    pub fn end(&self) -> impl Future<Output = Ending> + Send + 'static {
        let stage = self.stage.clone();
        async move { ended(stage).await.expect("it was started").ending }
    }

    /// Stops the program, as dropping does.
    pub fn stop(&self) {
        self.stop.stop();
    }

    async fn started(mut self) -> Result<Self, StartError> {
        let started = self
            .stage
            .wait_for(|stage| !matches!(stage, ChildStage::Starting))
            .await;
        match started.as_deref() {
            Ok(ChildStage::Failed(error)) => Err(error.clone()),
            _ => {
                drop(started);
                Ok(self)
            }
        }
    }

    async fn ended(&self) -> Result<Arc<CommandOutcome>, StartError> {
        ended(self.stage.clone()).await
    }
}

async fn ended(mut stage: watch::Receiver<ChildStage>) -> Result<Arc<CommandOutcome>, StartError> {
    let last = stage
        .wait_for(|stage| matches!(stage, ChildStage::Ended(_) | ChildStage::Failed(_)))
        .await;
    match last.as_deref() {
        Ok(ChildStage::Ended(outcome)) => Ok(outcome.clone()),
        Ok(ChildStage::Failed(error)) => Err(error.clone()),
        Ok(ChildStage::Starting | ChildStage::Running) | Err(_) => {
            unreachable!("the watching thread reports the end before it exits")
        }
    }
}
