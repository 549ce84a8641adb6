//! What a server tells unasked: that its tools are other ones, and how far the calls are that it is busy with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{Progress, ProgressSink};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::name::clean_line;

/// How often a call is heard of at most, however much its server says.
const EVERY: Duration = Duration::from_millis(100);

/// What a server tells, from the side of the connection to whoever waits.
#[derive(Clone, Default)]
pub(crate) struct News {
    /// Told when the server's tools are other ones.
    pub(crate) has_changed: Arc<Notify>,
    listeners: Arc<Mutex<HashMap<ProgressToken, Listener>>>,
}

struct Listener {
    sink: ProgressSink,
    next: Instant,
}

impl News {
    /// Passes the progress of a request on to `sink`, until the result is dropped.
    pub(crate) fn listen(&self, token: ProgressToken, sink: ProgressSink) -> Listening {
        let next = Instant::now();
        self.lock().insert(token.clone(), Listener { sink, next });
        Listening {
            news: self.clone(),
            token,
        }
    }

    /// Tells whoever listens; what comes too quickly is left out.
    pub(crate) fn progress(&self, params: &ProgressNotificationParam) {
        let now = Instant::now();
        let sink = {
            let mut listeners = self.lock();
            let listener = listeners.get_mut(&params.progress_token);
            let Some(listener) = listener.filter(|listener| listener.next <= now) else {
                return;
            };
            listener.next = now + EVERY;
            listener.sink.clone()
        };
        let message = params.message.as_deref();
        sink.tell(Progress {
            done: params.progress,
            total: params.total,
            message: message.map(|message| clean_line(message, 500)),
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, Listener>> {
        // Each change is whole, so a panic leaves nothing half done.
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who listens. Dropped, they do no more.
pub(crate) struct Listening {
    news: News,
    token: ProgressToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.news.lock().remove(&self.token);
    }
}
