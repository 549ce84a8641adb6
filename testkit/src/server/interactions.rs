//! Interactions API: the parts of a request that a scenario looks at.

pub mod held;
pub mod history;
pub mod stream;

use serde_json::{Value, json};

use super::chat::texts;
use super::json::list;
use super::new_input::NewInput;

/// Version of the API's JSON.
pub const REVISION: &str = "2026-05-20";

/// Returns the number of answers in the history: each is a run of consecutive steps.
pub fn answers(body: &Value) -> usize {
    let input = list(body, "input");
    let rows = input.chunk_by(|step, next| is_answer(step) == is_answer(next));
    rows.filter(|row| is_answer(&row[0])).count()
}

/// Returns the input since the last answer.
pub fn new_input(body: &Value) -> NewInput {
    let steps = list(body, "input");
    let answered = steps.iter().rposition(is_answer);
    let mut input = NewInput::default();
    for step in &steps[answered.map_or(0, |at| at + 1)..] {
        match step["type"].as_str() {
            Some("user_input") => input.user_texts.extend(texts(&step["content"])),
            Some("function_result") => input.tool_result = texts(&step["result"]).concat(),
            _ => {}
        }
    }
    input
}

/// Returns the body of an error with `status`; `error` is in the form of the Messages API.
pub fn failure(status: u16, error: &Value) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 | 529 => "UNAVAILABLE",
        _ => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": status, "message": error["message"], "status": name}})
}

fn is_answer(step: &Value) -> bool {
    let kind = step["type"].as_str();
    matches!(kind, Some("model_output" | "function_call" | "thought"))
}
