//! Registry of running and finished subagents, to query and stop them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ah_conversation::{Output, Task, TaskEnding, TaskKind, TaskTail, Tasks};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent subagents.
pub const MAX_RUNNING: usize = 10;
/// Maximum number of bytes shown of a running subagent's log.
const MAX_LOG: usize = 8_000;

/// The subagents of a session, including nested ones.
pub(super) struct SubagentRegistry {
    slots: Arc<Semaphore>,
    entries: Mutex<HashMap<String, SubagentEntry>>,
}

/// A running or finished subagent.
#[derive(Clone)]
struct SubagentEntry {
    task: Task,
    stop: CancellationToken,
    /// Its result, once it has ended.
    ended: watch::Receiver<Option<SubagentReport>>,
    log: PathBuf,
    /// Aborts it at the end of the session.
    handle: Option<AbortHandle>,
    /// Commands in the background of tools that only it has. They end with it, so they are not kept here.
    own: Vec<Weak<dyn Tasks>>,
}

/// Result of a subagent.
#[derive(Debug, Clone)]
pub(super) struct SubagentReport {
    pub(super) ending: TaskEnding,
    pub(super) text: String,
}

/// A slot of the concurrency limit, until it is dropped.
pub(super) struct Slot {
    pub(super) stop: CancellationToken,
    ended: watch::Sender<Option<SubagentReport>>,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Records the result, which frees whoever waits for it.
    pub(super) fn report(&self, ending: TaskEnding, text: String) {
        self.ended
            .send_replace(Some(SubagentReport { ending, text }));
    }

    /// Records that it works again.
    pub(super) fn works(&self) {
        self.ended.send_replace(None);
    }
}

impl Default for SubagentRegistry {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_RUNNING)),
            entries: Mutex::default(),
        }
    }
}

impl Drop for SubagentRegistry {
    fn drop(&mut self) {
        self.abort();
    }
}

impl SubagentRegistry {
    /// Whether the subagent `id` is running.
    pub(super) fn is_running(&self, id: &str) -> bool {
        let entries = self.entries.lock();
        // A dropped subagent has ended too.
        entries.get(id).is_some_and(|entry| {
            entry.ended.borrow().is_none() && entry.ended.has_changed().is_ok()
        })
    }

    /// Takes a slot for a subagent; `None` if all are in use.
    pub(super) fn enter(&self, task: &Task, log: PathBuf) -> Option<Slot> {
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        let (sender, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let entry = SubagentEntry {
            task: task.clone(),
            stop: stop.clone(),
            ended,
            log,
            handle: None,
            own: Vec::new(),
        };
        self.entries.lock().insert(task.id.clone(), entry);
        Some(Slot {
            stop,
            ended: sender,
            _permit: permit,
        })
    }

    /// Aborts all background subagents.
    pub(super) fn abort(&self) {
        let entries = self.entries.lock();
        for handle in entries.values().filter_map(|entry| entry.handle.as_ref()) {
            handle.abort();
        }
    }

    /// Sets the handle that aborts the subagent `id` at the end of the session.
    pub(super) fn set_handle(&self, id: &str, handle: AbortHandle) {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.handle = Some(handle);
        }
    }

    /// Sets the background tasks of the tools that only the subagent `id` has.
    pub(super) fn set_own(&self, id: &str, tasks: impl Iterator<Item = Arc<dyn Tasks>>) {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.own = tasks.map(|tasks| Arc::downgrade(&tasks)).collect();
        }
    }

    /// Returns the port of a subagent's own tools that knows the task `id`.
    fn own(&self, id: &str) -> Option<Arc<dyn Tasks>> {
        let entries = self.entries.lock();
        let mut own = entries.values().flat_map(|entry| &entry.own);
        own.find_map(|tasks| tasks.upgrade().filter(|tasks| tasks.has(id)))
    }

    fn find(&self, id: &str) -> Option<SubagentEntry> {
        self.entries.lock().get(id).cloned()
    }
}

#[async_trait]
impl Tasks for SubagentRegistry {
    fn has(&self, id: &str) -> bool {
        self.find(id).is_some() || self.own(id).is_some()
    }

    /// Returns the output of a subagent: immediately if finished, otherwise once it has ended or `patience` is over.
    async fn output(&self, id: &str, patience: Duration) -> Output {
        if let Some(own) = self.own(id) {
            return own.output(id, patience).await;
        }
        let Some(entry) = self.find(id) else {
            return unknown(id);
        };
        let mut ended = entry.ended.clone();
        let report = tokio::time::timeout(patience, ended.wait_for(Option::is_some)).await;
        let report = match report {
            Ok(Ok(report)) => report.clone(),
            Ok(Err(_)) => Some(SubagentReport {
                ending: TaskEnding::Stopped,
                text: "it was stopped with the call that started it".to_owned(),
            }),
            Err(_) => None,
        };
        entry.output(report)
    }

    fn tail(&self, id: &str, bytes: u64) -> Option<TaskTail> {
        self.own(id)?.tail(id, bytes)
    }

    /// Stops a subagent and returns a confirmation.
    async fn stop(&self, id: &str) -> Output {
        if let Some(own) = self.own(id) {
            return own.stop(id).await;
        }
        let Some(entry) = self.find(id) else {
            return unknown(id);
        };
        let had_ended = entry.ended.borrow().is_some();
        entry.stop.cancel();
        // It stores its state and reports its end.
        let mut ended = entry.ended.clone();
        let _ = ended.wait_for(Option::is_some).await;
        let description = &entry.task.description;
        let message = if had_ended {
            format!("task {id} had already ended: {description}")
        } else {
            format!("stopped task {id}: {description}")
        };
        Output::text(message.as_str()).with_details(json!({
            "message": message,
            "task_id": id,
            "task_type": TASK_TYPE,
            "command": description,
        }))
    }
}

/// Task type of subagents in the Agent SDKs.
const TASK_TYPE: &str = "local_agent";

impl SubagentEntry {
    fn output(&self, report: Option<SubagentReport>) -> Output {
        let (status, retrieval, text) = match &report {
            None => {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let start = log.ceil_char_boundary(log.len().saturating_sub(MAX_LOG));
                let tail = log[start..].trim_end();
                ("running", "not_ready", format!("{tail}\n[still running]"))
            }
            Some(report) => {
                let text = format!("{}\n[{}]", report.text, report.ending.as_str());
                (report.ending.as_str(), "success", text)
            }
        };
        let prompt = match &self.task.kind {
            TaskKind::Agent { prompt, .. } => prompt.as_str(),
            TaskKind::Command => "",
        };
        Output::text(text.trim_start()).with_details(json!({
            "retrieval_status": retrieval,
            "task": {
                "task_id": self.task.id,
                "task_type": TASK_TYPE,
                "status": status,
                "description": self.task.description,
                "prompt": prompt,
                "output": report.map(|report| report.text),
            },
        }))
    }
}

fn unknown(id: &str) -> Output {
    Output::error(format!(
        "no task {id}; tasks of an earlier process of this session have ended with it"
    ))
}
