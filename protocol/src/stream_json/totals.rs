//! Usage of a session: what it had used before this process, and every prompt since. Pure.

use ah_agent::RunOutcome;
use ah_conversation::{Cost, Message, ModelUsage, Time};
use serde_json::{Value, json};

/// Sums over all prompts of the session.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) shares: Vec<ModelUsage>,
    /// Duration of the model calls of this process, in milliseconds.
    api_ms: u64,
    /// Time of the beginning.
    since: Time,
}

impl Totals {
    /// Returns the sums of a conversation that is resumed, or empty ones.
    pub(crate) fn of<'a>(messages: impl Iterator<Item = &'a Message> + Clone, now: Time) -> Self {
        let responses = messages.clone().filter_map(|it| it.response.as_ref());
        let mut shares = ModelUsage::of(responses);
        let results = messages.flat_map(Message::tool_results);
        for usage in results.flat_map(ModelUsage::recorded_in) {
            ModelUsage::add(&mut shares, usage);
        }
        Self {
            shares,
            api_ms: 0,
            since: now,
        }
    }

    /// Adds the usage of a run.
    pub(crate) fn add(&mut self, outcome: &RunOutcome) {
        self.api_ms += outcome.api_ms;
        for share in &outcome.models {
            ModelUsage::add(&mut self.shares, share.clone());
        }
    }

    /// Returns the cost; `None` if a price is unknown.
    pub(crate) fn cost(&self) -> Option<Cost> {
        self.shares.iter().map(|share| share.cost).sum()
    }

    /// Returns the durations, as an object.
    pub(crate) fn durations(&self, now: Time) -> Value {
        json!({
            "total_api_duration_ms": self.api_ms,
            "total_duration_ms": now.since(self.since),
        })
    }

    /// Returns the sums as lines of text, in the form of the original program.
    pub(crate) fn text(&self, now: Time) -> String {
        let mut lines = vec![
            format!("Estimated cost:        {}", dollars(self.cost())),
            format!("Total duration (API):  {}", duration(self.api_ms)),
            format!("Total duration (wall): {}", duration(now.since(self.since))),
        ];
        if self.shares.is_empty() {
            let none = "Usage:                 0 input, 0 output, 0 cache read, 0 cache write";
            lines.push(none.to_owned());
        } else {
            lines.push("Usage by model:".to_owned());
        }
        for ModelUsage {
            model, usage, cost, ..
        } in &self.shares
        {
            lines.push(format!(
                "{:>21}  {} input, {} output, {} cache read, {} cache write ({})",
                format!("{model}:"),
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_input_tokens,
                usage.cache_creation_input_tokens,
                dollars(*cost),
            ));
        }
        lines.join("\n")
    }
}

/// Returns an amount: cents above half a dollar, else four decimal places.
fn dollars(cost: Option<Cost>) -> String {
    match cost.map(Cost::usd) {
        None => "unknown".to_owned(),
        Some(usd) if usd > 0.5 => format!("${usd:.2}"),
        Some(usd) => format!("${usd:.4}"),
    }
}

fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m {seconds}s"),
        _ => format!("{hours}h {minutes}m {seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Usage;

    use super::*;

    #[test]
    fn the_sums_are_told_by_model() {
        let mut totals = Totals::of([].into_iter(), Time(1_000));
        insta::assert_snapshot!(totals.text(Time(3_500)), @"
        Estimated cost:        $0.0000
        Total duration (API):  0s
        Total duration (wall): 2s
        Usage:                 0 input, 0 output, 0 cache read, 0 cache write
        ");
        totals.shares.push(ModelUsage {
            provider: "anthropic".into(),
            model: "claude-x".into(),
            usage: Usage {
                input_tokens: 100,
                output_tokens: 20,
                ..Usage::default()
            },
            cost: Some(Cost::from_usd(0.0006)),
        });
        insta::assert_snapshot!(totals.text(Time(3_700_000)), @"
        Estimated cost:        $0.0006
        Total duration (API):  0s
        Total duration (wall): 1h 1m 39s
        Usage by model:
                    claude-x:  100 input, 20 output, 0 cache read, 0 cache write ($0.0006)
        ");
    }
}
