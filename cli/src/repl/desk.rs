//! The side that works: has the session, runs what the terminal asks for, one after the other, and takes meanwhile what
//! concerns the run that is on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use ah_agent::skills::Skills;
use ah_agent::{Change, Controls, Outcome, Session, Stop};
use ah_conversation::{ContentBlock, ExitReason, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::app::{self, Ending, Input, Queued, Task};
use super::frontend::Link;
use crate::args::options::Options;
use crate::args::session::SessionPlan;
use crate::assemble::{Shown, Stage};
use crate::commands::run::{Opened, open, tell_notices};
use crate::config::Config;
use crate::confinement::Attempt;
use crate::error::CliError;
use crate::extensions;
use crate::print::Outlet;

/// What sessions are made from.
pub struct Workshop {
    /// What was typed on the command line.
    pub options: Options,
    /// What holds.
    pub config: Config,
    /// Where commands run.
    pub attempt: Attempt,
    /// All skills.
    pub skills: Arc<Skills>,
    /// The way to the terminal.
    pub link: Link,
}

impl Workshop {
    /// Opens the session that `plan` chooses.
    ///
    /// # Errors
    ///
    /// Where it cannot be opened, or the model cannot be asked.
    pub async fn open(&self, plan: &SessionPlan, fork_at: Option<u32>) -> Result<Opened, CliError> {
        let shown = Shown {
            skills: &self.skills,
            active: None,
            standing: self.attempt.standing(),
            outlet: Outlet::default(),
            host: None,
            stage: Stage::Conversation(&self.link),
            hooks: Vec::new(),
        };
        let opened = open(plan, &self.options, &self.config, fork_at, shown).await?;
        tell_notices(&opened.store).await;
        Ok(opened)
    }
}

/// The side that works.
pub struct Desk {
    workshop: Workshop,
    session: Session,
    store: Arc<ah_store::Session>,
    tasks: UnboundedReceiver<Task>,
    /// What was asked for while something else was on.
    later: VecDeque<Task>,
    stop: CancellationToken,
}

impl Desk {
    /// Takes up work. Cancelling `stop` ends it.
    pub fn new(
        workshop: Workshop,
        opened: Opened,
        tasks: UnboundedReceiver<Task>,
        stop: CancellationToken,
    ) -> Self {
        let Opened { session, store } = opened;
        Self {
            workshop,
            session,
            store,
            tasks,
            later: VecDeque::new(),
            stop,
        }
    }

    /// Does what the terminal asks for, until it wants no more.
    ///
    /// # Errors
    ///
    /// Where the conversation cannot be kept.
    pub async fn work(mut self) -> Result<(), CliError> {
        self.introduce();
        while let Some(task) = self.next().await {
            match task {
                Task::Prompt(text) => self.prompt(&text).await?,
                Task::Quit => break,
                aside => self.aside().take(aside).await?,
            }
        }
        let Self {
            workshop,
            session,
            store,
            ..
        } = self;
        let is_empty = session.transcript().last().is_none();
        session.close("other").await?;
        tell_notices(&store).await;
        if is_empty {
            discard(store, &workshop.config);
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<Task> {
        if let Some(task) = self.later.pop_front() {
            return Some(task);
        }
        tokio::select! {
            () = self.stop.cancelled() => None,
            task = self.tasks.recv() => task,
        }
    }

    fn tell(&self, input: Input) {
        // Where the terminal has gone, there is nobody to tell.
        let _ = self.workshop.link.inputs.send(input);
    }

    /// Tells the terminal which session is open.
    fn introduce(&self) {
        let settings = self.session.settings();
        self.tell(Input::Opened(Box::new(app::Opened {
            session: self.store.id().to_string(),
            model: self.session.model().clone(),
            mode: settings.permissions.mode,
            may_bypass: settings.permissions.may_bypass,
            context: self.session.transcript().context_tokens(),
            messages: self.session.transcript().messages().len(),
        })));
    }

    async fn prompt(&mut self, text: &str) -> Result<(), CliError> {
        let workshop = &self.workshop;
        let expanded = extensions::expand(
            text,
            None,
            &workshop.skills,
            &workshop.config,
            &workshop.attempt,
        )
        .await;
        let ending = match expanded {
            Ok(expanded) => {
                expanded
                    .warnings
                    .iter()
                    .for_each(|warning| crate::warn(warning));
                let text = expanded.text;
                self.run(async |session, stop| {
                    session.run(vec![ContentBlock::Text { text }], stop).await
                })
                .await?
            }
            Err(error) => Ending::Failed(error.message, error.hint),
        };
        self.introduce();
        self.tell(Input::Ended(ending));
        Ok(())
    }

    /// Has the session do something that can be stopped, and takes up meanwhile what concerns it.
    async fn run(
        &mut self,
        work: impl AsyncFnOnce(&mut Session, &Stop) -> Result<Outcome, StoreError>,
    ) -> Result<Ending, CliError> {
        self.session.take_changes();
        let token = self.stop.child_token();
        let stop = Stop::interrupt(token.clone());
        let aside = Aside {
            run: Some(token),
            ..self.aside()
        };
        let outcome = {
            let run = work(&mut self.session, &stop);
            tokio::pin!(run);
            loop {
                tokio::select! {
                    outcome = &mut run => break outcome,
                    Some(task) = self.tasks.recv() => match task {
                        task @ (Task::Prompt(_) | Task::Quit) => {
                            self.later.push_back(task);
                        }
                        task => aside.take(task).await?,
                    },
                }
            }
        };
        tell_notices(&self.store).await;
        let outcome = outcome?;
        Ok(match (&outcome.failure, &outcome.reason) {
            (Some(failure), _) => Ending::Failed(failure.to_string(), failure.hint()),
            (None, ExitReason::Interrupted) => Ending::Interrupted,
            (None, _) => Ending::Well,
        })
    }

    fn aside(&self) -> Aside {
        Aside {
            store: self.store.clone(),
            controls: self.session.controls(),
            inputs: self.workshop.link.inputs.clone(),
            run: None,
        }
    }
}

/// A session to which nobody has said anything leaves nothing behind.
fn discard(store: Arc<ah_store::Session>, config: &Config) {
    let paths = ah_store::Paths::of(store.path());
    drop(store);
    // Where it cannot be removed it is in nobody's way, and `ah gc` does it.
    let _ = config.sessions().remove(&paths);
}

/// What is done beside a run.
struct Aside {
    store: Arc<ah_store::Session>,
    controls: Controls,
    inputs: Sender<Input>,
    /// Stops the run that is on.
    run: Option<CancellationToken>,
}

impl Aside {
    async fn take(&self, task: Task) -> Result<(), CliError> {
        match task {
            Task::Interrupt => {
                if let Some(run) = &self.run {
                    run.cancel();
                }
            }
            Task::Send(kind, text) => {
                let id = self.store.send(kind, text.clone()).await?;
                self.tell(Input::Sent(Queued { id, kind, text }));
            }
            Task::Withdraw(queued, then) => {
                let mut taken = Vec::new();
                for queued in queued {
                    if self.store.withdraw(queued.id.clone()).await? {
                        taken.push(queued);
                    }
                }
                self.tell(Input::Withdrawn(taken, then));
            }
            Task::Mode(mode) => self.controls.request(Change::Mode(mode)),
            Task::Prompt(_) | Task::Quit => {}
        }
        Ok(())
    }

    fn tell(&self, input: Input) {
        let _ = self.inputs.send(input);
    }
}
