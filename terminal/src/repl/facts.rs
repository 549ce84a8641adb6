//! Facts of a session for the user's status line, and totals of its usage.

use std::path::PathBuf;

use ah_conversation::{ContentBlock, Cost, Message, ModelUsage, Response, Usage};
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

/// Totals of a session: all that was paid for in it, on every branch and by its subagents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Tokens of all requests.
    pub usage: Usage,
    /// Tokens of the conversation's last request.
    pub last: Usage,
    /// Tokens and cost by model, in the order of first use.
    pub models: Vec<ModelUsage>,
    /// Cost in US dollars, as far as prices are known.
    pub cost: f64,
    /// Time spent waiting for the model, in milliseconds.
    pub api_ms: u64,
    /// Lines added and removed by tools.
    pub lines: (usize, usize),
}

impl Totals {
    /// Counts what a request has cost.
    pub fn count(&mut self, response: &Response) {
        self.usage += response.usage;
        self.cost += response.cost.map_or(0.0, Cost::usd);
        self.api_ms += response.latency_ms;
        ModelUsage::count(&mut self.models, response);
    }

    /// Counts a message of the conversation itself: its request, and the lines that tools have changed.
    pub fn count_own(&mut self, message: &Message) {
        if let Some(response) = &message.response {
            self.count(response);
            self.last = response.usage;
        }
        self.count_lines(message);
    }

    /// Counts the lines that tools have changed.
    pub fn count_lines(&mut self, message: &Message) {
        for block in &message.content {
            let ContentBlock::ToolResult(result) = block else {
                continue;
            };
            let details = result.details.as_ref();
            let patch = details.and_then(|details| diff::hunks(&details.get("structuredPatch")?));
            let (added, removed) = diff::counts(&patch.unwrap_or_default());
            self.lines = (self.lines.0 + added, self.lines.1 + removed);
        }
    }
}
