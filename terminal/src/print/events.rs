//! A run as JSON lines, one event per line.

use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_conversation::{EventKind, json, neutralise};

use super::Screen;

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
        match update {
            SessionUpdate::Event(event) => {
                let mut line = json::line(event).into_bytes();
                line.push(b'\n');
                self.screen.answer(&line);
                if matches!(event.kind, EventKind::AgentEnd { .. }) {
                    self.screen.flush();
                }
            }
            SessionUpdate::Notice(text) => self.screen.note(&format!("{}\n", neutralise(text))),
            _ => {}
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}
