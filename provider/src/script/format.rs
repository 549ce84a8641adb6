//! The file format of scenarios, as plain data.
//!
//! The fields are those of the file, so a test in Rust reads like a file. Playing a turn is left to `play.rs`, checks
//! beyond the types to `check.rs`.

use ah_conversation::{CheckRun, Price, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::expect::Expect;
use super::failure::Failure;
use super::recorded::RecordedRequest;

/// Default signature of reasoning.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// A scenario: the model and its turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Name of the model; the file's stem by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Context window in tokens; 200,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Output limit in tokens; 32,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Price of its tokens; unknown by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PricePerMillion>,
    /// Whether a first request that holds answers of this scenario continues after them; `true` by default.
    #[serde(skip_serializing_if = "is_true")]
    pub resume: bool,
    /// Whether requests have to equal the recorded ones.
    #[serde(skip_serializing_if = "is_false")]
    pub strict: bool,
    /// Delay before each piece of an answer in milliseconds, for turns without a delay of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_delay_ms: Option<u64>,
    /// Runs of the check when it was recorded, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<RecordedCheck>,
    /// Answers of the model, in order.
    pub turns: Vec<Turn>,
}

/// A run of a check (`--until`) that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCheck {
    /// The command line.
    pub command: String,
    /// What came of it.
    pub run: CheckRun,
}

/// The answer to one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// Request that this turn answered when it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RecordedRequest>,
    /// Expectations about the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Number of times the turn is played in a row; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Delay before the first event, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Delay before each piece of the answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_delay_ms: Option<u64>,
    /// Number of pieces of each block; by default one, or one per word if pieces are delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<usize>,
    /// Failure before any event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Reasoning; it comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ScriptedText>,
    /// Signature of the reasoning; an empty one is left out of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Text; it comes before the tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<ScriptedText>,
    /// Tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ScriptedCall>,
    /// Tool calls, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ScriptedCall>,
    /// Blocks of any kind and order, instead of the five fields above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Block>,
    /// Stop reason; by default `tool_use` after a tool call and `end_turn` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Token counts of the answer; not reported by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Failure after the content; the last block stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_error: Option<Failure>,
    /// Whether the connection ends after the content; the last block stays open.
    #[serde(skip_serializing_if = "is_false")]
    pub cut: bool,
    /// Whether nothing more is sent after the content; the last block stays open.
    #[serde(skip_serializing_if = "is_false")]
    pub hang: bool,
    /// Transmission over a socket; only a server that plays the scenario uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
}

/// One block of an answer. Exactly one field is set, besides `signature`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Block {
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<ScriptedText>,
    /// Reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ScriptedText>,
    /// Signature of the reasoning; an empty one is left out of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Encrypted reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted_thinking: Option<String>,
    /// Tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ScriptedCall>,
    /// Block of an unknown kind, with its own `type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Value>,
}

/// Text in one string, or in the pieces in which it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScriptedText {
    /// One string.
    Whole(String),
    /// Pieces.
    Pieces(Vec<String>),
}

/// Tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedCall {
    /// Name of the tool.
    pub name: String,
    /// Id of the call; derived from the request by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Arguments.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
    /// Arguments as text, instead of `input`: for invalid JSON, or JSON that is not an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_json: Option<String>,
}

/// Transmission of an answer over a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wire {
    /// Number of bytes of the body after which the connection ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_after_bytes: Option<usize>,
    /// Number of events after which the server sends nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang_after_events: Option<usize>,
    /// Interval of pings after that, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_every_ms: Option<u64>,
    /// Limit of bytes per write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_write: Option<usize>,
    /// Additional headers of the response.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub headers: Map<String, Value>,
    /// Body, instead of the one that the turn describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Prices in US dollars per million tokens, as vendors publish them.
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

/// Content of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BlockContent<'a> {
    /// Text.
    Text(&'a ScriptedText),
    /// Reasoning and its signature.
    Thinking(&'a ScriptedText, &'a str),
    /// Encrypted reasoning.
    RedactedThinking(&'a str),
    /// Tool call.
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
            checks: Vec::new(),
            turns: Vec::new(),
        }
    }
}

impl Turn {
    /// Returns the number of times it is played.
    pub fn times(&self) -> u32 {
        self.repeat.unwrap_or(1)
    }

    /// Returns whether it gives a complete answer.
    pub fn answers(&self) -> bool {
        self.error.is_none() && self.stream_error.is_none() && !self.cut && !self.hang
    }

    /// Returns the content of its blocks, in order.
    pub fn parts(&self) -> Vec<BlockContent<'_>> {
        if !self.content.is_empty() {
            return self.content.iter().filter_map(Block::part).collect();
        }
        let thinking = self.thinking.iter().map(|words| {
            BlockContent::Thinking(words, signature_or_default(self.signature.as_deref()))
        });
        let text = self.text.iter().map(BlockContent::Text);
        let calls = self.tool.iter().chain(&self.tools).map(BlockContent::Tool);
        thinking.chain(text).chain(calls).collect()
    }
}

impl Block {
    /// Returns the content, or `None` unless exactly one kind is set.
    pub fn part(&self) -> Option<BlockContent<'_>> {
        let mut parts = [
            self.text.as_ref().map(BlockContent::Text),
            self.thinking.as_ref().map(|words| {
                BlockContent::Thinking(words, signature_or_default(self.signature.as_deref()))
            }),
            self.redacted_thinking
                .as_deref()
                .map(BlockContent::RedactedThinking),
            self.tool.as_ref().map(BlockContent::Tool),
            self.other.as_ref().map(BlockContent::Other),
        ]
        .into_iter()
        .flatten();
        let part = parts.next()?;
        parts.next().is_none().then_some(part)
    }
}

fn signature_or_default(signature: Option<&str>) -> &str {
    signature.unwrap_or(SIGNATURE)
}

impl ScriptedText {
    /// Returns the text in one string.
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
    /// Returns the arguments as JSON text, as they are sent.
    pub fn json(&self) -> String {
        match &self.input_json {
            Some(text) => text.clone(),
            None => Value::Object(self.input.clone()).to_string(),
        }
    }
}

impl PricePerMillion {
    /// Returns the price in pico-dollars per token. A dollar per million tokens is a micro-dollar, 10⁶ pico-dollars, per token.
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
