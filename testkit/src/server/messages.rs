//! Messages API: the parts of a request that a scenario looks at.

pub mod binding;
pub mod history;
pub mod stream;
pub mod threads;

use serde_json::Value;

use super::json::list;
use super::new_input::NewInput;

/// Returns the number of answers in the history.
pub fn answers(body: &Value) -> usize {
    let messages = list(body, "messages").iter();
    messages.filter(|it| it["role"] == "assistant").count()
}

/// Returns the beta feature that the request uses and does not name among `betas`.
pub fn missing_beta(body: &Value, betas: &str) -> Option<&'static str> {
    let has_block = |kind: &str| {
        let messages = list(body, "messages").iter();
        let mut blocks = messages.flat_map(|message| list(message, "content"));
        blocks.any(|block| block["type"] == kind)
    };
    let summarizes = !body["compaction"].is_null() || has_block("compaction");
    let binds = !body["thinking"]["block_binding"].is_null();
    let needed = [
        (has_block("tool_addition"), "inline-tools-2026-09-15"),
        (summarizes, "compact-2026-09-04"),
        (binds, "thinking-binding-controls-2026-08-01"),
        (!body["thread"].is_null(), threads::BETA),
    ];
    let is_named = |beta: &str| betas.split(',').any(|named| named.trim() == beta);
    let mut missing = needed
        .into_iter()
        .filter(|(is_needed, beta)| *is_needed && !is_named(beta));
    missing.next().map(|(_, beta)| beta)
}

/// Returns the input since the last answer.
pub fn new_input(body: &Value) -> NewInput {
    let messages = list(body, "messages");
    let answered = messages.iter().rposition(|it| it["role"] == "assistant");
    let mut input = NewInput::default();
    for message in &messages[answered.map_or(0, |at| at + 1)..] {
        input
            .user_texts
            .extend(message["content"].as_str().map(str::to_owned));
        for block in list(message, "content") {
            if block["type"] == "tool_result" {
                input.tool_result = text(&block["content"]);
            }
            input
                .user_texts
                .extend(block["text"].as_str().map(str::to_owned));
        }
    }
    input
}

/// Returns the first text of `content`.
fn text(content: &Value) -> String {
    let text = content.pointer("/0/text").unwrap_or(content);
    text.as_str().unwrap_or_default().to_owned()
}
