//! A scenario as it is written: plain data, and the checks that need no request.
//!
//! The fields are those of the file, so that a test in Rust and a file say the same thing. What a turn gives when it
//! is played stands in `play.rs`.

use std::time::{Duration, SystemTime};

use ah_conversation::{ErrorClass, Price, ProviderError, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::failure;

/// Most turns of a scenario, repetitions counted.
const MOST_TURNS: u64 = 1_000_000;
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
    pub request: Option<Recorded>,
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
    pub thinking: Option<Words>,
    /// The seal on the reasoning; an empty one is left out of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Words, before the tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Words>,
    /// A tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Call>,
    /// Several tool calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Call>,
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
    /// Words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Words>,
    /// Reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Words>,
    /// The seal on the reasoning; an empty one is left out of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Encrypted reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted_thinking: Option<String>,
    /// A tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Call>,
    /// A block of a kind that nobody knows yet, with its own `type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Value>,
}

/// Words, whole or in the pieces in which they arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Words {
    /// Whole.
    Whole(String),
    /// In pieces.
    Pieces(Vec<String>),
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
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

/// A failure of the server or of the way to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Failure {
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The vendor's word for it: `overloaded_error` …
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How `ah` treats it; follows from the two before where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Seconds that the server asks to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
}

/// How `ah` treats a failure, in the words of a scenario: `rate_limit`, `network` …
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Class(#[serde(with = "ClassWord")] pub ErrorClass);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ErrorClass", rename_all = "snake_case")]
enum ClassWord {
    Authentication,
    Billing,
    RateLimit,
    InvalidRequest,
    ModelNotFound,
    ContextTooLong,
    Overloaded,
    Server,
    Network,
    Protocol,
    Stalled,
    Script,
    Unknown,
}

/// What must hold for a request. What is left out may be anything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// How many messages it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
    /// The whole system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Match>,
    /// The words of the last user message, tool results aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Match>,
    /// Tools that it offers, among others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The tool results of the last message, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ExpectResult>,
}

/// What must hold for a tool result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectResult {
    /// The call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Match>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// What must hold for a text: plain words must stand in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Match {
    /// It contains this.
    Contains(String),
    /// It is compared in another way.
    Exactly(Exactly),
}

/// A stricter comparison of a text. Each field that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Exactly {
    /// It is just this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// It does not contain this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

/// What was new in a recorded request, in readable form, with what changes from run to run replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recorded {
    /// The system prompt, where it is another than in the request before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The names of the tools, where they are others than in the request before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// The messages after the model's last answer, with the number of messages in all.
    pub messages: String,
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

/// A block of an answer, after the check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part<'a> {
    /// Words.
    Text(&'a Words),
    /// Reasoning and its seal.
    Thinking(&'a Words, &'a str),
    /// Encrypted reasoning.
    RedactedThinking(&'a str),
    /// A tool call.
    Tool(&'a Call),
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

impl Scenario {
    /// Reads a scenario, YAML or JSON, and checks it. The error says what is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let scenario: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Finds what the types cannot: turns that say two things at once, or nothing.
    pub fn check(&self) -> Result<(), String> {
        if self.turns.is_empty() {
            return Err("a scenario needs at least one turn".to_owned());
        }
        for (at, turn) in self.turns.iter().enumerate() {
            turn.check()
                .map_err(|fault| format!("turn {}: {fault}", at + 1))?;
        }
        let played: u64 = self.turns.iter().map(|turn| u64::from(turn.times())).sum();
        if played > MOST_TURNS {
            return Err(format!(
                "{played} turns with their repetitions; at most {MOST_TURNS} can be played"
            ));
        }
        Ok(())
    }

    /// The turns in the order in which they are played, by their place in the list.
    pub fn order(&self) -> Vec<usize> {
        let turns = self.turns.iter().enumerate();
        turns
            .flat_map(|(at, turn)| std::iter::repeat_n(at, turn.times() as usize))
            .collect()
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
    pub fn parts(&self) -> Vec<Part<'_>> {
        if !self.content.is_empty() {
            return self.content.iter().filter_map(Block::part).collect();
        }
        let thinking = self
            .thinking
            .iter()
            .map(|words| Part::Thinking(words, seal(self.signature.as_deref())));
        let text = self.text.iter().map(Part::Text);
        let calls = self.tool.iter().chain(&self.tools).map(Part::Tool);
        thinking.chain(text).chain(calls).collect()
    }

    fn check(&self) -> Result<(), String> {
        let spoken = self.thinking.is_some()
            || self.text.is_some()
            || self.tool.is_some()
            || !self.tools.is_empty();
        if spoken && !self.content.is_empty() {
            return Err(
                "`content` stands for thinking, text and tools: use one or the other".to_owned(),
            );
        }
        if self.repeat == Some(0) {
            return Err("`repeat: 0` would never be played".to_owned());
        }
        let says = spoken || !self.content.is_empty();
        let ends = [
            self.error.is_some(),
            self.stream_error.is_some(),
            self.cut,
            self.hang,
        ];
        match ends.into_iter().filter(|is_set| *is_set).count() {
            0 if !says && self.stop_reason.is_none() && self.wire.is_none() => {
                return Err("it says nothing; an empty answer needs a `stop_reason`".to_owned());
            }
            0 | 1 => {}
            _ => {
                return Err(
                    "only one of `error`, `stream_error`, `cut` and `hang` can end it".to_owned(),
                );
            }
        }
        if self.error.is_some() && says {
            return Err(
                "`error` comes before any words; what follows them is a `stream_error`".to_owned(),
            );
        }
        if self.content.iter().any(|block| block.part().is_none()) {
            return Err(
                "a block of `content` is one of `text`, `thinking`, `redacted_thinking`, `tool` and `other`"
                    .to_owned(),
            );
        }
        self.parts().into_iter().try_for_each(check_call)
    }
}

fn check_call(part: Part<'_>) -> Result<(), String> {
    match part {
        Part::Tool(call) if call.name.is_empty() => Err("a tool call needs a `name`".to_owned()),
        Part::Tool(call) if call.input_json.is_some() && !call.input.is_empty() => Err(format!(
            "the call of `{}` has both `input` and `input_json`",
            call.name
        )),
        _ => Ok(()),
    }
}

impl Block {
    /// The one thing that it is, or nothing if it is none or several.
    fn part(&self) -> Option<Part<'_>> {
        let parts = [
            self.text.as_ref().map(Part::Text),
            self.thinking
                .as_ref()
                .map(|words| Part::Thinking(words, seal(self.signature.as_deref()))),
            self.redacted_thinking
                .as_deref()
                .map(Part::RedactedThinking),
            self.tool.as_ref().map(Part::Tool),
            self.other.as_ref().map(Part::Other),
        ];
        let mut parts = parts.into_iter().flatten();
        let part = parts.next()?;
        parts.next().is_none().then_some(part)
    }
}

fn seal(signature: Option<&str>) -> &str {
    signature.unwrap_or(SIGNATURE)
}

impl Words {
    /// The words in one piece.
    pub fn whole(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Pieces(pieces) => pieces.concat(),
        }
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        Self::Whole(text.to_owned())
    }
}

impl Call {
    /// The arguments as they arrive.
    pub fn json(&self) -> String {
        match &self.input_json {
            Some(text) => text.clone(),
            None => Value::Object(self.input.clone()).to_string(),
        }
    }
}

impl Failure {
    /// The error that a provider makes of it.
    pub fn to_error(&self) -> ProviderError {
        let error = match (self.class, self.status, &self.kind) {
            (Some(Class(class)), ..) => ProviderError::new(class, self.words()),
            (None, Some(status), _) => {
                let body = json!({"error": self.words_of_server()}).to_string();
                failure::in_response(status, |_| None, &body, SystemTime::UNIX_EPOCH)
            }
            (None, None, Some(_)) => failure::in_stream(Some(&self.words_of_server())),
            (None, None, None) => ProviderError::new(ErrorClass::Network, self.words()),
        };
        let wait = self
            .retry_after
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        ProviderError {
            status: self.status,
            retry_after: wait.or(error.retry_after),
            ..error
        }
    }

    /// The explanation.
    pub fn words(&self) -> String {
        self.message
            .clone()
            .unwrap_or_else(|| "scripted failure".to_owned())
    }

    /// The failure as the server would write it: the vendor's word and the explanation.
    pub fn words_of_server(&self) -> Value {
        json!({"type": self.kind(), "message": self.words()})
    }

    /// The vendor's word for it.
    fn kind(&self) -> &str {
        match (&self.kind, self.status) {
            (Some(kind), _) => kind,
            (None, Some(401)) => "authentication_error",
            (None, Some(402)) => "billing_error",
            (None, Some(403)) => "permission_error",
            (None, Some(404)) => "not_found_error",
            (None, Some(413)) => "request_too_large",
            (None, Some(429)) => "rate_limit_error",
            (None, Some(400..=499)) => "invalid_request_error",
            (None, Some(529)) => "overloaded_error",
            (None, _) => "api_error",
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
