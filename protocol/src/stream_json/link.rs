//! Our requests to the host: each is a line with an id, and the line with the same id is its answer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::sink::Sink;
use ah_transcript::Ids;

/// Connection to the host.
pub(crate) struct Link {
    pub(crate) sink: Sink,
    pub(crate) ids: Arc<dyn Ids>,
    open: Mutex<OpenRequests>,
}

type Waiting = oneshot::Sender<Result<Value, Unanswered>>;

/// Why the host has not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// It has closed its side, and answers nothing more.
    #[error("the host has closed its side")]
    Over,
    /// The host is this program, which takes no control requests.
    #[error("the host is not a separate process")]
    NoProcess,
    /// The error text that it answered.
    #[error("{0}")]
    Fault(String),
}

#[derive(Default)]
struct OpenRequests {
    waiting: HashMap<String, Waiting>,
    /// Whether the host has closed its side.
    is_over: bool,
}

impl Link {
    pub(crate) fn new(sink: Sink, ids: Arc<dyn Ids>) -> Self {
        Self {
            sink,
            ids,
            open: Mutex::default(),
        }
    }

    /// Sends a request to the host and returns its answer. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// The host's error text, or that it has closed its side.
    pub(crate) async fn ask(&self, request: Value) -> Result<Value, Unanswered> {
        let id = self.ids.fresh();
        let (sender, receiver) = oneshot::channel();
        {
            let mut open = self.open.lock();
            if open.is_over {
                return Err(Unanswered::Over);
            }
            open.waiting.insert(id.clone(), sender);
        }
        let question = OpenRequest { link: self, id };
        let is_sent = self.sink.send_control(json!({
            "type": "control_request",
            "request_id": question.id,
            "request": request,
        }));
        if !is_sent {
            return Err(Unanswered::NoProcess);
        }
        let answer = receiver.await;
        answer.unwrap_or(Err(Unanswered::Over))
    }

    /// Hands an answer to the request with this id; without such a request it is ignored.
    pub(crate) fn answer(&self, id: &str, answer: Result<Value, String>) {
        let waiting = self.open.lock().waiting.remove(id);
        if let Some(waiting) = waiting {
            // The request may be withdrawn at this moment.
            let _ = waiting.send(answer.map_err(Unanswered::Fault));
        }
    }

    /// Fails all open requests and any further one.
    pub(crate) fn close(&self) {
        let mut open = self.open.lock();
        open.is_over = true;
        open.waiting.clear();
    }
}

/// Request that is withdrawn when it is dropped without an answer.
struct OpenRequest<'a> {
    link: &'a Link,
    id: String,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let was_open = self.link.open.lock().waiting.remove(&self.id).is_some();
        if was_open {
            let line = json!({"type": "control_cancel_request", "request_id": self.id});
            self.link.sink.send_control(line);
        }
    }
}
