//! Tasks that are done at once, also during a run: messages to it, stopping it, a change of mode or model, full
//! outputs, pictures and notifications.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ah_agent::{Controls, SessionChange};
use ah_conversation::{Clock as _, Models};
use ah_store::SystemClock;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::effect::Task;
use super::input::{Input, Queued};
use super::notify::NotificationKind;
use super::picker::{Picker, Subject};
use super::{attach, bang, choices, models, output};
use crate::message::Keys;
use ah_config::Config;
use ah_config::Error;

/// Timeout of the notification command.
const DEADLINE: Duration = Duration::from_secs(10);

/// Access to the session for tasks during a run.
pub struct SideTasks {
    /// Store of the session.
    pub store: Arc<ah_store::SessionStore>,
    /// Controls of the session.
    pub controls: Controls,
    /// The configuration.
    pub config: Config,
    /// Inputs of the terminal.
    pub inputs: Sender<Input>,
    /// Available models.
    pub models: Arc<dyn Models>,
    /// Stops the current run.
    pub run: Option<CancellationToken>,
}

impl SideTasks {
    /// Does a task; others than the immediate ones are ignored.
    ///
    /// # Errors
    ///
    /// If the session's queue cannot be read or written.
    pub async fn perform(&self, task: Task) -> Result<(), Error> {
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
            Task::Attach(source) => {
                let (config, inputs) = (self.config.clone(), self.inputs.clone());
                tokio::spawn(async move {
                    let attached = attach::load(source, config).await;
                    let _ = inputs.send(Input::Attached(attached));
                });
            }
            Task::Output => match self.output().await {
                Ok(text) => self.tell(Input::Output(text)),
                Err(error) => crate::warn(&error.message),
            },
            Task::List(Subject::Model) => self.list_models(),
            Task::List(Subject::All) => self.list_sessions(),
            Task::Notify(kind, message) => self.notify(kind, &message),
            Task::Mode(mode) => self.controls.request(SessionChange::Mode(mode)),
            Task::Model(name) => match self.models.connect(Some(&name)) {
                Ok(provider) => {
                    let model = provider.model().clone();
                    let catalog = self.config.catalog()?;
                    self.store
                        .set_model(catalog.resolve(&name).to_owned())
                        .await?;
                    self.controls.request(SessionChange::Model(provider));
                    self.tell(Input::Model(model));
                }
                Err(error) => crate::warn(&error.to_string()),
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns the full output of the last tool calls.
    async fn output(&self) -> Result<String, Error> {
        let keys = Keys::of(&self.config)?;
        let last = self.store.read(move |tree| output::last(tree, &keys));
        Ok(last.await?)
    }

    /// Lists the models of the catalogue, and those of the servers when they answer.
    fn list_models(&self) {
        let picker = match models::entries(&self.config, &[]) {
            Ok(entries) => Picker::new(Subject::Model, entries),
            Err(error) => return crate::warn(&error.message),
        };
        self.tell(Input::Pick(picker));
        let (config, inputs) = (self.config.clone(), self.inputs.clone());
        tokio::spawn(async move {
            let servers = ah::model::servers(&config).unwrap_or_default();
            let date = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
            let mut listed = Vec::new();
            for server in servers {
                // The models of a server that does not answer are those of the catalogue.
                if let Ok(listing) = ah::model::look(&config, &server, &date).await {
                    listed.push((server, listing.models.keys().cloned().collect()));
                }
            }
            if let Ok(entries) = models::entries(&config, &listed) {
                let _ = inputs.send(Input::More(Subject::Model, entries, true));
            }
        });
    }

    fn list_sessions(&self) {
        match choices::sessions(&self.config, SystemClock::default().now()) {
            Ok(sessions) => self.tell(Input::More(Subject::All, sessions.into_entries(), false)),
            Err(error) => crate::warn(&error.message),
        }
    }

    /// Runs the user's notification command in the background.
    fn notify(&self, kind: NotificationKind, message: &str) {
        let notify = self.config.conversation.notify.as_ref();
        let command = notify.and_then(|notify| notify.value.command.clone());
        let Some(command) = command else {
            return;
        };
        let input = json!({
            "hook_event_name": "Notification",
            "session_id": self.store.uuid(),
            "cwd": self.config.environment.cwd(),
            "title": "ah",
            "message": message,
            "notification_type": kind.as_str(),
        });
        let config = self.config.clone();
        tokio::spawn(async move {
            let ran = bang::tell(&command, input.to_string(), &config, DEADLINE).await;
            if let Err(error) = ran {
                crate::warn(&format!("the command of `notify` failed: {error}"));
            }
        });
    }

    fn tell(&self, input: Input) {
        let _ = self.inputs.send(input);
    }
}

/// Waits for `work` and does immediate tasks meanwhile; other tasks are put into `later`.
///
/// # Errors
///
/// If an immediate task fails.
pub async fn run_beside<T>(
    work: impl Future<Output = T>,
    tasks: &mut UnboundedReceiver<Task>,
    later: &mut VecDeque<Task>,
    side_tasks: &SideTasks,
) -> Result<T, Error> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            Some(task) = tasks.recv() => match task {
                task if task.is_immediate() => side_tasks.perform(task).await?,
                task => later.push_back(task),
            },
        }
    }
}
