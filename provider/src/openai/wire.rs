//! The JSON of chat completions, as far as we write and read it, with what the servers of the world have made of it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// One chunk of a streamed answer, or the whole of one that is not streamed.
#[derive(Deserialize)]
pub struct Chunk {
    pub id: Option<String>,
    pub object: Option<String>,
    pub created: Option<Number>,
    pub choices: Option<Vec<Choice>>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    /// Where one vendor tells the usage.
    pub x_groq: Option<Extension>,
}

#[derive(Deserialize)]
pub struct Extension {
    pub usage: Option<Value>,
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub struct Choice {
    pub index: Option<u64>,
    pub delta: Option<Delta>,
    /// In place of `delta` where the answer is not streamed; beside it, all that was said so far.
    pub message: Option<Delta>,
    pub finish_reason: Option<String>,
    pub usage: Option<Value>,
}

/// What a chunk adds to the answer.
#[derive(Default, Deserialize)]
pub struct Delta {
    pub content: Option<Content>,
    pub refusal: Option<String>,
    /// Reasoning, under the name most servers use.
    pub reasoning_content: Option<String>,
    /// Reasoning, under another name.
    pub reasoning: Option<String>,
    /// Reasoning with its seals, as one vendor lists it.
    pub reasoning_details: Option<Vec<Value>>,
    /// Reasoning with its seals, in the form of the Messages API.
    pub thinking_blocks: Option<Vec<ThinkingBlock>>,
    pub tool_calls: Option<Vec<ToolCallDelta>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    Text {
        text: String,
    },
    Thinking {
        thinking: ThinkingContent,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum ThinkingContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Deserialize)]
pub struct ThinkingBlock {
    pub thinking: Option<String>,
    pub signature: Option<String>,
    pub data: Option<String>,
}

#[derive(Deserialize)]
pub struct ToolCallDelta {
    pub index: Option<i64>,
    pub id: Option<String>,
    pub function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
pub struct FunctionDelta {
    pub name: Option<String>,
    /// Text that is JSON, or JSON itself.
    pub arguments: Option<Value>,
}

/// A message that is sent. What a user only says is written without this, as its end is left open.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message<'a> {
    System {
        content: SentContent<'a>,
    },
    User {
        content: Vec<Part<'a>>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        thinking_blocks: Vec<SentThinking<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "str::is_empty")]
        reasoning_content: &'a str,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: SentContent<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum SentContent<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

#[derive(Serialize)]
pub struct ImageUrl {
    pub url: String,
}

/// A prompt cache breakpoint.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CacheControl {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SentThinking<'a> {
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub struct ToolCall<'a> {
    pub id: Cow<'a, str>,
    pub function: FunctionCall<'a>,
}

#[derive(Serialize)]
pub struct FunctionCall<'a> {
    pub name: Cow<'a, str>,
    pub arguments: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub struct Tool<'a> {
    pub function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
pub struct Function<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub parameters: &'a Value,
}
