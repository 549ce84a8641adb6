//! A run as JSON lines, one event per line.

use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_conversation::{Event, EventKind, json, neutralise};

use super::{Screen, shown};

/// Shows a run as JSON lines.
pub struct Events {
    screen: Screen,
}

impl Events {
    /// Returns a watcher that writes to `screen`.
    pub fn new(screen: Screen) -> Self {
        Self { screen }
    }
}

impl Watcher for Events {
    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Notice(text) = update {
            self.screen.note(&format!("{}\n", neutralise(text)));
        }
        let Some(kind) = update.event() else {
            return;
        };
        let event = Event {
            kind: kind.into_owned(),
            timestamp: jiff::Timestamp::now().as_second(),
        };
        let line = json::line(&event) + "\n";
        self.screen.answer(shown(&line).as_bytes());
        if matches!(event.kind, EventKind::AgentEnd { .. }) {
            self.screen.flush();
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}
