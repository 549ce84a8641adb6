//! What bounds a run, and why one ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Cost, Time};

/// What bounds a run. All counts are of this run: from its prompt on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Model calls (`--max-turns`).
    pub max_turns: Option<u32>,
    /// Input and output tokens summed over the calls (`--max-tokens`).
    pub max_tokens: Option<u64>,
    /// Input and output tokens of the last call (`--max-context-tokens`).
    pub max_context_tokens: Option<u64>,
    /// Money (`--max-budget-usd`).
    pub max_budget: Option<Cost>,
    /// When the run must end (`--timeout`).
    pub deadline: Option<Time>,
    /// How many tokens the model can hold.
    pub context_window: u64,
    /// How many of them are kept free for the answer.
    pub reserved_output: u64,
}

/// Why a run ended: `agent_end.stop_reason`, and the exit code of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The model has said what it had to say.
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
    /// The output limit cut the answer, again and again.
    MaxTokens,
    /// `--timeout`.
    Timeout,
    /// The model repeated itself five times.
    LoopDetected,
    /// The answer did not fit its schema, again and again.
    #[serde(rename = "error_max_structured_output_retries")]
    MaxStructuredOutputRetries,
    /// A person stopped the run.
    Interrupted,
    /// The embedder's token stopped the run.
    Aborted,
    /// The model declined; its words are in the last message.
    Refusal,
    /// The run could not go on.
    Error,
    /// The model stopped for a reason this version does not know.
    Other(String),
}

impl ExitReason {
    /// The word used in events and in JSON output.
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
            Self::MaxStructuredOutputRetries => "error_max_structured_output_retries",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
            Self::Refusal => "refusal",
            Self::Error => "error",
            Self::Other(word) => word,
        }
    }

    /// Whether the run came to its own end, so that something still owed may keep it going.
    pub fn is_end_of_turn(&self) -> bool {
        matches!(self, Self::EndTurn | Self::StopSequence)
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
