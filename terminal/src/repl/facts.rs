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
    /// Cost, as far as prices are known. All that is shown of money is this sum, which is exact.
    pub cost: Cost,
    /// Time spent waiting for the model, in milliseconds.
    pub api_ms: u64,
    /// Lines added and removed by tools.
    pub lines: (usize, usize),
}

impl Totals {
    /// Counts what a request has cost.
    pub fn count(&mut self, response: &Response) {
        self.usage += response.usage;
        self.cost = self.cost + response.cost.unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use ah_conversation::StopReason;
    use proptest::prelude::*;

    use super::super::report;
    use super::*;

    /// A request to one of three models, whose price may be unknown.
    fn response(model: u8, dollars: Option<f64>) -> Response {
        Response {
            stop_reason: StopReason::EndTurn,
            usage: Usage::default(),
            cost: dollars.map(Cost::from_usd),
            model: format!("m{model}"),
            provider: "p".to_owned(),
            latency_ms: 1,
            request_id: None,
            opaque: None,
        }
    }

    proptest! {
        /// Whether requests were counted as they came or when the session was opened, in whatever order, and whether their models
        /// have prices for all of them: what the status line, `/cost` and programs are told is one sum.
        #[test]
        fn every_sum_of_money_is_the_same(
            requests in proptest::collection::vec((0..3_u8, proptest::option::of(0.0..10.0_f64)), 1..20),
        ) {
            let count = |totals: &mut Totals, (model, dollars): &(u8, Option<f64>)| {
                totals.count(&response(*model, *dollars));
            };
            let (mut live, mut opened) = (Totals::default(), Totals::default());
            requests.iter().for_each(|request| count(&mut live, request));
            requests.iter().rev().for_each(|request| count(&mut opened, request));
            let costs = requests.iter().filter_map(|(_, dollars)| dollars.map(Cost::from_usd));
            let known: Cost = costs.sum();
            prop_assert_eq!(live.cost, known);
            prop_assert_eq!(opened.cost, known);
            let lines = report::cost(&live);
            let last = lines.last().cloned().unwrap_or_default();
            if requests.iter().any(|(_, dollars)| dollars.is_some()) {
                prop_assert!(last.contains(&known.to_string()), "{} {}", last, known);
            }
        }
    }
}
