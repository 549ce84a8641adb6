//! Chat completions: the parts of a request that a scenario looks at.

pub mod history;
pub mod stream;

use serde_json::Value;

use super::json::list;
use super::new_input::NewInput;

/// Returns the number of answers in the history.
pub fn answers(body: &Value) -> usize {
    let messages = list(body, "messages").iter();
    messages.filter(|it| it["role"] == "assistant").count()
}

/// Returns the input since the last answer.
pub fn new_input(body: &Value) -> NewInput {
    let messages = list(body, "messages");
    let answered = messages.iter().rposition(|it| it["role"] == "assistant");
    let mut input = NewInput::default();
    for message in &messages[answered.map_or(0, |at| at + 1)..] {
        match message["role"].as_str() {
            Some("user") => input.user_texts.extend(texts(&message["content"])),
            Some("tool") => input.tool_result = texts(&message["content"]).concat(),
            _ => {}
        }
    }
    input
}

/// Returns the texts in `content`, a string or a list of parts.
pub fn texts(content: &Value) -> Vec<String> {
    let parts = content.as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str());
    let texts = content.as_str().into_iter().chain(texts);
    texts.map(str::to_owned).collect()
}
