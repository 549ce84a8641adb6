//! The messages of a query, as the official SDKs name them. Each keeps what it has no field for.

use ah_conversation::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Something that a query tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// Something about the session: `init` comes first.
    System(SystemMessage),
    /// What the model has said, block by block.
    Assistant(AssistantMessage),
    /// What the model was told: results of tools.
    User(UserMessage),
    /// A piece of the answer as it arrives.
    StreamEvent(PartialMessage),
    /// How it ended; the last of its prompt.
    Result(Box<ResultMessage>),
    /// Any other.
    #[serde(untagged)]
    Other(Value),
}

/// Something about the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemMessage {
    /// What: `init`, `compact_boundary`, `status` …
    pub subtype: String,
    /// The rest: for `init` the model, tools, servers, commands …
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// What the model has said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The message as the Messages API would give it: `content`, `model`, `usage` …
    pub message: Map<String, Value>,
    /// The call of the subagent that has said it.
    pub parent_tool_use_id: Option<String>,
    /// The rest.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

impl AssistantMessage {
    /// Its words.
    pub fn text(&self) -> String {
        let blocks = self.message.get("content").and_then(Value::as_array);
        let texts = blocks.into_iter().flatten();
        texts
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect()
    }
}

/// What the model was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The message: `role` and `content`.
    pub message: Map<String, Value>,
    /// The call of the subagent that was told.
    pub parent_tool_use_id: Option<String>,
    /// The rest: `tool_use_result`, what a tool says of its result for programs.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// A piece of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartialMessage {
    /// The event as the Messages API streams it.
    pub event: Value,
    /// The rest.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// `success`, or which error.
    pub subtype: String,
    /// Whether it is one.
    pub is_error: bool,
    /// The last words of the model.
    pub result: Option<String>,
    /// What went wrong.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Model calls.
    pub num_turns: u64,
    /// In US dollars; `None` where a price is not known.
    pub total_cost_usd: Option<f64>,
    /// All tokens.
    #[serde(default)]
    pub usage: Usage,
    /// The rest: `modelUsage`, `duration_ms`, `structured_output` …
    #[serde(flatten)]
    pub data: Map<String, Value>,
}
