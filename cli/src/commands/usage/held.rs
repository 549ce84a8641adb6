//! The conversations that servers hold in `ah usage`: what was not sent.

use ah_conversation::{Event, EventKind};
use serde_json::{Value, json};

/// Sums of requests to servers that hold the conversation.
#[derive(Debug, Default)]
pub struct Held {
    /// Requests with nothing but what was new.
    rests: u64,
    /// Bytes that they left out.
    bytes: u64,
    /// Requests with everything, since the server had forgotten the conversation.
    forgotten: u64,
}

impl Held {
    /// Returns the sums of `events`.
    pub fn of(events: &[Event]) -> Self {
        let mut sums = Self::default();
        // The last attempt counts.
        let mut last = None;
        for event in events {
            match event.kind {
                EventKind::ConversationHeld { held_bytes, .. } => last = Some(held_bytes),
                EventKind::ApiCallEnd { .. } => match last.take() {
                    None => {}
                    Some(0) => sums.forgotten += 1,
                    Some(bytes) => {
                        sums.rests += 1;
                        sums.bytes += bytes;
                    }
                },
                EventKind::Retry { .. }
                | EventKind::Fallback { .. }
                | EventKind::Error { .. }
                | EventKind::AgentEnd { .. } => last = None,
                _ => {}
            }
        }
        sums
    }

    /// Returns a line about them; empty if there were none.
    pub fn line(&self) -> String {
        let Self {
            rests,
            bytes,
            forgotten,
        } = self;
        if rests + forgotten == 0 {
            return String::new();
        }
        let requests = if *rests == 1 { "request" } else { "requests" };
        let times = if *forgotten == 1 { "time" } else { "times" };
        let kilobytes = bytes / 1000;
        format!(
            "{rests} {requests} sent only what was new and saved {kilobytes} kB; {forgotten} {times} the server had \
             forgotten the conversation\n"
        )
    }

    /// Returns them as JSON.
    pub fn to_json(&self) -> Value {
        json!({"requests": self.rests, "bytes_saved": self.bytes, "forgotten": self.forgotten})
    }
}
