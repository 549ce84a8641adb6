//! All that a watcher may see of a run. Terminal, JSON lines and the event log show the same stream.

use serde::{Deserialize, Serialize};

use crate::{ExitReason, MessageId};

/// Something that happened, when, and for which message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
    /// Seconds since the Unix epoch.
    pub timestamp: i64,
}

/// What happened. The names and fields are a promise to programs that read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields say what they are, and repeat the vocabulary of the other modules"
)]
pub enum EventKind {
    /// A run begins.
    AgentStart {
        model: String,
        prompt: String,
        parent_id: Option<MessageId>,
    },
    /// A run has ended; totals are of the run, input counts what came from and went into the cache too.
    AgentEnd {
        stop_reason: ExitReason,
        total_input_tokens: u64,
        total_output_tokens: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        total_cache_read_tokens: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The model is asked.
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
    },
    /// Another model answers in the place of the one that was asked.
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
    /// A tool has ended; the output stays empty in the log, since the store has it already.
    ToolCallEnd {
        tool_name: String,
        tool_output: String,
        is_error: bool,
        duration_ms: u64,
        tool_key: String,
        tool_index: usize,
        tool_count: usize,
    },
    /// The model says something.
    TextDelta { text: String },
    /// Something failed.
    Error { error: String },
    /// A request failed and is sent again after the delay; `attempt` counts from 0, status 0 is the network's.
    Retry {
        attempt: u32,
        delay_ms: u64,
        status: u16,
        error: String,
    },
    /// The session's state: `idle`, `processing`.
    StateChange {
        from_state: String,
        to_state: String,
    },
    /// Steering was read.
    SteeringReceived {
        content: String,
        message_count: usize,
    },
    /// Follow-ups were read.
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
    /// The window fills up and a summary is asked for.
    CompactionTriggered {
        input_tokens: u64,
        context_limit: u64,
    },
    /// The summary stands.
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
    /// The request is unusually big.
    PayloadWarn { payload_bytes: u64, threshold: u64 },
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// What is done about a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopAction {
    /// The model is told.
    Warn,
    /// The run ends.
    Break,
}

impl EventKind {
    /// The event's name in JSON and in the database.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStart { .. } => "agent_start",
            Self::AgentEnd { .. } => "agent_end",
            Self::ApiCallStart { .. } => "api_call_start",
            Self::ApiCallEnd { .. } => "api_call_end",
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
            Self::PayloadWarn { .. } => "payload_warn",
        }
    }

    /// Whether the event is kept in the database; the others can be told again from the messages.
    pub fn is_stored(&self) -> bool {
        match self {
            Self::AgentEnd { .. }
            | Self::ApiCallEnd { .. }
            | Self::Fallback { .. }
            | Self::ToolCallEnd { .. }
            | Self::Error { .. }
            | Self::Retry { .. }
            | Self::StateChange { .. }
            | Self::LoopDetected { .. }
            | Self::CompactionTriggered { .. }
            | Self::CompactionComplete { .. }
            | Self::BudgetExceeded { .. }
            | Self::PayloadWarn { .. } => true,
            Self::AgentStart { .. }
            | Self::ApiCallStart { .. }
            | Self::ToolCallStart { .. }
            | Self::TextDelta { .. }
            | Self::SteeringReceived { .. }
            | Self::FollowupReceived { .. } => false,
        }
    }

    /// Whether the event says that the run as a whole begins or ends: of those a subagent has none.
    pub fn is_of_run(&self) -> bool {
        matches!(
            self,
            Self::AgentStart { .. } | Self::AgentEnd { .. } | Self::StateChange { .. }
        )
    }

    /// The message that the event is about, where it names one.
    pub fn message_id(&self) -> Option<&MessageId> {
        match self {
            Self::ApiCallEnd { message_id, .. } => Some(message_id),
            _ => None,
        }
    }
}
