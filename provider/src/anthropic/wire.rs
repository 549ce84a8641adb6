//! The JSON of the Messages API, as far as it is used. Only `anthropic` knows these types, except for [`Thinking`].

use std::borrow::Cow;

use ah_conversation::{Fields, Input, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::abilities::ThinkingSetting;
use crate::caching::CacheControl;
use crate::lenient::{label, lenient, or_default};

/// A request without its messages, which are encoded separately.
#[derive(Serialize)]
pub struct Head<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anthropic_version: Option<&'static str>,
    pub max_tokens: u64,
    pub stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<SystemBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread<'a>>,
}

/// What the server does with the conversation.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thread<'a> {
    /// It holds it.
    Create,
    /// It puts what it holds, up to this answer, before the messages.
    Continue { previous_message_id: &'a str },
}

/// The tool that is to be called.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolChoice<'a> {
    Tool { name: &'a str },
}

/// What is wanted in the place of an answer.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Compaction<'a> {
    Summarize {
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<&'a str>,
    },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thinking {
    Enabled {
        budget_tokens: u64,
    },
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Display>,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<BlockBinding>,
    },
    Disabled,
}

/// What is shown of the thinking.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Display {
    Summarized,
}

/// What happens to thinking that is not valid behind what stands before it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct BlockBinding {
    pub prefix_mismatch_behavior: MismatchBehavior,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchBehavior {
    DropBlock,
}

impl From<ThinkingSetting> for Thinking {
    fn from(thought: ThinkingSetting) -> Self {
        match thought {
            ThinkingSetting::Off => Self::Disabled,
            ThinkingSetting::Budget(budget_tokens) => Self::Enabled { budget_tokens },
            ThinkingSetting::Adaptive(_) => Self::Adaptive {
                display: None,
                block_binding: None,
            },
        }
    }
}

#[derive(Serialize)]
pub struct OutputConfig {
    pub effort: &'static str,
}

#[derive(Serialize)]
pub struct Tool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
pub struct SystemBlock<'a> {
    pub text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// A content block of a message that is sent.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    Image {
        source: ImageSource<'a>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: ToolInput<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    ToolAddition {
        tool: AddedTool<'a>,
    },
    #[serde(untagged)]
    Other(&'a Value),
    /// A block with what the server gave with it.
    #[serde(untagged)]
    Given(Value),
}

/// A tool that a system message adds.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AddedTool<'a> {
    ToolDefinition { definition: Tool<'a> },
}

/// Role of a message on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
    System,
}

impl Block<'_> {
    /// Returns whether it is a thinking block.
    pub fn is_thinking(&self) -> bool {
        match self {
            Self::Given(raw) => raw["type"] == "thinking" || raw["type"] == "redacted_thinking",
            block => matches!(block, Self::Thinking { .. } | Self::RedactedThinking { .. }),
        }
    }

    /// Returns the block with what the server gave with it, if anything.
    pub fn with(self, fields: Option<&Fields>) -> Self {
        let raw = fields.and_then(|_| serde_json::to_value(&self).ok());
        match (fields, raw) {
            (Some(fields), Some(Value::Object(mut raw))) => {
                raw.extend(fields.clone());
                Self::Given(Value::Object(raw))
            }
            _ => self,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
pub struct ImageSource<'a> {
    pub media_type: &'a str,
    pub data: &'a str,
}

/// A tool's arguments; the API accepts only an object.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ToolInput<'a> {
    Object(&'a Input),
    Nothing {},
}

/// One event of the answer. The fields that are set depend on the type.
#[derive(Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "lenient")]
    pub index: Option<usize>,
    #[serde(default, deserialize_with = "lenient")]
    pub message: Option<MessageStart>,
    pub content_block: Option<Value>,
    #[serde(borrow)]
    pub delta: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient")]
    pub usage: Option<Usage>,
    pub error: Option<Value>,
}

/// A message that is not streamed, or an error.
#[derive(Deserialize)]
pub struct Message {
    #[serde(flatten)]
    pub start: Option<MessageStart>,
    pub content: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "lenient")]
    pub stop_reason: Option<StopReason>,
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub struct MessageStart {
    #[serde(default, deserialize_with = "label")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub usage: Option<Usage>,
}

/// Token counts, as far as this event has them.
#[derive(Deserialize)]
pub struct Usage {
    #[serde(default, deserialize_with = "lenient")]
    pub input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub cache_creation_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub cache_read_input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub cache_creation: Option<CacheCreation>,
    #[serde(default, deserialize_with = "lenient")]
    pub server_tool_use: Option<ServerToolUse>,
    /// The parts of the answer, of which the totals leave out summaries.
    #[serde(default, deserialize_with = "or_default")]
    pub iterations: Vec<Iteration>,
}

/// Token counts of a part of an answer.
#[derive(Deserialize)]
pub struct Iteration {
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(flatten)]
    pub usage: Usage,
}

/// Calls of tools that the server runs.
#[derive(Deserialize)]
pub struct ServerToolUse {
    #[serde(default, deserialize_with = "lenient")]
    pub web_search_requests: Option<u64>,
}

#[derive(Deserialize)]
pub struct CacheCreation {
    #[serde(default, deserialize_with = "lenient")]
    pub ephemeral_1h_input_tokens: Option<u64>,
}

/// The `delta` of `message_delta`.
#[derive(Deserialize)]
pub struct MessageDelta {
    #[serde(default, deserialize_with = "lenient")]
    pub stop_reason: Option<StopReason>,
}

/// The fields of all known kinds of deltas.
#[derive(Deserialize)]
pub struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    pub text: Option<String>,
    pub thinking: Option<String>,
    pub signature: Option<String>,
    pub partial_json: Option<String>,
}

/// A request for a search.
#[derive(Serialize)]
pub struct SearchRequest<'a> {
    pub model: &'a str,
    pub max_tokens: u64,
    pub stream: bool,
    pub system: &'a str,
    pub tools: [SearchTool<'a>; 1],
    pub messages: [SearchQuestion<'a>; 1],
}

/// The server's search tool.
#[derive(Serialize)]
#[serde(tag = "type", rename = "web_search_20250305")]
pub struct SearchTool<'a> {
    pub name: &'a str,
    pub max_uses: u32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub allowed_domains: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub blocked_domains: &'a [String],
}

#[derive(Serialize)]
pub struct SearchQuestion<'a> {
    pub role: &'a str,
    pub content: &'a str,
}

/// One result of a search.
#[derive(Deserialize)]
pub struct SearchHit {
    #[serde(default)]
    pub title: String,
    pub url: String,
}

/// Returns the results in a block, or the error code in their place; `None` for a block of another kind.
pub fn search_results(block: &Value) -> Option<Result<Vec<SearchHit>, String>> {
    if block.get("type")?.as_str()? != "web_search_tool_result" {
        return None;
    }
    let content = block.get("content")?;
    if let Some(code) = content.get("error_code").and_then(Value::as_str) {
        return Some(Err(code.to_owned()));
    }
    let hits = content
        .as_array()?
        .iter()
        .filter_map(|hit| SearchHit::deserialize(hit).ok())
        .collect();
    Some(Ok(hits))
}
