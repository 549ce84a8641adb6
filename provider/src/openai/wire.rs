//! The JSON of chat completions, as far as it is used, with the extensions of various servers.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::caching::CacheControl;

/// One chunk of a streamed answer, or a complete answer that is not streamed.
#[derive(Deserialize)]
pub struct Chunk {
    pub id: Option<String>,
    pub object: Option<String>,
    pub created: Option<Number>,
    pub choices: Option<Vec<Choice>>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    /// Groq sends the usage here.
    pub x_groq: Option<Box<Extension>>,
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
    /// Instead of `delta` if the answer is not streamed; beside it, the whole message so far.
    pub message: Option<Box<Delta>>,
    pub finish_reason: Option<String>,
    pub usage: Option<Value>,
}

/// The part of the answer in a chunk.
#[derive(Default, Deserialize)]
pub struct Delta {
    pub content: Option<Content>,
    pub refusal: Option<String>,
    /// Reasoning, in the field of most servers.
    pub reasoning_content: Option<String>,
    /// Reasoning, in another field.
    pub reasoning: Option<String>,
    /// Signed reasoning, in the form of OpenRouter.
    pub reasoning_details: Option<Vec<Value>>,
    /// Signed reasoning, in the form of the Messages API.
    pub thinking_blocks: Option<Vec<ThinkingBlock>>,
    pub tool_calls: Option<Vec<ToolCallDelta>>,
}

pub enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// By hand: an untagged enum would keep a copy of each text.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    Text {
        text: String,
    },
    Thinking {
        thinking: Content,
    },
    #[serde(other)]
    Other,
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
    /// A string of JSON, or the JSON value.
    pub arguments: Option<Value>,
}

/// A message that is sent. A user message of text alone is written without this type, since its end is left open.
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
    InputAudio {
        input_audio: InputAudio<'a>,
    },
}

/// Sound in base64.
#[derive(Serialize)]
pub struct InputAudio<'a> {
    pub data: &'a str,
    /// `wav` or `mp3`.
    pub format: &'static str,
}

#[derive(Serialize)]
pub struct ImageUrl {
    pub url: String,
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
