//! Scripted events in the shape in which the vendor streams them.

use ah_conversation::{BlockStart, Delta, StreamEvent, Usage};
use serde_json::{Value, json};

/// Formats a server-sent event.
pub fn frame(data: &Value) -> Vec<u8> {
    let kind = data["type"].as_str().unwrap_or("message");
    format!("event: {kind}\ndata: {data}\n\n").into_bytes()
}

/// Returns a keep-alive event.
pub fn ping() -> Vec<u8> {
    frame(&json!({"type": "ping"}))
}

/// Returns an error event during an answer.
pub fn failure(error: &Value) -> Vec<u8> {
    frame(&json!({"type": "error", "error": error}))
}

/// Returns the data of `event`; `None` if the API has no such event. `model` is the requested one.
pub fn event(event: &StreamEvent, model: &str) -> Option<Value> {
    Some(match event {
        StreamEvent::Sent { .. }
        | StreamEvent::LeftOut { .. }
        | StreamEvent::Retry(_)
        | StreamEvent::Fallback(_)
        | StreamEvent::Opaque { .. }
        | StreamEvent::Billed { .. }
        | StreamEvent::Accepted { .. }
        | StreamEvent::CacheMissed(_)
        | StreamEvent::ThinkingDropped(_)
        | StreamEvent::Reading { .. } => return None,
        StreamEvent::Started { id, usage } => json!({
            "type": "message_start",
            "message": {
                "model": model,
                "id": id,
                "type": "message",
                "role": "assistant",
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": tokens(&Usage { output_tokens: 1, ..*usage }),
            }
        }),
        StreamEvent::BlockStarted { index, block } => json!({
            "type": "content_block_start",
            "index": index,
            "content_block": start(block),
        }),
        StreamEvent::Delta {
            index,
            delta: piece,
        } => json!({
            "type": "content_block_delta",
            "index": index,
            "delta": delta(piece),
        }),
        StreamEvent::BlockStopped { index } => {
            json!({"type": "content_block_stop", "index": index})
        }
        StreamEvent::Stopping { stop_reason, usage } => json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason.as_str(), "stop_sequence": null},
            "usage": tokens(usage),
        }),
        StreamEvent::Ended => json!({"type": "message_stop"}),
    })
}

fn start(block: &BlockStart) -> Value {
    match block {
        BlockStart::Text(text) => json!({"type": "text", "text": text}),
        BlockStart::Thinking(thinking) => {
            json!({"type": "thinking", "thinking": thinking, "signature": ""})
        }
        BlockStart::RedactedThinking(data) => json!({"type": "redacted_thinking", "data": data}),
        BlockStart::ToolUse { id, name, input } => {
            json!({"type": "tool_use", "id": id.as_str(), "name": name, "input": input})
        }
        BlockStart::Other(raw) => raw.clone(),
    }
}

fn delta(delta: &Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({"type": "text_delta", "text": text}),
        Delta::Thinking(thinking) => json!({"type": "thinking_delta", "thinking": thinking}),
        Delta::Signature(signature) => json!({"type": "signature_delta", "signature": signature}),
        Delta::InputJson(json) => json!({"type": "input_json_delta", "partial_json": json}),
        Delta::Other(raw) => raw.clone(),
    }
}

fn tokens(usage: &Usage) -> Value {
    let long = usage.cache_creation_1h_input_tokens;
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_creation_input_tokens.saturating_sub(long),
            "ephemeral_1h_input_tokens": long,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    })
}
