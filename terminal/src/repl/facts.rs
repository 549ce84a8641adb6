//! Facts of a session for the user's status line, and totals of its usage.

use std::path::PathBuf;

use ah_conversation::{ContentBlock, EventKind, Message, Usage};
use ah_render::diff;

/// Facts of a session besides its model and mode.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Its id, as in the input of hooks.
    pub session_id: String,
    /// File that mirrors its transcript.
    pub transcript_path: Option<PathBuf>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Root of the project.
    pub project: PathBuf,
    /// Working directories besides the first.
    pub added: Vec<PathBuf>,
    /// Totals of its usage.
    pub totals: Totals,
}

/// Totals of a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Tokens of all requests.
    pub usage: Usage,
    /// Tokens of the last request.
    pub last: Usage,
    /// Cost in US dollars.
    pub cost: f64,
    /// Time spent waiting for the model, in milliseconds.
    pub api_ms: u64,
    /// Lines added and removed by tools.
    pub lines: (usize, usize),
}

impl Totals {
    /// Adds the usage and the changed lines of these messages.
    pub fn count<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) {
        for message in messages {
            if let Some(response) = &message.response {
                let cost = response.cost.map_or(0.0, |cost| cost.usd());
                self.add(response.usage, cost, response.latency_ms);
            }
            for block in &message.content {
                let ContentBlock::ToolResult(result) = block else {
                    continue;
                };
                let details = result.details.as_ref();
                let patch =
                    details.and_then(|details| diff::hunks(&details.get("structuredPatch")?));
                let (added, removed) = diff::counts(&patch.unwrap_or_default());
                self.lines = (self.lines.0 + added, self.lines.1 + removed);
            }
        }
    }

    fn add(&mut self, usage: Usage, cost: f64, api_ms: u64) {
        self.usage += usage;
        self.last = usage;
        self.cost += cost;
        self.api_ms += api_ms;
    }

    /// Adds the usage of an event.
    pub fn take(&mut self, kind: &EventKind) {
        if let EventKind::ApiCallEnd {
            input_tokens,
            output_tokens,
            cache_creation_input_tokens,
            cache_read_input_tokens,
            api_latency_ms,
            cost_usd,
            ..
        } = kind
        {
            let usage = Usage {
                input_tokens: *input_tokens,
                output_tokens: *output_tokens,
                cache_creation_input_tokens: *cache_creation_input_tokens,
                cache_read_input_tokens: *cache_read_input_tokens,
                ..Usage::default()
            };
            self.add(usage, cost_usd.unwrap_or_default(), *api_latency_ms);
        }
    }
}
