//! Parts of messages in the form of the SDKs. Pure; ids are arguments.

use ah_conversation::{
    BlockStart, ContentBlock, Delta, Image, ResultBlock, StreamEvent, Time, ToolName, ToolResult,
    Usage,
};
use serde_json::{Value, json};

/// Name of the tool that starts a subagent.
const AGENT: &str = "Agent";

/// Returns a content block in the form of the Messages API.
pub fn content(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text { text } => json!({"type": "text", "text": text}),
        ContentBlock::Thinking {
            thinking,
            signature,
        } => json!({
            "type": "thinking",
            "thinking": thinking,
            "signature": signature.as_deref().unwrap_or_default(),
        }),
        ContentBlock::RedactedThinking { data } => {
            json!({"type": "redacted_thinking", "data": data})
        }
        ContentBlock::Image(image) => picture(image),
        ContentBlock::ToolUse(call) => json!({
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": call.input.to_value(),
        }),
        ContentBlock::ToolResult(result) => tool_result(result),
        ContentBlock::Other { raw } => raw.clone(),
    }
}

/// Returns the blocks of a result.
pub fn result_content(blocks: &[ResultBlock]) -> Value {
    let blocks = blocks.iter().filter_map(|block| match block {
        ResultBlock::Text { text } => Some(json!({"type": "text", "text": text})),
        ResultBlock::Image(image) => Some(picture(image)),
        // The format has no sound; the text before it says what it is.
        ResultBlock::Audio(_) => None,
    });
    blocks.collect()
}

/// Returns a tool result as a block.
pub fn tool_result(result: &ToolResult) -> Value {
    let is_text = |block: &ResultBlock| !matches!(block, ResultBlock::Image(_));
    let is_plain = result.is_error || !(is_foreign(result) || result.tool_name == AGENT);
    let content = if is_plain && result.content.iter().all(is_text) {
        json!(result.text())
    } else {
        result_content(&result.content)
    };
    json!({
        "type": "tool_result",
        "tool_use_id": result.tool_use_id,
        "content": content,
        "is_error": result.is_error,
    })
}

/// Whether a result is of a server's tool.
fn is_foreign(result: &ToolResult) -> bool {
    ToolName(&result.tool_name).is_of_server()
}

/// Returns a tool's structured result: its details, the blocks of a server's tool, or the text of a failure.
pub fn details(result: &ToolResult) -> Value {
    match (&result.details, result.is_error) {
        (_, true) => json!(format!("Error: {}", result.text())),
        (Some(details), false) => details.value(),
        (None, false) if is_foreign(result) => result_content(&result.content),
        (None, false) => json!(result.text()),
    }
}

fn picture(image: &Image) -> Value {
    let Image { media_type, data } = image;
    json!({
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": data},
    })
}

/// Returns the token usage in the form of the API.
pub fn tokens(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": five_minutes(usage),
            "ephemeral_1h_input_tokens": usage.cache_creation_1h_input_tokens,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    })
}

/// Returns the tokens cached for five minutes.
pub fn five_minutes(usage: &Usage) -> u64 {
    let long = usage.cache_creation_1h_input_tokens;
    usage.cache_creation_input_tokens.saturating_sub(long)
}

/// Returns an answer without content.
pub fn head(id: &str, model: &str, usage: &Usage) -> Value {
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": tokens(usage),
    })
}

/// Returns an answer with one block.
pub fn of_block(id: &str, model: &str, usage: &Usage, block: &Value) -> Value {
    let mut message = head(id, model, usage);
    message["content"] = json!([block]);
    message["context_management"] = Value::Null;
    message
}

/// Returns a piece of an answer in the form in which the API streams it; `None` if the API has no such event. `head`
/// returns the answer without content.
pub fn piece(event: &StreamEvent, head: impl FnOnce() -> Value) -> Option<Value> {
    Some(match event {
        StreamEvent::Started { .. } => json!({"type": "message_start", "message": head()}),
        StreamEvent::BlockStarted { index, block } => json!({
            "type": "content_block_start",
            "index": index,
            "content_block": start(block),
        }),
        StreamEvent::Delta { index, delta } => json!({
            "type": "content_block_delta",
            "index": index,
            "delta": growth(delta),
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
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        BlockStart::Other(raw) => raw.clone(),
    }
}

fn growth(delta: &Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({"type": "text_delta", "text": text}),
        Delta::Thinking(thinking) => json!({"type": "thinking_delta", "thinking": thinking}),
        Delta::Signature(signature) => json!({"type": "signature_delta", "signature": signature}),
        Delta::InputJson(json) => json!({"type": "input_json_delta", "partial_json": json}),
        Delta::Other(raw) => raw.clone(),
    }
}

/// Returns a time in the form of the SDKs.
pub fn timestamp(time: Time) -> Value {
    let moment = jiff::Timestamp::from_millisecond(time.0);
    match moment {
        Ok(moment) => json!(format!("{moment:.3}")),
        Err(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_millisecond() {
        assert_eq!(
            timestamp(Time(1_795_000_000_007)),
            "2026-11-18T11:06:40.007Z"
        );
        assert_eq!(timestamp(Time(i64::MAX)), Value::Null);
    }
}
