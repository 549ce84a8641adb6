//! Limits of a run, and the reasons why one ends.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::estimate::BYTES_PER_TOKEN;
use crate::{Cost, Time};

/// Limits of a run. All counts start at the run's prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of model calls (`--max-turns`).
    pub max_turns: Option<u32>,
    /// Maximum of input and output tokens, summed over the calls (`--max-tokens`).
    pub max_tokens: Option<u64>,
    /// Maximum of input and output tokens of the last call (`--max-context-tokens`).
    pub max_context_tokens: Option<u64>,
    /// Maximum cost (`--max-budget-usd`).
    pub max_budget: Option<Cost>,
    /// What other agents have spent of the same budget.
    pub spent_beside: Spent,
    /// Time at which the run must end (`--timeout`).
    pub deadline: Option<Time>,
    /// Context window of the model, in tokens.
    pub context_window: u64,
    /// When the conversation is summarised, if that is before its window is crowded.
    pub compact_at: Option<CompactAt>,
    /// Most tokens of an answer, which the context window has to have room for (see [`reserve`](Self::reserve)).
    pub reserved_output: u64,
    /// Whether the same calls may be asked for again and again: by a program, which waits for something, and not by a
    /// model that is stuck.
    pub allows_repetition: bool,
    /// Whether an answer that repeats a piece of its text ten times is ended, as small models go on to the output limit then.
    pub ends_chants: bool,
}

/// A part of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Input and output tokens.
    pub tokens: u64,
    /// Their cost, as far as it is known.
    pub cost: Cost,
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost + other.cost,
        }
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: Cost(self.cost.0.saturating_sub(other.cost.0)),
        }
    }
}

/// Input and output of the last call from which on a conversation is summarised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactAt {
    /// So many tokens (`--compact-at`).
    Tokens(u64),
    /// This percentage of the context window, also of one that is learned later.
    Percent(u64),
}

impl Limits {
    /// Percentage of a context window that triggers a summary.
    pub const CROWDED: u64 = 80;

    /// Returns the tokens of the window that a conversation leaves free for the next answer: the reserved ones, at most an
    /// eighth of the window, since a reserve must not make a conversation impossible. With what is free past
    /// [`CROWDED`](Self::CROWDED) there is room for an answer of a quarter.
    pub fn reserve(&self) -> u64 {
        self.reserved_output.min(self.context_window / 8)
    }

    /// Returns the most bytes of a result that the model is shown, where `count` calls are answered together: an eighth of the
    /// window, and a third for all of them.
    pub fn result_bytes(&self, count: usize) -> usize {
        let tokens =
            { self.context_window / 8 }.min(self.context_window * 3 / 8 / count.max(1) as u64);
        usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
    }

    /// Returns the tokens that [`compact_at`](Self::compact_at) stands for.
    pub fn compact_tokens(&self) -> Option<u64> {
        self.compact_at.map(|at| match at {
            CompactAt::Tokens(tokens) => tokens,
            CompactAt::Percent(share) => self.context_window * share / 100,
        })
    }

    /// Returns the context window that a conversation is kept in: that of the model, or one of which
    /// [`compact_at`](Self::compact_at) is the part that triggers a summary.
    pub fn used_window(&self) -> u64 {
        let asked = self
            .compact_tokens()
            .map(|at| at.saturating_mul(100) / Self::CROWDED);
        asked.map_or(self.context_window, |asked| asked.min(self.context_window))
    }
}

/// Reason why a run ended: `agent_end.stop_reason`, and the source of the exit code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The model ended its turn.
    EndTurn,
    /// The model wrote a stop sequence.
    StopSequence,
    /// `--max-turns`.
    MaxTurns,
    /// `--max-budget-usd`.
    #[serde(rename = "error_max_budget_usd")]
    MaxBudget,
    /// `--max-tokens` or `--max-context-tokens`.
    BudgetExceeded,
    /// The output limit cut the answer repeatedly.
    MaxTokens,
    /// `--timeout`.
    Timeout,
    /// The model made the same calls five times, or wrote the same piece of text ten times.
    LoopDetected,
    /// The check of the run (`--until`) did not pass.
    CheckFailed,
    /// The answer repeatedly failed to match its schema.
    #[serde(rename = "error_max_structured_output_retries")]
    MaxStructuredOutputRetries,
    /// A person stopped the run.
    Interrupted,
    /// The embedding program stopped the run.
    Aborted,
    /// The model refused; its words are in the last message.
    Refusal,
    /// The run failed.
    Error,
    /// A stop reason that this version does not know.
    Other(String),
}

impl ExitReason {
    /// Returns the word used in events and in JSON output.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::StopSequence => "stop_sequence",
            Self::MaxTurns => "max_turns",
            Self::MaxBudget => "error_max_budget_usd",
            Self::BudgetExceeded => "budget_exceeded",
            Self::MaxTokens => "max_tokens",
            Self::Timeout => "timeout",
            Self::LoopDetected => "loop_detected",
            Self::CheckFailed => "check_failed",
            Self::MaxStructuredOutputRetries => "error_max_structured_output_retries",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
            Self::Refusal => "refusal",
            Self::Error => "error",
            Self::Other(word) => word,
        }
    }

    /// Whether the run ended by itself, so that unfinished work may keep it going.
    pub fn is_end_of_turn(&self) -> bool {
        matches!(self, Self::EndTurn | Self::StopSequence)
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_window_follows_the_window() {
        for (compact_at, window, expected) in [
            (None, 200_000, (None, 200_000)),
            (
                Some(CompactAt::Tokens(8_000)),
                200_000,
                (Some(8_000), 10_000),
            ),
            (Some(CompactAt::Tokens(8_000)), 4_000, (Some(8_000), 4_000)),
            (
                Some(CompactAt::Percent(60)),
                200_000,
                (Some(120_000), 150_000),
            ),
            (Some(CompactAt::Percent(60)), 8_000, (Some(4_800), 6_000)),
        ] {
            let limits = Limits {
                compact_at,
                context_window: window,
                ..Limits::default()
            };
            let found = (limits.compact_tokens(), limits.used_window());
            assert_eq!(found, expected, "{compact_at:?} of {window}");
        }
    }
}
