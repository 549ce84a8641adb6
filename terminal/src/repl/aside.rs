//! What is done beside a run, and waits for nothing: words for it, an end to it, another mode or model, the whole of an
//! output, and what comes from outside (a picture, a command that tells the user something).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use ah_agent::{Controls, SessionChange};
use ah_conversation::Models;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::app::{Input, Queued, Task};
use super::{attach, bang, notify, output};
use crate::message::Keys;
use ah_config::Config;
use ah_config::Error;

/// So long a command may take that tells the user something.
const DEADLINE: Duration = Duration::from_secs(10);

/// What is done beside a run.
pub struct Aside {
    /// The session's files.
    pub store: Arc<ah_store::SessionStore>,
    /// What is changed of how it goes on.
    pub controls: Controls,
    /// What holds.
    pub config: Config,
    /// The way to the terminal.
    pub inputs: Sender<Input>,
    /// The models that can be asked.
    pub models: Arc<dyn Models>,
    /// Stops the run that is on.
    pub run: Option<CancellationToken>,
}

impl Aside {
    /// Does it.
    ///
    /// # Errors
    ///
    /// Where the session's queue cannot be read or written.
    pub async fn take(&self, task: Task) -> Result<(), Error> {
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
                Ok(text) => self.tell(Input::Written(text)),
                Err(error) => crate::warn(&error.message),
            },
            Task::Notify(news, message) => self.notify(news, &message),
            Task::Mode(mode) => self.controls.request(SessionChange::Mode(mode)),
            Task::Model(name) => match self.models.connect(Some(&name)) {
                Ok(provider) => {
                    let model = provider.model().clone();
                    self.controls.request(SessionChange::Model(provider));
                    self.tell(Input::Model(model));
                }
                Err(error) => crate::warn(&error.to_string()),
            },
            _ => {}
        }
        Ok(())
    }

    /// What the last tool calls have given. Where it cannot be read, the conversation goes on all the same.
    async fn output(&self) -> Result<String, Error> {
        let keys = Keys::of(&self.config)?;
        let last = self.store.read(move |tree| output::last(tree, &keys));
        Ok(last.await?)
    }

    /// Has the user's command tell them something. Nobody waits for it.
    fn notify(&self, news: notify::News, message: &str) {
        let command =
            { self.config.conversation.notify.as_ref() }.and_then(|set| set.value.command.clone());
        let Some(command) = command else {
            return;
        };
        let told = json!({
            "hook_event_name": "Notification",
            "session_id": self.store.uuid(),
            "cwd": self.config.environment.cwd(),
            "title": "ah",
            "message": message,
            "notification_type": news.as_str(),
        });
        let config = self.config.clone();
        tokio::spawn(async move {
            let ran = bang::tell(&command, told.to_string(), &config, DEADLINE).await;
            if let Err(fault) = ran {
                crate::warn(&format!("the command of `notify`: {fault}"));
            }
        });
    }

    fn tell(&self, input: Input) {
        let _ = self.inputs.send(input);
    }
}

/// Waits for `work`, and does meanwhile what concerns it; what does not is done later.
///
/// # Errors
///
/// Where that cannot be done.
pub async fn beside<T>(
    work: impl Future<Output = T>,
    tasks: &mut UnboundedReceiver<Task>,
    later: &mut VecDeque<Task>,
    aside: &Aside,
) -> Result<T, Error> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            Some(task) = tasks.recv() => match task {
                task if task.is_aside() => aside.take(task).await?,
                task => later.push_back(task),
            },
        }
    }
}
