//! Chat completions: what a request says to whoever plays the model.

pub mod history;
pub mod stream;

use serde_json::Value;

use super::face::News;
use super::json::list;

/// How many answers the request carries.
pub fn answers(body: &Value) -> usize {
    let messages = list(body, "messages").iter();
    messages.filter(|it| it["role"] == "assistant").count()
}

/// What was said since the last answer.
pub fn news(body: &Value) -> News {
    let messages = list(body, "messages");
    let answered = messages.iter().rposition(|it| it["role"] == "assistant");
    let mut news = News::default();
    for message in &messages[answered.map_or(0, |at| at + 1)..] {
        match message["role"].as_str() {
            Some("user") => news.said.extend(texts(&message["content"])),
            Some("tool") => news.result = texts(&message["content"]).concat(),
            _ => {}
        }
    }
    news
}

/// The texts in `content`, which is one, or a list of parts.
pub fn texts(content: &Value) -> Vec<String> {
    let parts = content.as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str());
    let texts = content.as_str().into_iter().chain(texts);
    texts.map(str::to_owned).collect()
}
