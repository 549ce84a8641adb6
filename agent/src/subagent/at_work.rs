//! Which subagents are at work, and what became of those that were: to be asked for, and to be ended.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{Output, Task, TaskEnding, TaskKind, Tasks};
use async_trait::async_trait;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::MAX_AT_WORK;

/// How much of what a subagent has said so far is told.
const SHOWN: usize = 8_000;

/// The subagents of a session, and of those below.
pub(super) struct AtWork {
    places: Arc<Semaphore>,
    known: Mutex<HashMap<String, Known>>,
}

/// A subagent that is at work, or was.
#[derive(Clone)]
struct Known {
    task: Task,
    stop: CancellationToken,
    /// What came of it, once it has ended.
    ended: watch::Receiver<Option<Report>>,
    log: PathBuf,
    /// Ends it with the session.
    handle: Option<AbortHandle>,
}

/// What came of a subagent.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) ending: TaskEnding,
    pub(super) text: String,
}

/// A place among those at work.
pub(super) struct Place {
    pub(super) stop: CancellationToken,
    ended: watch::Sender<Option<Report>>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Says what came of the subagent, and leaves the place.
    pub(super) fn leave(self, ending: TaskEnding, text: String) {
        self.ended.send_replace(Some(Report { ending, text }));
    }
}

impl Default for AtWork {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_AT_WORK)),
            known: Mutex::default(),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.abort();
    }
}

impl AtWork {
    /// Whether the subagent `id` works now.
    pub(super) fn is_busy(&self, id: &str) -> bool {
        let known = self.lock();
        // One that was dropped has ended too.
        known.get(id).is_some_and(|known| {
            known.ended.borrow().is_none() && known.ended.has_changed().is_ok()
        })
    }

    /// Takes a place for a subagent; `None`: there is none.
    pub(super) fn enter(&self, task: &Task, log: PathBuf) -> Option<Place> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        let (sender, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let known = Known {
            task: task.clone(),
            stop: stop.clone(),
            ended,
            log,
            handle: None,
        };
        self.lock().insert(task.id.clone(), known);
        Some(Place {
            stop,
            ended: sender,
            _permit: permit,
        })
    }

    /// Ends all that work beside the conversation.
    pub(super) fn abort(&self) {
        let known = self.lock();
        for handle in known.values().filter_map(|known| known.handle.as_ref()) {
            handle.abort();
        }
    }

    /// Has the subagent `id` end with this.
    pub(super) fn hold(&self, id: &str, handle: AbortHandle) {
        if let Some(known) = self.lock().get_mut(id) {
            known.handle = Some(handle);
        }
    }

    fn find(&self, id: &str) -> Option<Known> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Tasks for AtWork {
    fn has(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// What is new of a subagent: at once, or when it has ended or `patience` is over.
    async fn output(&self, id: &str, patience: Duration) -> Output {
        let Some(known) = self.find(id) else {
            return unknown(id);
        };
        let mut ended = known.ended.clone();
        let report = tokio::time::timeout(patience, ended.wait_for(Option::is_some)).await;
        let report = match report {
            Ok(Ok(report)) => report.clone(),
            Ok(Err(_)) => Some(Report {
                ending: TaskEnding::Stopped,
                text: "it was stopped with the call that started it".to_owned(),
            }),
            Err(_) => None,
        };
        known.output(report)
    }

    /// Ends a subagent, and tells what came of it.
    async fn stop(&self, id: &str) -> Output {
        let Some(known) = self.find(id) else {
            return unknown(id);
        };
        let was_over = known.ended.borrow().is_some();
        known.stop.cancel();
        // It stores what it has, and answers.
        let mut ended = known.ended.clone();
        let _ = ended.wait_for(Option::is_some).await;
        let description = &known.task.description;
        let message = match was_over {
            true => format!("task {id} had ended already: {description}"),
            false => format!("stopped task {id}: {description}"),
        };
        Output::text(message.as_str()).with_details(json!({
            "message": message,
            "task_id": id,
            "task_type": TASK_TYPE,
            "command": description,
        }))
    }
}

/// What hosts of the official SDKs know a subagent as.
const TASK_TYPE: &str = "local_agent";

impl Known {
    fn output(&self, report: Option<Report>) -> Output {
        let (status, retrieval, text) = match &report {
            None => {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let start = said.ceil_char_boundary(said.len().saturating_sub(SHOWN));
                let said = said[start..].trim_end().to_owned();
                ("running", "not_ready", format!("{said}\n[still running]"))
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
        "there is no task {id}; if there was one, it ended with the earlier process of this session"
    ))
}
