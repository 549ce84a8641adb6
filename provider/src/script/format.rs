//! A scenario as it is written: plain data.
//!
//! The fields are those of the file, so that a test in Rust and a file say the same thing. What a turn gives when it
//! is played stands in `play.rs`, what a scenario may not say in `check.rs`.

use ah_conversation::{Price, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::expect::Expect;
use super::failure::Failure;
use super::recorded::RecordedRequest;

/// What stands in the place of a vendor's seal where the scenario names none.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// A whole scenario: what the model is, and what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// The model's name; the file's stem where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many tokens the model can hold; 200,000 where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// How many tokens the model may write in one answer; 32,000 where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// What its tokens cost; unknown where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PricePerMillion>,
    /// Whether a first request that carries answers of this scenario goes on after them; on by itself.
    #[serde(skip_serializing_if = "is_true")]
    pub resume: bool,
    /// Whether requests must be those that were recorded.
    #[serde(skip_serializing_if = "is_false")]
    pub strict: bool,
    /// Milliseconds before each piece of an answer, for turns that do not say it themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_delay_ms: Option<u64>,
    /// What the model says, in order.
    pub turns: Vec<Turn>,
}

/// What the model does with one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// The request that this turn answered when it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RecordedRequest>,
    /// What must hold for the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// How many times the turn is played in a row; once where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Milliseconds before the first event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Milliseconds before each piece of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_delay_ms: Option<u64>,
    /// Into how many pieces each block is cut; one, or one for each word where pieces are delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<usize>,
    /// The request fails, before any event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Reasoning, before everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ScriptedText>,
    /// The seal on the reasoning; an empty one is left out of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// ScriptedText, before the tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<ScriptedText>,
    /// A tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ScriptedCall>,
    /// Several tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ScriptedCall>,
    /// Any blocks in any order, in the place of the five fields before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Block>,
    /// Why the model stops; `tool_use` after a tool call and `end_turn` otherwise where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What the answer costs in tokens; none are reported where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The answer breaks off with this error after what it says; its last block stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_error: Option<Failure>,
    /// The connection ends after what the turn says; its last block stays open.
    #[serde(skip_serializing_if = "is_false")]
    pub cut: bool,
    /// The model falls silent for ever after what the turn says; its last block stays open.
    #[serde(skip_serializing_if = "is_false")]
    pub hang: bool,
    /// How the bytes travel. Only a server that plays the scenario over a socket reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
}

/// One block of an answer: exactly one of its fields is set, `signature` aside.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Block {
    /// ScriptedText.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<ScriptedText>,
    /// Reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ScriptedText>,
    /// The seal on the reasoning; an empty one is left out of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Encrypted reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted_thinking: Option<String>,
    /// A tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ScriptedCall>,
    /// A block of a kind that nobody knows yet, with its own `type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Value>,
}

/// ScriptedText, whole or in the pieces in which they arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScriptedText {
    /// Whole.
    Whole(String),
    /// In pieces.
    Pieces(Vec<String>),
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Pairs it with its result; made from the request where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The arguments.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
    /// The arguments as the text that arrives, in place of `input`: for JSON that is broken, or no object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_json: Option<String>,
}

/// How the bytes of an answer travel over a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wire {
    /// The connection ends after so many bytes of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_after_bytes: Option<usize>,
    /// The server falls silent after so many events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_after_events: Option<usize>,
    /// While it is silent, the server sends a ping so often, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_every_ms: Option<u64>,
    /// At most so many bytes are written at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_write: Option<usize>,
    /// Further headers of the response.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
    /// The body, in place of the one that the turn describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// What tokens cost, in US dollars per million, as vendors print it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PricePerMillion {
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written into the five-minute cache.
    pub cache_write: f64,
    /// Input written into the one-hour cache.
    pub cache_write_1h: f64,
}

/// A block of an answer, as the one thing that it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BlockContent<'a> {
    /// ScriptedText.
    Text(&'a ScriptedText),
    /// Reasoning and its seal.
    Thinking(&'a ScriptedText, &'a str),
    /// Encrypted reasoning.
    RedactedThinking(&'a str),
    /// A tool call.
    Tool(&'a ScriptedCall),
    /// A block of another kind.
    Other(&'a Value),
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            model: None,
            context_window: None,
            max_output: None,
            price: None,
            resume: true,
            strict: false,
            chunk_delay_ms: None,
            turns: Vec::new(),
        }
    }
}

impl Turn {
    /// How many times it is played.
    pub fn times(&self) -> u32 {
        self.repeat.unwrap_or(1)
    }

    /// Whether it gives a whole answer.
    pub fn answers(&self) -> bool {
        self.error.is_none() && self.stream_error.is_none() && !self.cut && !self.hang
    }

    /// What it says, in order.
    pub fn parts(&self) -> Vec<BlockContent<'_>> {
        if !self.content.is_empty() {
            return self.content.iter().filter_map(Block::part).collect();
        }
        let thinking = self
            .thinking
            .iter()
            .map(|words| BlockContent::Thinking(words, seal(self.signature.as_deref())));
        let text = self.text.iter().map(BlockContent::Text);
        let calls = self.tool.iter().chain(&self.tools).map(BlockContent::Tool);
        thinking.chain(text).chain(calls).collect()
    }
}

impl Block {
    /// The one thing that it is, or nothing if it is none or several.
    pub fn part(&self) -> Option<BlockContent<'_>> {
        let parts = [
            self.text.as_ref().map(BlockContent::Text),
            self.thinking
                .as_ref()
                .map(|words| BlockContent::Thinking(words, seal(self.signature.as_deref()))),
            self.redacted_thinking
                .as_deref()
                .map(BlockContent::RedactedThinking),
            self.tool.as_ref().map(BlockContent::Tool),
            self.other.as_ref().map(BlockContent::Other),
        ];
        let mut parts = parts.into_iter().flatten();
        let part = parts.next()?;
        parts.next().is_none().then_some(part)
    }
}

fn seal(signature: Option<&str>) -> &str {
    signature.unwrap_or(SIGNATURE)
}

impl ScriptedText {
    /// The words in one piece.
    pub fn whole(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Pieces(pieces) => pieces.concat(),
        }
    }
}

impl From<&str> for ScriptedText {
    fn from(text: &str) -> Self {
        Self::Whole(text.to_owned())
    }
}

impl ScriptedCall {
    /// The arguments as they arrive.
    pub fn json(&self) -> String {
        match &self.input_json {
            Some(text) => text.clone(),
            None => Value::Object(self.input.clone()).to_string(),
        }
    }
}

impl PricePerMillion {
    /// The price as it is reckoned with. A dollar per million tokens is a millionth of a dollar per token.
    pub fn to_price(self) -> Price {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's `as` saturates, and a negative price counts as none"
        )]
        let pico = |dollars: f64| (dollars * 1e6).round() as u64;
        Price {
            input: pico(self.input),
            output: pico(self.output),
            cache_read: pico(self.cache_read),
            cache_write: pico(self.cache_write),
            cache_write_1h: pico(self.cache_write_1h),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}
