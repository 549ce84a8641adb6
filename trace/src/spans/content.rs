//! Messages in the form of the semantic conventions, for users who want content in their traces.

use ah_conversation::{ContentBlock, Message, ResultBlock, ToolResult};
use serde_json::{Value, json};

/// Returns the prompt of a run as the input of an agent.
pub(super) fn prompt(text: &str) -> String {
    json!([{"role": "user", "parts": [part(text)]}]).to_string()
}

/// Returns an answer as the output of a model: texts and calls.
pub(super) fn answer(message: &Message) -> String {
    let parts = message.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(part(text)),
        ContentBlock::ToolUse(call) => Some(json!({
            "type": "tool_call",
            "id": call.id.as_str(),
            "name": call.name,
            "arguments": call.input.to_value(),
        })),
        _ => None,
    });
    let reason = message.response.as_ref();
    let reason = reason.map_or("", |response| response.stop_reason.as_str());
    json!([{
        "role": "assistant",
        "parts": parts.collect::<Vec<_>>(),
        "finish_reason": reason,
    }])
    .to_string()
}

/// Returns the texts of a tool's result, as the model sees them.
pub(super) fn result(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        ResultBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}
