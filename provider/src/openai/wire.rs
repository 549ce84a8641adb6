//! The JSON of chat completions, as far as it is used, with the extensions of various servers.

use std::borrow::Cow;
use std::fmt;

use ah_conversation::{Fields, said, says_nothing};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::caching::CacheControl;
use crate::lenient::{label, label_of, lenient, number_of};

/// One chunk of a streamed answer, or a complete answer that is not streamed.
#[derive(Deserialize)]
pub struct Chunk {
    #[serde(default, deserialize_with = "label")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "label")]
    pub object: Option<String>,
    #[serde(default, deserialize_with = "label")]
    pub created: Option<String>,
    pub choices: Option<Vec<Choice>>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    /// How far llama.cpp has read the request.
    #[serde(default, deserialize_with = "lenient")]
    pub prompt_progress: Option<PromptProgress>,
    /// Groq sends the usage here.
    #[serde(default, deserialize_with = "lenient")]
    pub x_groq: Option<Box<Extension>>,
}

#[derive(Deserialize)]
pub struct PromptProgress {
    pub total: u64,
    pub processed: u64,
}

#[derive(Deserialize)]
pub struct Extension {
    pub usage: Option<Value>,
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub struct Choice {
    #[serde(default, deserialize_with = "lenient")]
    pub index: Option<u64>,
    pub delta: Option<Delta>,
    /// Instead of `delta` if the answer is not streamed; beside it, the whole message so far.
    pub message: Option<Box<Delta>>,
    #[serde(default, deserialize_with = "lenient")]
    pub finish_reason: Option<String>,
    pub usage: Option<Value>,
}

/// The part of the answer in a chunk.
#[derive(Default, Deserialize)]
#[serde(try_from = "Value")]
pub struct Delta {
    pub content: Option<Content>,
    /// The content as it came, if it has other parts than text.
    pub parts: Vec<Value>,
    pub refusal: Option<String>,
    /// Signed reasoning, in the form of the Messages API.
    pub thinking_blocks: Vec<ThinkingBlock>,
    pub tool_calls: Vec<ToolCallDelta>,
    /// All other fields, to be given back, among them reasoning in its various fields.
    pub opaque: Fields,
}

/// Fields that tell the client something and do not go back: those of OpenAI's own answers that its requests have in no form or
/// in another one (npm `openai` 7.59.0, `ChatCompletionMessage`, November 2026), the place of a piece (Mistral, LiteLLM), and
/// the number of its token (Together).
const ONLY_IN_ANSWERS: [&str; 6] = [
    "role",
    "annotations",
    "audio",
    "function_call",
    "index",
    "token_id",
];

impl TryFrom<Value> for Delta {
    type Error = serde_json::Error;

    fn try_from(delta: Value) -> Result<Self, serde_json::Error> {
        // Some servers end with a piece that is an empty text or list.
        if says_nothing(&delta) {
            return Ok(Self::default());
        }
        let mut fields = Fields::deserialize(delta)?;
        for name in ONLY_IN_ANSWERS {
            fields.shift_remove(name);
        }
        let blocks = fields.get("thinking_blocks").cloned();
        let blocks = blocks.and_then(|blocks| serde_json::from_value(blocks).ok());
        if blocks.is_some() {
            fields.shift_remove("thinking_blocks");
            // LiteLLM repeats them there.
            if let Some(Value::Object(copies)) = fields.get_mut("provider_specific_fields") {
                copies.shift_remove("thinking_blocks");
            }
        }
        let calls: Vec<Option<ToolCallDelta>> =
            take(&mut fields, "tool_calls")?.unwrap_or_default();
        let parts = fields.get("content").and_then(Value::as_array);
        let parts = parts.filter(|parts| !parts.iter().all(is_text));
        Ok(Self {
            parts: parts.cloned().unwrap_or_default(),
            content: take(&mut fields, "content")?,
            refusal: fields.shift_remove("refusal").and_then(label_of),
            thinking_blocks: blocks.unwrap_or_default(),
            tool_calls: calls.into_iter().flatten().collect(),
            opaque: said(fields),
        })
    }
}

/// Whether a part of the content is text and nothing else.
fn is_text(part: &Value) -> bool {
    let fields = part.as_object();
    part["type"] == "text" && fields.is_some_and(|fields| fields.len() == 2)
}

/// Takes a field that the answer depends on; one that holds nothing is absent.
fn take<T: DeserializeOwned>(
    fields: &mut Fields,
    name: &str,
) -> Result<Option<T>, serde_json::Error> {
    let value = fields
        .shift_remove(name)
        .filter(|value| !says_nothing(value));
    value.map(serde_json::from_value).transpose()
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

/// A piece of a tool call.
#[derive(Default, Deserialize)]
#[serde(try_from = "Fields")]
pub struct ToolCallDelta {
    pub index: Option<i64>,
    pub id: Option<String>,
    pub name: Option<String>,
    /// A string of JSON, or the JSON value.
    pub arguments: Option<Value>,
    /// All other fields, to be given back; those of the function in a field of its name.
    pub opaque: Fields,
}

impl TryFrom<Fields> for ToolCallDelta {
    type Error = serde_json::Error;

    fn try_from(mut fields: Fields) -> Result<Self, serde_json::Error> {
        fields.shift_remove("type");
        let index = fields.shift_remove("index");
        let id = fields.shift_remove("id");
        let mut function: Fields = take(&mut fields, "function")?.unwrap_or_default();
        let name = function.shift_remove("name");
        let arguments = function.shift_remove("arguments");
        fields.insert("function".to_owned(), Value::Object(said(function)));
        Ok(Self {
            index: index.as_ref().and_then(number_of),
            id: id.and_then(label_of),
            name: name.and_then(label_of),
            arguments,
            opaque: said(fields),
        })
    }
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
        content: Option<AnswerContent<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        thinking_blocks: Vec<SentThinking<'a>>,
        /// What the server gave with the message.
        #[serde(flatten)]
        opaque: Fields,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: SentContent<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum AnswerContent<'a> {
    Text(&'a str),
    /// As the server gave it.
    Given(Value),
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
    /// What the server gave with the call.
    #[serde(flatten)]
    pub opaque: Fields,
}

/// Stands for a signature that Gemini demands and never gave: that of another model's call
/// (ai.google.dev/gemini-api/docs/thought-signatures).
pub const NOT_SIGNED: &str = "skip_thought_signature_validator";

impl ToolCall<'_> {
    /// Says that the call is another model's, unless it came with a signature.
    pub fn sign(&mut self) {
        let google = json!({"thought_signature": NOT_SIGNED});
        let field = self.opaque.entry("extra_content");
        field.or_insert_with(|| json!({ "google": google }));
    }
}

#[derive(Serialize)]
pub struct FunctionCall<'a> {
    pub name: Cow<'a, str>,
    pub arguments: String,
    #[serde(flatten)]
    pub opaque: Fields,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thinking_that_is_repeated_is_kept_once() {
        let blocks = json!([{"type": "thinking", "thinking": "Hm.", "signature": "s"}]);
        let given = |more: Value| {
            let piece = json!({"thinking_blocks": blocks, "provider_specific_fields": more});
            let delta = Delta::try_from(piece).unwrap();
            assert_eq!(delta.thinking_blocks.len(), 1);
            Value::Object(delta.opaque)
        };
        assert_eq!(given(json!({"thinking_blocks": blocks})), json!({}));
        assert_eq!(
            given(json!({"thinking_blocks": blocks, "mark": 7})),
            json!({"provider_specific_fields": {"mark": 7}})
        );
    }
}
