//! Background tasks of a session: tracks their status, tells the model when one has ended, and keeps the run going
//! until its subagents are done. A finished command is reported with the next model call but does not keep the run
//! going, as commands may run as long as the session.

use std::collections::BTreeMap;

use ah_conversation::{
    CallState, ModelUsage, Task, TaskEnding, TaskKind, TaskUpdate, ToolResult, Transcript,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Marks reports of background tasks, for the model and for readers of the database.
const MARK: &str = "[TASK]";
/// What the model is told of a subagent that ended with its process.
const CUT_OFF: &str = "has ended: stopped.\n\nIt was cut off with the process in which it worked; calls that it was making may have \
    run. `resume` with its id continues its conversation.";
/// Status of a subagent in the background, in the details of the result of its call.
pub(crate) const LAUNCHED: &str = "async_launched";
/// Begins the result of a call that adds a teammate.
pub(crate) const TEAMMATE: &str = "The teammate ";
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
    /// Returns those of a conversation that goes on in this process: what another has left is over.
    pub(crate) fn after(transcript: &Transcript) -> Self {
        let cut_off = unreported(transcript).into_iter();
        let reports: Vec<_> = cut_off
            .map(|(id, description)| format!("{MARK} The subagent {id} ({description}) {CUT_OFF}"))
            .collect();
        Self {
            has_subagent_report: !reports.is_empty(),
            reports,
            ..Self::default()
        }
    }

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

    /// Returns the ids of the running subagents.
    pub(crate) fn subagents(&mut self) -> Vec<String> {
        self.catch_up();
        let agents = self.running.values().filter(|task| is_agent(task));
        agents.map(|task| task.id.clone()).collect()
    }

    /// Whether a subagent is running.
    pub(crate) fn has_subagents(&self) -> bool {
        self.running.values().any(is_agent)
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

/// Returns the ids of subagents in the background whose end is not told, with what they were to do. Teammates go on with their team.
fn unreported(transcript: &Transcript) -> Vec<(String, String)> {
    let mut begun = Vec::new();
    for message in transcript.messages() {
        let text = message.text();
        if text.starts_with(MARK) {
            begun.retain(|(id, _): &(String, String)| !text.contains(id));
        }
        message
            .tool_results()
            .for_each(|result| note_agent(result, &mut begun));
    }
    for call in transcript.open_calls() {
        if let Some(CallState::Finished(result)) = transcript.call(&call.id) {
            note_agent(result, &mut begun);
        }
    }
    begun
}

/// Notes a subagent in the background that has begun by this result, or another that is gone on with.
fn note_agent(result: &ToolResult, begun: &mut Vec<(String, String)>) {
    let detail = |key| match result.details.as_ref()?.get(key)? {
        Value::String(text) => Some(text),
        _ => None,
    };
    let Some(id) = detail("agentId") else {
        return;
    };
    begun.retain(|(other, _)| *other != id);
    if detail("status").as_deref() == Some(LAUNCHED) && !result.text().starts_with(TEAMMATE) {
        begun.push((id, detail("description").unwrap_or_default()));
    }
}

fn is_agent(task: &Task) -> bool {
    matches!(task.kind, TaskKind::Agent { .. })
}
