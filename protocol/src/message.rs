//! Messages of a session as typed values, named as in the official SDKs. Serialized, each is the JSON line of the same
//! message; fields that have no type here are in its `data`.

use ah_conversation::{ExitReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// State of the session; `init` comes first.
    System(SystemMessage),
    /// One content block of the model's answer.
    Assistant(AssistantMessage),
    /// Input of the model: tool results, replayed prompts, summaries.
    User(UserMessage),
    /// Piece of the answer as it arrives.
    StreamEvent(PartialMessage),
    /// Result of a prompt, its last message.
    Result(Box<ResultMessage>),
    /// Any other message, as JSON.
    #[serde(untagged)]
    Other(Value),
}

/// State of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemMessage {
    /// Kind of the message: `init`, `compact_boundary`, `status` …
    pub subtype: String,
    /// All other fields; of `init` the model, tools, servers, commands …
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// One content block of the model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Message in the form of the Messages API: `content`, `model`, `usage` …
    pub message: Map<String, Value>,
    /// Call that started the subagent; `None` in the main conversation.
    pub parent_tool_use_id: Option<String>,
    /// All other fields: `uuid`, `session_id`, `timestamp` …
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

impl AssistantMessage {
    /// Returns its text blocks, joined.
    pub fn text(&self) -> String {
        let blocks = self.message.get("content").and_then(Value::as_array);
        let texts = blocks.into_iter().flatten();
        texts
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect()
    }
}

/// Input of the model: tool results, replayed prompts, summaries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Message in the form of the Messages API: `role` and `content`.
    pub message: Map<String, Value>,
    /// Call that started the subagent; `None` in the main conversation.
    pub parent_tool_use_id: Option<String>,
    /// All other fields; `tool_use_result` is the tool's result for programs.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// Piece of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartialMessage {
    /// Event in the form in which the Messages API streams it.
    pub event: Value,
    /// All other fields.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// Result of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// `success`, or the kind of error.
    pub subtype: String,
    /// Whether the prompt failed.
    pub is_error: bool,
    /// Last answer of the model.
    pub result: Option<String>,
    /// Errors in words; empty on success.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Stop reason of the last answer.
    pub stop_reason: Option<String>,
    /// Number of turns: the prompt, each result of a tool, and whatever else the model was told.
    pub num_turns: u64,
    /// Cost in US dollars; `None` if a price is unknown.
    pub total_cost_usd: Option<f64>,
    /// Tokens of all model calls.
    #[serde(default)]
    pub usage: Usage,
    /// Reason why the run ended; `None` if none began, or if the message was read from JSON.
    #[serde(skip)]
    pub exit_reason: Option<ExitReason>,
    /// All other fields: `modelUsage`, `duration_ms`, `structured_output` …
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

impl From<Value> for Message {
    /// Takes a line apart. A line that lacks a field of its type is kept as [`Message::Other`].
    fn from(line: Value) -> Self {
        Self::deserialize(&line).unwrap_or(Self::Other(line))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_line_becomes_its_type_and_keeps_all_fields() {
        let answer = json!({
            "type": "assistant",
            "message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            "parent_tool_use_id": null,
            "uuid": "u",
        });
        let message = Message::from(answer.clone());
        assert!(
            matches!(&message, Message::Assistant(it) if it.text() == "ab"),
            "{message:?}"
        );
        assert_eq!(serde_json::to_string(&message).unwrap(), answer.to_string());

        let init = json!({"type": "system", "subtype": "init", "cwd": "/"});
        assert!(matches!(Message::from(init), Message::System(it) if it.data["cwd"] == "/"));
        for other in [
            json!({"type": "tool_progress", "tool_name": "x"}),
            json!({"type": "user"}),
        ] {
            assert_eq!(Message::from(other.clone()), Message::Other(other));
        }
    }
}
