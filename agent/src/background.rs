//! Background tasks of a session: tracks their status, tells the model when one has ended, and keeps the run going
//! until its subagents are done. A finished command is reported with the next model call but does not keep the run
//! going, as commands may run as long as the session.

use std::collections::BTreeMap;

use ah_conversation::{ModelUsage, Task, TaskEnding, TaskKind, TaskUpdate};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Marks reports of background tasks, for the model and for readers of the database.
const MARK: &str = "[TASK]";
/// Maximum length of a task description in hook payloads, in characters.
const MAX_DESCRIPTION: usize = 1_000;

/// Background tasks known to a session.
pub(crate) struct Background {
    sender: mpsc::UnboundedSender<(Task, TaskUpdate)>,
    receiver: mpsc::UnboundedReceiver<(Task, TaskUpdate)>,
    /// Running tasks, by id.
    running: BTreeMap<String, Task>,
    /// Reports for the model.
    reports: Vec<String>,
    /// Whether one of the reports is from a subagent, so that the run continues.
    has_subagent_report: bool,
    /// Whether one of the reports is from a task that nobody stopped.
    has_news: bool,
    /// Usage of tasks that have ended since the end of the last run.
    spent: Vec<ModelUsage>,
}

impl Default for Background {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            sender,
            receiver,
            running: BTreeMap::new(),
            reports: Vec::new(),
            has_subagent_report: false,
            has_news: false,
            spent: Vec::new(),
        }
    }
}

impl Background {
    /// Returns those of a session below: what it starts is reported to this one.
    pub(crate) fn shared(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            ..Self::default()
        }
    }

    /// Handles the updates that arrived since the last call.
    pub(crate) fn catch_up(&mut self) {
        while let Ok((task, update)) = self.receiver.try_recv() {
            self.note(&task, update);
        }
    }

    fn note(&mut self, task: &Task, update: TaskUpdate) {
        match update {
            TaskUpdate::Started => {
                self.running.insert(task.id.clone(), task.clone());
            }
            TaskUpdate::Progress { .. } => {}
            TaskUpdate::Ended {
                ending,
                summary,
                spent,
                ..
            } => {
                self.running.remove(&task.id);
                self.has_news |= ending != TaskEnding::Stopped;
                let what = match &task.kind {
                    TaskKind::Agent { name, .. } => {
                        self.has_subagent_report = true;
                        format!("subagent `{name}`")
                    }
                    TaskKind::Command => "command in the background".to_owned(),
                };
                self.reports.push(format!(
                    "{MARK} The {what} {} ({}) has ended: {}.\n\n{summary}",
                    task.id,
                    task.description,
                    ending.as_str()
                ));
                for usage in spent {
                    ModelUsage::add(&mut self.spent, usage);
                }
            }
        }
    }

    /// Returns the running tasks as the payload of Stop hooks shows them.
    pub(crate) fn running(&mut self) -> Value {
        self.catch_up();
        let tasks = self.running.values().map(|task| {
            let description: String = task.description.chars().take(MAX_DESCRIPTION).collect();
            let mut payload =
                json!({"id": task.id, "status": "running", "description": description});
            match &task.kind {
                TaskKind::Agent { name, .. } => {
                    payload["type"] = json!("subagent");
                    payload["agent_type"] = json!(name);
                }
                TaskKind::Command => payload["type"] = json!("shell"),
            }
            payload
        });
        tasks.collect()
    }

    /// Returns the ids of the running tasks.
    pub(crate) fn ids(&mut self) -> Vec<String> {
        self.catch_up();
        self.running.keys().cloned().collect()
    }

    /// Whether a task has ended by itself whose report was not taken yet.
    pub(crate) fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether a subagent is running.
    pub(crate) fn has_subagents(&self) -> bool {
        let mut tasks = self.running.values();
        tasks.any(|task| matches!(task.kind, TaskKind::Agent { .. }))
    }

    /// Returns the sender for updates of background tasks.
    pub(crate) fn sender(&self) -> mpsc::UnboundedSender<(Task, TaskUpdate)> {
        self.sender.clone()
    }

    /// Waits for the next update.
    pub(crate) async fn wait(&mut self) {
        if let Some((task, update)) = self.receiver.recv().await {
            self.note(&task, update);
        }
    }

    /// Whether a subagent has ended whose report was not taken yet.
    pub(crate) fn has_subagent_report(&self) -> bool {
        self.has_subagent_report
    }

    /// Returns and removes the reports for the model.
    pub(crate) fn take_reports(&mut self) -> Vec<String> {
        self.catch_up();
        self.has_subagent_report = false;
        self.has_news = false;
        std::mem::take(&mut self.reports)
    }

    /// Adds what was used and belongs to no message.
    pub(crate) fn add_spent(&mut self, spent: Vec<ModelUsage>) {
        for usage in spent {
            ModelUsage::add(&mut self.spent, usage);
        }
    }

    /// Returns and resets the usage of tasks that have ended, and what was added.
    pub(crate) fn take_spent(&mut self) -> Vec<ModelUsage> {
        self.catch_up();
        std::mem::take(&mut self.spent)
    }
}
