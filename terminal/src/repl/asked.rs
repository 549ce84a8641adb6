//! What a model was asked beside the conversation.

use ah_conversation::{CallReason, Clock as _, Cost, Event, EventKind, ModelUsage};
use ah_ids::SystemClock;

/// An answer that is no part of the conversation, and what it has used.
pub(super) struct Asked {
    /// The answer.
    pub answer: String,
    /// What it has used.
    pub share: ModelUsage,
    /// How long it took, in milliseconds.
    pub api_ms: u64,
}

/// Returns the event that tells what it has cost.
pub(super) fn paid(reason: CallReason, share: &ModelUsage, api_ms: u64) -> Event {
    let clock = SystemClock::default();
    Event {
        kind: EventKind::ApiCallEnd {
            message_id: clock.message_id(),
            input_tokens: share.usage.input_tokens,
            output_tokens: share.usage.output_tokens,
            cache_creation_input_tokens: share.usage.cache_creation_input_tokens,
            cache_read_input_tokens: share.usage.cache_read_input_tokens,
            api_latency_ms: api_ms,
            model: share.model.clone(),
            cost_usd: share.cost.map(Cost::usd),
            reason: Some(reason),
        },
        timestamp: clock.now().seconds(),
    }
}
