//! The Messages API: what a request says to whoever plays the model.

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
        news.said
            .extend(message["content"].as_str().map(str::to_owned));
        for block in list(message, "content") {
            if block["type"] == "tool_result" {
                news.result = text(&block["content"]);
            }
            news.said.extend(block["text"].as_str().map(str::to_owned));
        }
    }
    news
}

/// The words in `content`, of which the first are enough.
fn text(content: &Value) -> String {
    let text = content.pointer("/0/text").unwrap_or(content);
    text.as_str().unwrap_or_default().to_owned()
}
