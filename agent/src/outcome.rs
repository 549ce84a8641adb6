//! Outcome of a run: exit reason, answer and cost.

use std::path::PathBuf;

use ah_conversation::{
    ExitReason, ModelUsage, ProviderError, StoreError, ToolUse, Usage, Verification,
};
use serde_json::Value;

/// Outcome of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Reason why it ended.
    pub reason: ExitReason,
    /// The error, if the reason is [`ExitReason::Error`] or a refusal.
    pub failure: Option<RunFailure>,
    /// Text of the last answer.
    pub answer: String,
    /// Number of model calls.
    pub turns: usize,
    /// Token usage of these calls.
    pub usage: Usage,
    /// Usage per model, in the order of first use.
    pub models: Vec<ModelUsage>,
    /// Total duration of model calls, in milliseconds.
    pub api_ms: u64,
    /// Duration from the prompt to the end, in milliseconds.
    pub duration_ms: u64,
    /// Denied calls.
    pub denials: Vec<ToolUse>,
    /// The call that a hook has left to a later run, which ended this one.
    pub deferred: Option<ToolUse>,
    /// Whether a Stop hook ended it by `continue: false`.
    pub stop_prevented: bool,
    /// What is known about the work, if the run had a check.
    pub verification: Option<Verification>,
    /// Structured answer, if a schema was given.
    pub structured: Option<Value>,
}

impl RunOutcome {
    /// Returns an outcome without model calls.
    pub fn new(reason: ExitReason) -> Self {
        Self {
            reason,
            failure: None,
            answer: String::new(),
            turns: 0,
            usage: Usage::default(),
            models: Vec::new(),
            api_ms: 0,
            duration_ms: 0,
            denials: Vec::new(),
            deferred: None,
            stop_prevented: false,
            verification: None,
            structured: None,
        }
    }
}

/// Failure of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFailure {
    /// The conversation could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request to the model failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The conversation does not fit, and a summary would not help.
    #[error("the conversation needs {needed} tokens, but the context window has {window}")]
    Overflow {
        /// Tokens needed by the next request and its answer.
        needed: u64,
        /// Context window of the model, in tokens.
        window: u64,
    },
    /// The model refused; its words are in the answer.
    #[error("the model refused: {0}")]
    Refusal(String),
    /// The model sent an empty answer, and another one when it was asked again.
    #[error("the model has sent an empty answer twice")]
    Silent,
    /// There is a cost limit, and neither the server nor a price says what the answer cost.
    #[error("the cost of the answer is not known, so the cost limit cannot be enforced")]
    Unpriced,
    /// A required file does not exist.
    #[error("the run ended without producing `{}`", .0.display())]
    NotProduced(PathBuf),
    /// Nobody can decide about tool calls any more.
    #[error("{0}")]
    Unanswered(String),
}

impl RunFailure {
    /// Returns advice for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint.clone(),
            Self::Provider(error) => error.hint.clone(),
            Self::Overflow { .. } => Some(
                "start a new session with `--new`, or use a model with a larger window".to_owned(),
            ),
            Self::Refusal(_) => Some(
                "rephrase the prompt, or fork the conversation before this point with `@N`"
                    .to_owned(),
            ),
            Self::Silent => Some(
                "small models do this when a task is too hard for them: ask for less, or use another model"
                    .to_owned(),
            ),
            Self::Unpriced => Some(
                "give the model's price in `models.json`, or `ah models --refresh` if its server has a price list"
                    .to_owned(),
            ),
            Self::NotProduced(_) => None,
            Self::Unanswered(_) => Some(
                "a program that decides about tool calls has to keep its side open until the last result"
                    .to_owned(),
            ),
        }
    }
}
