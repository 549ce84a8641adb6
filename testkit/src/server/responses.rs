//! Responses API: the parts of a request that a scenario looks at.

pub mod binding;
pub mod held;
pub mod history;
pub mod stream;

use serde_json::Value;

use self::history::kind;
use super::chat::texts;
use super::json::list;
use super::new_input::NewInput;

/// Returns the number of answers in the history: each is a run of consecutive items.
pub fn answers(body: &Value) -> usize {
    let input = list(body, "input");
    let rows = input.chunk_by(|item, next| is_answer(item) == is_answer(next));
    rows.filter(|row| is_answer(&row[0])).count()
}

/// Returns the input since the last answer.
pub fn new_input(body: &Value) -> NewInput {
    let items = list(body, "input");
    let answered = items.iter().rposition(is_answer);
    let mut input = NewInput::default();
    for item in &items[answered.map_or(0, |at| at + 1)..] {
        match kind(item) {
            "user" => input.user_texts.extend(texts(&item["content"])),
            "function_call_output" => input.tool_result = texts(&item["output"]).concat(),
            _ => {}
        }
    }
    input
}

fn is_answer(item: &Value) -> bool {
    matches!(kind(item), "assistant" | "function_call" | "reasoning")
}
