//! Events of a run. Terminal, JSON lines and the event log show the same stream.

use serde::{Deserialize, Serialize};

use crate::{ExitReason, MessageId, PrefixBreak, Verification};

/// An event and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Kind of the event and its data.
    #[serde(flatten)]
    pub kind: EventKind,
    /// Seconds since the Unix epoch.
    pub timestamp: i64,
}

/// Why a model was asked, if not for an answer in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallReason {
    /// For an answer that was left unfinished: whoever resumes the run asks again.
    Abandoned,
    /// To keep the conversation in the prompt cache.
    KeepWarm,
    /// For an answer, which it refused, so that another model gave it.
    Refused,
    /// To answer a question aside.
    SideQuestion,
    /// To write a summary.
    Summary,
    /// To find a title.
    Title,
    /// For a tool.
    Tool,
    /// For what a later version does.
    #[serde(other)]
    Other,
}

impl CallReason {
    /// Returns whether what a model was asked for this is a part of the conversation: an answer in it, which has no reason, or a
    /// summary of it.
    pub fn is_of_conversation(reason: Option<Self>) -> bool {
        matches!(reason, None | Some(Self::Summary))
    }
}

/// Kind of an event. The names and fields are a stable interface for programs that read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields say what they are, and repeat the vocabulary of the other modules"
)]
#[non_exhaustive]
pub enum EventKind {
    /// A run begins.
    AgentStart {
        model: String,
        prompt: String,
        parent_id: Option<MessageId>,
    },
    /// A run has ended. Totals are of the run; input includes tokens read from and written to the cache.
    AgentEnd {
        stop_reason: ExitReason,
        total_input_tokens: u64,
        total_output_tokens: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        total_cache_read_tokens: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Set if the request to the model failed: [`crate::ErrorClass::name`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_class: Option<String>,
    },
    /// A request is sent to the model.
    ApiCallStart { payload_bytes: u64 },
    /// The model has answered.
    ApiCallEnd {
        message_id: MessageId,
        input_tokens: u64,
        output_tokens: u64,
        cache_creation_input_tokens: u64,
        cache_read_input_tokens: u64,
        api_latency_ms: u64,
        model: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Set if it was not asked for an answer in the conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<CallReason>,
    },
    /// Less was read from the prompt cache than the request before had left there. `change` is the place of the first
    /// byte that differs; without it, the server has forgotten the rest.
    CacheMissed {
        message_id: MessageId,
        expected_tokens: u64,
        read_tokens: u64,
        #[serde(default)]
        change: Option<String>,
    },
    /// Another model answers instead of the requested one.
    Fallback {
        from_model: String,
        to_model: String,
        error: String,
    },
    /// A tool starts; `tool_index` counts from 1, `tool_input` is JSON text.
    ToolCallStart {
        tool_name: String,
        tool_input: String,
        tool_key: String,
        tool_index: usize,
        tool_count: usize,
    },
    /// A tool has ended; in the log the output stays empty, since the store has it already.
    ToolCallEnd {
        tool_name: String,
        tool_output: String,
        is_error: bool,
        duration_ms: u64,
        tool_key: String,
        tool_index: usize,
        tool_count: usize,
        /// Number of lines of the text with all of the output, if `tool_output` has only a part of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_lines: Option<u64>,
    },
    /// A piece of the model's answer text.
    TextDelta { text: String },
    /// Something failed.
    Error { error: String },
    /// A request failed and is retried after the delay; `attempt` counts from 0, status 0 means a network error.
    Retry {
        attempt: u32,
        delay_ms: u64,
        status: u16,
        error: String,
    },
    /// The session's state has changed: `idle`, `processing`.
    StateChange {
        from_state: String,
        to_state: String,
    },
    /// Steering messages were read.
    SteeringReceived {
        content: String,
        message_count: usize,
    },
    /// Follow-up messages were read.
    FollowupReceived {
        content: String,
        message_count: usize,
    },
    /// The model repeats itself.
    LoopDetected {
        consecutive_count: usize,
        turn_signature: String,
        action: LoopAction,
    },
    /// The context window is nearly full and a summary is requested.
    CompactionTriggered {
        input_tokens: u64,
        context_limit: u64,
    },
    /// The summary is stored.
    CompactionComplete {
        input_tokens: u64,
        output_tokens: u64,
    },
    /// A token budget is used up.
    BudgetExceeded {
        total_input_tokens: u64,
        total_output_tokens: u64,
        max_tokens: u64,
    },
    /// The next request does not continue the earlier ones of its branch, so the cache is not read and earlier thinking
    /// is left out. `message_id` will be its answer.
    PrefixBroken {
        message_id: MessageId,
        reason: PrefixBreak,
    },
    /// The request is unusually big.
    PayloadWarn { payload_bytes: u64, threshold: u64 },
    /// The server was asked to continue the conversation that it holds. `held_bytes` were not sent; 0 if it has forgotten them, so that
    /// all was sent.
    ConversationHeld { payload_bytes: u64, held_bytes: u64 },
    /// The check of the run (`--until`) has run, or the run has ended; `is_last` tells that. `message_id` is the last message
    /// that it judges.
    Checked {
        #[serde(flatten)]
        verification: Verification,
        is_last: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
    },
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// Action taken on a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopAction {
    /// The model is warned.
    Warn,
    /// The run ends.
    Break,
}

impl EventKind {
    /// Returns the event's name in JSON and in the database.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStart { .. } => "agent_start",
            Self::AgentEnd { .. } => "agent_end",
            Self::ApiCallStart { .. } => "api_call_start",
            Self::ApiCallEnd { .. } => "api_call_end",
            Self::CacheMissed { .. } => "cache_missed",
            Self::Fallback { .. } => "fallback",
            Self::ToolCallStart { .. } => "tool_call_start",
            Self::ToolCallEnd { .. } => "tool_call_end",
            Self::TextDelta { .. } => "text_delta",
            Self::Error { .. } => "error",
            Self::Retry { .. } => "retry",
            Self::StateChange { .. } => "state_change",
            Self::SteeringReceived { .. } => "steering_received",
            Self::FollowupReceived { .. } => "followup_received",
            Self::LoopDetected { .. } => "loop_detected",
            Self::CompactionTriggered { .. } => "compaction_triggered",
            Self::CompactionComplete { .. } => "compaction_complete",
            Self::BudgetExceeded { .. } => "budget_exceeded",
            Self::PrefixBroken { .. } => "prefix_broken",
            Self::PayloadWarn { .. } => "payload_warn",
            Self::ConversationHeld { .. } => "conversation_held",
            Self::Checked { .. } => "checked",
        }
    }

    /// Whether the event is stored in the database; the others can be derived from the messages.
    pub fn is_stored(&self) -> bool {
        match self {
            Self::AgentEnd { .. }
            | Self::ApiCallEnd { .. }
            | Self::CacheMissed { .. }
            | Self::Fallback { .. }
            | Self::ToolCallEnd { .. }
            | Self::Error { .. }
            | Self::Retry { .. }
            | Self::StateChange { .. }
            | Self::LoopDetected { .. }
            | Self::CompactionTriggered { .. }
            | Self::CompactionComplete { .. }
            | Self::BudgetExceeded { .. }
            | Self::PrefixBroken { .. }
            | Self::PayloadWarn { .. }
            | Self::ConversationHeld { .. }
            | Self::Checked { .. } => true,
            Self::AgentStart { .. }
            | Self::ApiCallStart { .. }
            | Self::ToolCallStart { .. }
            | Self::TextDelta { .. }
            | Self::SteeringReceived { .. }
            | Self::FollowupReceived { .. } => false,
        }
    }

    /// Whether the event marks the beginning or end of a whole run or a state change; subagents emit no such events.
    pub fn is_of_run(&self) -> bool {
        matches!(
            self,
            Self::AgentStart { .. } | Self::AgentEnd { .. } | Self::StateChange { .. }
        )
    }

    /// Returns the message that the event is about, if it names one.
    pub fn message_id(&self) -> Option<&MessageId> {
        match self {
            Self::ApiCallEnd { message_id, .. } | Self::CacheMissed { message_id, .. } => {
                Some(message_id)
            }
            Self::Checked { message_id, .. } => message_id.as_ref(),
            _ => None,
        }
    }
}
