//! The JSON of chat completions, as far as we write and read it, with what the servers of the world have made of it.

use serde::Deserialize;
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
    #[serde(default)]
    pub index: u64,
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
