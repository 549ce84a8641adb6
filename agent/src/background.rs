//! What goes on beside a session: it hears how its tasks fare, tells the model when one has ended, and does not end
//! before the subagents that work for it. Of a command the model is told when it is asked the next time, and no run goes
//! on for that alone: a command may run for as long as the session.

use std::collections::BTreeMap;

use ah_conversation::{
    ContentBlock, ModelUsage, Origin, StoreError, Task, TaskKind, TaskSink, TaskUpdate,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{Session, SessionUpdate, Stop};

/// How news of a task begin, for the model and for everybody who reads the database.
const MARK: &str = "[TASK]";
/// How many characters of a task's description hooks are told.
const MOST_TOLD: usize = 1_000;

/// What a session knows of the tasks beside it.
pub(crate) struct Background {
    teller: mpsc::UnboundedSender<(Task, TaskUpdate)>,
    told: mpsc::UnboundedReceiver<(Task, TaskUpdate)>,
    /// What is at work, by its id.
    at_work: BTreeMap<String, Task>,
    /// What the model is to be told.
    ended: Vec<String>,
    /// Whether somebody among them has worked for the run, which therefore goes on.
    is_owed: bool,
    /// What models took for tasks that have ended since the last run did.
    spent: Vec<ModelUsage>,
}

impl Default for Background {
    fn default() -> Self {
        let (teller, told) = mpsc::unbounded_channel();
        Self {
            teller,
            told,
            at_work: BTreeMap::new(),
            ended: Vec::new(),
            is_owed: false,
            spent: Vec::new(),
        }
    }
}

impl Background {
    /// Takes in what was told since the last time.
    fn catch_up(&mut self) {
        while let Ok((task, news)) = self.told.try_recv() {
            self.note(&task, news);
        }
    }

    fn note(&mut self, task: &Task, news: TaskUpdate) {
        match news {
            TaskUpdate::Started => {
                self.at_work.insert(task.id.clone(), task.clone());
            }
            TaskUpdate::Progress { .. } => {}
            TaskUpdate::Ended {
                ending,
                summary,
                spent,
                ..
            } => {
                self.at_work.remove(&task.id);
                let what = match &task.kind {
                    TaskKind::Agent { name, .. } => {
                        self.is_owed = true;
                        format!("subagent `{name}`")
                    }
                    TaskKind::Command => "command in the background".to_owned(),
                };
                self.ended.push(format!(
                    "{MARK} The {what} {} ({}) has ended: {}.\n\n{summary}",
                    task.id,
                    task.description,
                    ending.as_str()
                ));
                for share in spent {
                    ModelUsage::add(&mut self.spent, share);
                }
            }
        }
    }

    /// What is at work, as hooks are told that are asked about an end.
    pub(crate) fn told(&mut self) -> Value {
        self.catch_up();
        let tasks = self.at_work.values().map(|task| {
            let description: String = task.description.chars().take(MOST_TOLD).collect();
            let mut told = json!({"id": task.id, "status": "running", "description": description});
            match &task.kind {
                TaskKind::Agent { name, .. } => {
                    told["type"] = json!("subagent");
                    told["agent_type"] = json!(name);
                }
                TaskKind::Command => told["type"] = json!("shell"),
            }
            told
        });
        tasks.collect()
    }

    fn awaits(&self) -> bool {
        let mut tasks = self.at_work.values();
        tasks.any(|task| matches!(task.kind, TaskKind::Agent { .. }))
    }

    /// What models took for tasks that have ended.
    pub(crate) fn take_spent(&mut self) -> Vec<ModelUsage> {
        self.catch_up();
        std::mem::take(&mut self.spent)
    }
}

impl Session {
    /// Where calls tell of what they start. What goes on when its call has ended is heard of here as well.
    pub(crate) fn task_sink(&self) -> TaskSink {
        let frontend = self.ports.frontend.clone();
        let teller = self.background.teller.clone();
        TaskSink::new(move |task, news| {
            frontend.update(SessionUpdate::Task(task, news));
            if task.is_background {
                // A session that has ended wants to know no more.
                let _ = teller.send((task.clone(), news.clone()));
            }
        })
    }

    /// Appends what is to be told of tasks that have ended; says whether there was anything.
    pub(crate) async fn take_news(&mut self) -> Result<bool, StoreError> {
        self.background.catch_up();
        let ended = std::mem::take(&mut self.background.ended);
        self.background.is_owed = false;
        let has_ended = !ended.is_empty();
        for text in ended {
            self.append(Origin::Task, vec![ContentBlock::text(text)])
                .await?;
        }
        Ok(has_ended)
    }

    /// Waits for a subagent in the background where one is at work, and appends what it says; says whether one was.
    pub(crate) async fn awaits_news(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        let clock = self.ports.clock.clone();
        loop {
            self.background.catch_up();
            if self.background.is_owed {
                return self.take_news().await;
            }
            if !self.background.awaits() {
                return Ok(false);
            }
            tokio::select! {
                biased;
                () = stop.wait(&*clock) => return Ok(true),
                Some((task, news)) = self.background.told.recv() => self.background.note(&task, news),
            }
        }
    }
}
