//! Settings of a session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{CheckInForce, Limits, Permissions, Sampling, Thinking};

use crate::AnswerForm;
use crate::prompt::PromptSource;

/// Settings of a session. By default it has no system prompt, asks about all that may change something, and has no limits.
#[derive(Debug, Clone, Default)]
pub struct SessionSettings {
    /// Source of the system prompt. A branch keeps the one that it began with; what differs later is told in messages.
    pub prompt: PromptSource,
    /// What mode `plan` asks for, in the user's words.
    pub plan_instructions: Option<String>,
    /// Trigger with which the Setup hooks are called before the first prompt: `init` or `maintenance`.
    pub setup: Option<&'static str>,
    /// Tools that are called in the place of others, by the name that the model uses.
    pub tool_aliases: Arc<BTreeMap<String, String>>,
    /// Limits of a run; `deadline` is set from `timeout_ms` when the run begins.
    pub limits: Limits,
    /// Time limit of a run.
    pub timeout_ms: Option<u64>,
    /// Permissions.
    pub permissions: Permissions,
    /// Concurrency of the tool calls of one answer.
    pub concurrency: ToolConcurrency,
    /// Maximum number of messages sent to the model (`maxConversationMessages`).
    pub max_messages: Option<usize>,
    /// Maximum number of characters of one tool's output sent to the model, from its beginning, instead of the tool's
    /// own truncation (`maxToolResultChars`).
    pub max_result_chars: Option<usize>,
    /// A file that must exist when the run ends (`--must-produce`).
    pub must_produce: Option<PathBuf>,
    /// What must pass before the run ends (`--until`).
    pub check: CheckInForce,
    /// Schema of the structured answer (`--json-schema`); its tool is among the tools.
    pub answer_form: Option<AnswerForm>,
    /// Thinking budget.
    pub thinking: Thinking,
    /// Sampling parameters.
    pub sampling: Sampling,
}

/// Concurrency of the tool calls of one answer. Results always keep the order of the calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolConcurrency {
    /// Adjacent read-only calls run together; any other call waits for those before it and delays those after it.
    #[default]
    Auto,
    /// One after the other.
    Serial,
    /// All together.
    Parallel,
}
