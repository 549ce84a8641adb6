//! Tasks that are done at once, also during a run: messages to it, stopping it, a change of mode or model, full
//! outputs, pictures and notifications.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::{Controls, Leaving, SessionChange, SideQuestions};
use ah_conversation::{Clock as _, Content, Cost, Models, Servers, Tasks};
use ah_ids::SystemClock;
use ah_store::Tree;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::effect::Task;
use super::frontend::Link;
use super::input::{Input, Queued};
use super::notify::NotificationKind;
use super::output::Wanted;
use super::picker::{Picker, Subject};
use super::side_question::{Asking, SideQuestion};
use super::viewer::{Section, transcript};
use super::{attach, bang, choices, models, output, proposals, slash};
use crate::message::Keys;
use ah_config::{Config, Error, untrusted};

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
    /// Connection to the terminal.
    pub link: Link,
    /// Asks side questions.
    pub questions: SideQuestions,
    /// Those that are not answered yet.
    pub asking: Asking,
    /// Cost of the session at which no more are asked.
    pub most: Option<Cost>,
    /// Available models.
    pub models: Arc<dyn Models>,
    /// MCP servers.
    pub servers: Option<Arc<dyn Servers>>,
    /// Tasks beside the conversation.
    pub tasks: Vec<Arc<dyn Tasks>>,
    /// Stops the current run.
    pub run: Option<CancellationToken>,
    /// Leaves the current run to another process.
    pub leaving: Leaving,
}

impl SideTasks {
    /// Does a task; others than the immediate ones are ignored.
    ///
    /// # Errors
    ///
    /// If the session's queue cannot be read or written.
    pub async fn perform(&mut self, task: Task) -> Result<(), Error> {
        match task {
            Task::Interrupt => {
                if let Some(run) = &self.run {
                    run.cancel();
                }
            }
            Task::Leave(false) => self.leaving.soon(),
            Task::Leave(true) => self.leaving.at_once(),
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
            Task::Complete(before, wish) => {
                if let Some(servers) = self.servers.clone() {
                    let inputs = self.link.inputs.clone();
                    tokio::spawn(async move {
                        let items = proposals::proposed(&*servers, &before, wish).await;
                        let _ = inputs.send(Input::Completions(before, items));
                    });
                }
            }
            Task::Attach(source) => {
                let (config, inputs) = (self.config.clone(), self.link.inputs.clone());
                tokio::spawn(async move {
                    let attached = attach::load(source, config).await;
                    let _ = inputs.send(Input::Attached(attached));
                });
            }
            Task::Output(wanted) => match self.output(wanted).await {
                Ok(text) => self.tell(Input::Output(text)),
                Err(error) => crate::warn(&error.message),
            },
            Task::View => match self.transcript().await {
                Ok(sections) => self.tell(Input::View(sections)),
                Err(error) => crate::warn(&error.message),
            },
            Task::List(Subject::Output) => match self.outputs().await {
                Ok(picker) => self.tell(Input::Pick(picker)),
                Err(error) => self.unlisted(&error),
            },
            Task::List(Subject::Model) => self.list_models().await,
            Task::List(Subject::All) => self.list_sessions(),
            Task::Beside(question) => self.ask(question),
            Task::Look(id, head) => self.look(&id, &head).await,
            Task::End(id) => self.end(id),
            Task::Notify(kind, message) => notify(&self.config, self.store.uuid(), kind, &message),
            Task::Mode(mode) => self.controls.request(SessionChange::Mode(mode)),
            Task::Model(name) => match self.models.connect(Some(&name)) {
                Ok(provider) => {
                    let model = provider.model().clone();
                    let catalog = self.config.catalog()?;
                    let name = catalog.resolve(&name).to_owned();
                    // A file is for one run.
                    if !untrusted::is_file(&name) {
                        self.store.set_model(name).await?;
                    }
                    self.questions.change_model(provider.clone());
                    self.controls.request(SessionChange::Model(provider));
                    self.tell(Input::Model(model));
                }
                Err(error) => slash::tell_failure(&error.to_string(), error.hint.as_deref()),
            },
            _ => {}
        }
        Ok(())
    }

    /// Returns the full output of tool calls.
    async fn output(&self, wanted: Wanted) -> Result<String, Error> {
        let keys = Keys::of(&self.config.environment)?;
        let text = self
            .store
            .read(move |tree| output::text(tree, &keys, &wanted));
        Ok(text.await?)
    }

    /// Returns the transcript for the viewer.
    async fn transcript(&self) -> Result<Vec<Section>, Error> {
        let keys = Keys::of(&self.config.environment)?;
        let sections = self
            .store
            .read(move |tree| transcript::sections(tree, &keys));
        Ok(sections.await?)
    }

    /// Returns the tool calls with an output, to choose from.
    async fn outputs(&self) -> Result<Picker, Error> {
        let keys = Keys::of(&self.config.environment)?;
        let choices = self.store.read(move |tree| output::choices(tree, &keys));
        Ok(choices.await?)
    }

    /// Asks a side question beside what runs.
    fn ask(&self, question: String) {
        let question = self.side_question(question);
        let mut asking = self.asking.lock();
        while asking.try_join_next().is_some() {}
        asking.spawn(async move {
            if let Err(error) = question.ask().await {
                crate::warn(&error);
            }
        });
    }

    /// Returns a side question.
    pub fn side_question(&self, text: String) -> SideQuestion {
        SideQuestion {
            text,
            questions: self.questions.clone(),
            store: self.store.clone(),
            link: self.link.clone(),
            most: self.most,
        }
    }

    /// Prints what a task beside the conversation has written.
    async fn look(&self, id: &str, head: &str) {
        let Some(tasks) = self.tasks.iter().find(|tasks| tasks.has(id)) else {
            return crate::note("this task no longer exists");
        };
        let (text, left_out) = match tasks.tail(id, output::MOST) {
            Some(tail) => {
                let left_out = tail.total.saturating_sub(output::MOST);
                (tail.text, left_out)
            }
            None => {
                // Of a subagent: what it has done, or its answer.
                let output = tasks.output(id, Duration::ZERO).await;
                let text = match output.content {
                    Content::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    Content::Spool(_) | Content::Blocks(_) => String::new(),
                };
                (text, 0)
            }
        };
        self.tell(Input::Written(output::of_task(head, &text, left_out)));
    }

    /// Stops a task beside the conversation, whose end is reported.
    fn end(&self, id: String) {
        if let Some(tasks) = self.tasks.iter().find(|tasks| tasks.has(&id)).cloned() {
            tokio::spawn(async move { tasks.stop(&id).await });
        }
    }

    /// Lists the models of the catalogue, and those of the servers when they answer.
    async fn list_models(&self) {
        let named = self.store.read(Tree::model).await.ok().flatten();
        let present = named.unwrap_or_else(|| self.config.model.value.clone());
        let picker = match models::entries(&self.config, &[], &present) {
            Ok(entries) => Picker::new(Subject::Model, entries),
            Err(error) => return self.unlisted(&error),
        };
        self.tell(Input::Pick(picker));
        let (config, inputs) = (self.config.clone(), self.link.inputs.clone());
        tokio::spawn(async move {
            let servers = ah_engine::model::servers(&config).unwrap_or_default();
            let date = jiff::Zoned::now().strftime("%Y-%m-%d").to_string();
            let mut listed = Vec::new();
            for server in servers {
                // The models of a server that does not answer are those of the catalogue.
                if let Ok(listing) = ah_engine::model::look(&config, &server, &date).await {
                    listed.push((server, listing.models.keys().cloned().collect()));
                }
            }
            if let Ok(entries) = models::entries(&config, &listed, &present) {
                let _ = inputs.send(Input::More(Subject::Model, entries, true));
            }
        });
    }

    fn unlisted(&self, error: &Error) {
        crate::warn(&error.message);
        self.tell(Input::Unlisted);
    }

    fn list_sessions(&self) {
        match choices::sessions(&self.config, Subject::Session, SystemClock::default().now()) {
            Ok(sessions) => self.tell(Input::More(Subject::All, sessions.into_entries(), false)),
            Err(error) => crate::warn(&error.message),
        }
    }

    fn tell(&self, input: Input) {
        let _ = self.link.inputs.send(input);
    }
}

/// Runs the user's notification command in the background, if there is one.
pub fn notify(config: &Config, session: &str, kind: NotificationKind, message: &str) {
    let notify = config.conversation.notify.as_ref();
    let Some(command) = notify.and_then(|notify| notify.value.command.clone()) else {
        return;
    };
    let input = json!({
        "hook_event_name": "Notification",
        "session_id": session,
        "cwd": config.environment.cwd(),
        "title": "ah",
        "message": message,
        "notification_type": kind.as_str(),
    });
    let config = config.clone();
    tokio::spawn(async move {
        let ran = bang::tell(&command, input.to_string(), &config.environment, DEADLINE).await;
        if let Err(error) = ran {
            crate::warn(&format!("the `notify` command failed: {error}"));
        }
    });
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
    side_tasks: &mut SideTasks,
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
