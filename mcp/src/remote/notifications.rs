//! Notifications of a server: changes of its list of tools, and the progress of calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Progress, ProgressSink};
use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::remote::name::clean_line;

/// Minimum time between two progress reports of one call.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Notifications of one server, passed from its connection to subscribers.
#[derive(Clone, Default)]
pub(crate) struct Notifications {
    /// Signalled when the server's list of tools has changed.
    pub(crate) tools_changed: Arc<Notify>,
    listeners: Arc<Mutex<HashMap<ProgressToken, ProgressListener>>>,
}

struct ProgressListener {
    sink: ProgressSink,
    /// Reports before this time are dropped.
    next: Instant,
}

impl Notifications {
    /// Forwards the progress of the request with this token to `sink` until the subscription is dropped.
    pub(crate) fn subscribe(
        &self,
        token: ProgressToken,
        sink: ProgressSink,
    ) -> ProgressSubscription {
        let next = Instant::now();
        self.listeners
            .lock()
            .insert(token.clone(), ProgressListener { sink, next });
        ProgressSubscription {
            notifications: self.clone(),
            token,
        }
    }

    /// Forwards a progress report to its subscriber; reports in too quick succession are dropped.
    pub(crate) fn progress(&self, params: &ProgressNotificationParam) {
        let now = Instant::now();
        let sink = {
            let mut listeners = self.listeners.lock();
            let listener = listeners.get_mut(&params.progress_token);
            let Some(listener) = listener.filter(|listener| listener.next <= now) else {
                return;
            };
            listener.next = now + PROGRESS_INTERVAL;
            listener.sink.clone()
        };
        let message = params.message.as_deref();
        sink.report(Progress {
            done: params.progress,
            total: params.total,
            message: message.map(|message| clean_line(message, 500)),
        });
    }
}

/// A subscription to the progress of one request; ends when dropped.
pub(crate) struct ProgressSubscription {
    notifications: Notifications,
    token: ProgressToken,
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        self.notifications.listeners.lock().remove(&self.token);
    }
}
