//! The JSON of the Interactions API, as far as it is used (PyPI `google-genai` 3.6.1, npm `@google/genai` 2.32.0).

use std::borrow::Cow;

use ah_conversation::{Fields, says_nothing};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lenient::{label, or_default};
use crate::openai::NOT_SIGNED;

/// One event of a streamed interaction. The fields that are set depend on the type.
#[derive(Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "event_type", borrow, default)]
    pub kind: Cow<'a, str>,
    pub interaction: Option<Interaction<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    pub index: usize,
    #[serde(borrow)]
    pub step: Option<&'a RawValue>,
    #[serde(borrow)]
    pub delta: Option<&'a RawValue>,
    pub error: Option<Value>,
}

/// An interaction, complete or in progress.
#[derive(Deserialize)]
pub struct Interaction<'a> {
    #[serde(default, deserialize_with = "label")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "label")]
    pub status: Option<String>,
    #[serde(default, borrow)]
    pub steps: Option<Vec<&'a RawValue>>,
    #[serde(default, deserialize_with = "or_default")]
    pub usage: Option<Tokens>,
    pub error: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub errors: Vec<Value>,
}

impl Interaction<'_> {
    /// Returns why it failed, if it says so.
    pub fn failure(&self) -> Option<&Value> {
        let mut errors = self.error.iter().chain(&self.errors);
        errors.find(|error| !says_nothing(error))
    }
}

/// The tokens of an interaction. Those of the cache are a part of the input, those of thoughts are none of the output.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
pub struct Tokens {
    #[serde(deserialize_with = "or_default")]
    pub total_input_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    pub total_cached_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    pub total_output_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    pub total_thought_tokens: u64,
    #[serde(deserialize_with = "or_default")]
    pub total_tool_use_tokens: u64,
}

/// A step of an answer, or its beginning.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Step {
    Thought {
        signature: Option<String>,
        summary: Option<Vec<Content>>,
    },
    ModelOutput {
        content: Option<Vec<Content>>,
        error: Option<Value>,
    },
    FunctionCall {
        id: Option<String>,
        name: Option<String>,
        arguments: Option<Value>,
        signature: Option<String>,
    },
    /// Calls of the server's own tools, what the request sent, and later extensions.
    #[serde(other)]
    Other,
}

/// What is added to a step.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Piece {
    Text {
        text: String,
    },
    ThoughtSummary {
        content: Option<Content>,
    },
    ThoughtSignature {
        signature: Option<String>,
    },
    ArgumentsDelta {
        arguments: Option<String>,
        signature: Option<String>,
    },
    /// Citations, media and later extensions.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    Text {
        text: String,
    },
    #[serde(other)]
    Other,
}

/// A step of the conversation that is sent.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Sent<'a> {
    UserInput {
        content: Vec<Part<'a>>,
    },
    ModelOutput {
        content: Vec<Part<'a>>,
    },
    Thought {
        signature: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        summary: Vec<Part<'a>>,
    },
    FunctionCall {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Value,
    },
    FunctionResult {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        result: Outcome<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A step with what the server gave with it.
    #[serde(untagged)]
    Given(Value),
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum Outcome<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part<'a> {
    Text { text: Cow<'a, str> },
    Image { mime_type: &'a str, data: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub struct Tool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub parameters: &'a Value,
}

impl Sent<'_> {
    /// A thought in the place of one that this server has signed.
    pub const UNSIGNED: Self = Self::Thought {
        signature: NOT_SIGNED,
        summary: Vec::new(),
    };

    /// Whether it is a call of a tool.
    pub fn is_call(&self) -> bool {
        match self {
            Self::FunctionCall { .. } => true,
            Self::Given(step) => step["type"] == "function_call",
            _ => false,
        }
    }

    /// Whether it has the server's signature.
    pub fn is_signed(&self) -> bool {
        match self {
            Self::Thought { .. } => true,
            Self::Given(step) => step["signature"].is_string(),
            _ => false,
        }
    }

    /// Returns the step with what the server gave with it.
    pub fn with(self, fields: Fields) -> Self {
        match serde_json::to_value(&self) {
            Ok(Value::Object(mut step)) if !fields.is_empty() => {
                step.extend(fields);
                Self::Given(Value::Object(step))
            }
            _ => self,
        }
    }
}
