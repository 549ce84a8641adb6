//! The JSON of the Responses API, as far as it is used.

use std::borrow::Cow;

use ah_conversation::Fields;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lenient::{label, or_default};

/// One event of a streamed response. The fields that are set depend on the type.
#[derive(Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Cow<'a, str>,
    pub response: Option<Response<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    pub output_index: usize,
    #[serde(default, deserialize_with = "or_default")]
    pub summary_index: usize,
    /// A string in all events that are read.
    #[serde(borrow)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub item: Option<&'a RawValue>,
}

/// A response, complete or in progress.
#[derive(Deserialize)]
pub struct Response<'a> {
    #[serde(default, deserialize_with = "label")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "label")]
    pub status: Option<String>,
    #[serde(default, borrow)]
    pub output: Option<Vec<&'a RawValue>>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    pub incomplete_details: Option<IncompleteDetails>,
    /// Reasoning that the request sent and the model has not read.
    #[serde(default, deserialize_with = "or_default")]
    pub input_transformations: Vec<InputTransformation>,
}

#[derive(Deserialize)]
pub struct InputTransformation {
    pub reason: Option<Removal>,
}

/// Why the model has not read reasoning (npm `openai` 7.59.0, 17 November 2026).
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    PrefixMismatch,
    ModelMismatch,
    EndUserMismatch,
    OrganizationMismatch,
    /// Not an error: models before GPT-5.6 never read the reasoning of earlier turns.
    TurnBoundary,
    /// Later extensions.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub struct IncompleteDetails {
    pub reason: Option<String>,
}

/// An item of a response.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    Message {
        content: Option<Vec<Content>>,
    },
    Reasoning {
        summary: Option<Vec<Content>>,
        content: Option<Vec<Content>>,
        encrypted_content: Option<String>,
    },
    FunctionCall {
        call_id: Option<String>,
        name: Option<String>,
        arguments: Option<String>,
    },
    /// Calls of the server's own tools, summaries that it seals, and later extensions.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    OutputText {
        text: String,
    },
    SummaryText {
        text: String,
    },
    ReasoningText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

/// An item of the conversation that is sent.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Input<'a> {
    Message {
        role: &'static str,
        content: InputContent<'a>,
    },
    Answer(Answer<'a>),
    FunctionCall(FunctionCall<'a>),
    FunctionCallOutput(FunctionCallOutput<'a>),
    /// Reasoning, unchanged.
    Reasoning(&'a RawValue),
    /// An item with what the server gave with it, or one that only the server understands.
    Given(Value),
    AdditionalTools(AdditionalTools<'a>),
    ConfigurationUpdate(ConfigurationUpdate),
}

/// Text of the model. llama.cpp's server tells it from other items by its type (b11549, `Cannot determine type of 'item'`).
#[derive(Serialize)]
#[serde(tag = "type", rename = "message")]
pub struct Answer<'a> {
    pub role: &'static str,
    pub content: InputContent<'a>,
}

/// Tools that are there from this item on.
#[derive(Serialize)]
#[serde(tag = "type", rename = "additional_tools")]
pub struct AdditionalTools<'a> {
    pub role: &'static str,
    pub tools: Vec<Tool<'a>>,
}

/// Settings that hold from this item on.
#[derive(Serialize)]
#[serde(tag = "type", rename = "configuration_update")]
pub struct ConfigurationUpdate {
    pub reasoning: Reasoning,
}

#[derive(Serialize)]
pub struct Reasoning {
    /// `None` for the model's default.
    pub effort: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function_call")]
pub struct FunctionCall<'a> {
    pub call_id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    pub arguments: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function_call_output")]
pub struct FunctionCallOutput<'a> {
    pub call_id: Cow<'a, str>,
    pub output: InputContent<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum InputContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String },
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
pub struct Tool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub parameters: &'a Value,
    /// `false`: the schemas of tools are not limited to the subset that strict mode requires.
    pub strict: bool,
}

impl Input<'_> {
    /// Returns the item with what the server gave with it.
    pub fn with(self, fields: Fields) -> Self {
        match serde_json::to_value(&self) {
            Ok(Value::Object(mut item)) if !fields.is_empty() => {
                item.extend(fields);
                Self::Given(Value::Object(item))
            }
            _ => self,
        }
    }
}
