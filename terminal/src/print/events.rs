//! A run as JSON lines, one event per line.

use ah_agent::Frontend;
use ah_conversation::{Event, EventKind, Host, json, neutralise};

use super::Screen;

/// Shows a run as JSON lines.
pub struct Events {
    screen: Screen,
}

impl Events {
    /// Returns a frontend that writes to `screen`.
    pub fn new(screen: Screen) -> Self {
        Self { screen }
    }
}

impl Host for Events {}

impl Frontend for Events {
    fn show(&self, event: &Event) {
        let mut line = json::line(event).into_bytes();
        line.push(b'\n');
        self.screen.answer(&line);
        if matches!(event.kind, EventKind::AgentEnd { .. }) {
            self.screen.flush();
        }
    }

    fn notice(&self, text: &str) {
        self.screen.note(&format!("{}\n", neutralise(text)));
    }
}
