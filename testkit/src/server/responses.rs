//! The Responses API: what a request says to whoever plays the model.

pub mod history;
pub mod stream;

use serde_json::Value;

use self::history::kind;
use super::chat::texts;
use super::face::News;
use super::json::list;

/// How many answers the request carries: each is a row of items.
pub fn answers(body: &Value) -> usize {
    let input = list(body, "input");
    let rows = input.chunk_by(|item, next| is_answer(item) == is_answer(next));
    rows.filter(|row| is_answer(&row[0])).count()
}

/// What was said since the last answer.
pub fn news(body: &Value) -> News {
    let input = list(body, "input");
    let answered = input.iter().rposition(is_answer);
    let mut news = News::default();
    for item in &input[answered.map_or(0, |at| at + 1)..] {
        match kind(item) {
            "user" => news.said.extend(texts(&item["content"])),
            "function_call_output" => news.result = texts(&item["output"]).concat(),
            _ => {}
        }
    }
    news
}

fn is_answer(item: &Value) -> bool {
    matches!(kind(item), "assistant" | "function_call" | "reasoning")
}
