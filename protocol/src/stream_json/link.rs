//! Our own requests to the host: each is a line with an id, and the line with the same id is its answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::output::Lines;
use crate::Ids;

/// The way to the host.
pub(crate) struct Link {
    pub(crate) lines: Lines,
    pub(crate) ids: Arc<dyn Ids>,
    asked: Mutex<Asked>,
}

type Waiting = oneshot::Sender<Result<Value, String>>;

#[derive(Default)]
struct Asked {
    waiting: HashMap<String, Waiting>,
    /// Whether the host says nothing any more.
    is_over: bool,
}

/// What is said where the host has closed its side.
const OVER: &str = "the host has closed its side";

impl Link {
    pub(crate) fn new(lines: Lines, ids: Arc<dyn Ids>) -> Self {
        Self {
            lines,
            ids,
            asked: Mutex::default(),
        }
    }

    /// Asks the host. Whoever drops the future withdraws the question.
    ///
    /// # Errors
    /// What the host says why it cannot answer, or that it is gone.
    pub(crate) async fn ask(&self, request: Value) -> Result<Value, String> {
        let id = self.ids.fresh();
        let (sender, receiver) = oneshot::channel();
        {
            let mut asked = self.lock();
            if asked.is_over {
                return Err(OVER.to_owned());
            }
            asked.waiting.insert(id.clone(), sender);
        }
        let question = Open { link: self, id };
        self.lines.send(json!({
            "type": "control_request",
            "request_id": question.id,
            "request": request,
        }));
        let answer = receiver.await;
        answer.unwrap_or_else(|_| Err(OVER.to_owned()))
    }

    /// Hands an answer to whoever waits for it; an answer to nothing is nobody's.
    pub(crate) fn answer(&self, id: &str, answer: Result<Value, String>) {
        let waiting = self.lock().waiting.remove(id);
        if let Some(waiting) = waiting {
            // It may have been withdrawn at this very moment.
            let _ = waiting.send(answer);
        }
    }

    /// The host will answer nothing any more.
    pub(crate) fn close(&self) {
        let mut asked = self.lock();
        asked.is_over = true;
        asked.waiting.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is withdrawn when it is dropped without an answer.
struct Open<'a> {
    link: &'a Link,
    id: String,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let was_open = self.link.lock().waiting.remove(&self.id).is_some();
        if was_open {
            self.link
                .lines
                .send(json!({"type": "control_cancel_request", "request_id": self.id}));
        }
    }
}
