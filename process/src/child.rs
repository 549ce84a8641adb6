//! A child as its owner holds it.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;

use tokio::sync::watch;

use crate::living::Entry;
use crate::watch::{Ends, Stage, Watch};
use crate::{Command, Ending, Outcome, StartError};

/// A running child. To drop it is to end the child and all that it started: TERM, and KILL a second later.
#[derive(Debug)]
pub struct Child {
    stage: watch::Receiver<Stage>,
    entry: Entry,
}

/// The owner's ends of a child's standard streams. What the child writes is not kept by us, and has to be read.
#[derive(Debug)]
pub struct Pipes {
    /// What the child reads.
    pub stdin: PipeWriter,
    /// What it answers.
    pub stdout: PipeReader,
    /// What it says besides.
    pub stderr: PipeReader,
}

impl Command {
    /// Starts the program.
    pub async fn start(self) -> Result<Child, StartError> {
        let child = self.launch(None)?;
        child.started().await
    }

    /// Starts the program for a conversation: `stdin` and `keep` count for nothing, the pipes are the caller's.
    pub async fn converse(self) -> Result<(Child, Pipes), StartError> {
        let (ends, pipes) = pipes().map_err(|error| StartError {
            program: self.program.clone(),
            cwd: self.cwd.clone(),
            reason: error.to_string(),
        })?;
        let child = self.launch(Some(ends))?;
        Ok((child.started().await?, pipes))
    }

    /// Runs the program to its end. It is ended when the future is dropped.
    pub async fn run(self) -> Result<Outcome, StartError> {
        let child = self.launch(None)?;
        child.ended().await.map(Arc::unwrap_or_clone)
    }

    fn launch(self, ends: Option<Ends>) -> Result<Child, StartError> {
        let (stages, stage) = watch::channel(Stage::Starting);
        let entry = Watch::launch(self, ends, stages)?;
        Ok(Child { stage, entry })
    }
}

fn pipes() -> io::Result<(Ends, Pipes)> {
    let (child_stdin, stdin) = io::pipe()?;
    let (stdout, child_stdout) = io::pipe()?;
    let (stderr, child_stderr) = io::pipe()?;
    let ends = Ends {
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

    /// How the program ends, for who only wants to hear of it: to wait here keeps nothing running.
    pub fn end(&self) -> impl Future<Output = Ending> + Send + 'static {
        let stage = self.stage.clone();
        async move { ended(stage).await.expect("it was started").ending }
    }

    /// Asks for the end of the program, as dropping does.
    pub fn stop(&self) {
        self.entry.stop();
    }

    async fn started(mut self) -> Result<Self, StartError> {
        let started = self
            .stage
            .wait_for(|stage| !matches!(stage, Stage::Starting))
            .await;
        match started.as_deref() {
            Ok(Stage::Failed(error)) => Err(error.clone()),
            _ => {
                drop(started);
                Ok(self)
            }
        }
    }

    async fn ended(&self) -> Result<Arc<Outcome>, StartError> {
        ended(self.stage.clone()).await
    }
}

async fn ended(mut stage: watch::Receiver<Stage>) -> Result<Arc<Outcome>, StartError> {
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
