//! A message and what it is made of. The form is the Messages API's; other vendors are converted at the door.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Cost, MessageId, Time, ToolUseId, Usage};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or we in a person's place: prompts, tool results, steering, summaries.
    User,
    /// The model.
    Assistant,
}

/// One entry of the conversation tree. Immutable once stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its name in the tree.
    pub id: MessageId,
    /// The message before it, `None` for a root.
    pub parent: Option<MessageId>,
    /// Its depth: 0 for a root, the parent's plus one otherwise, so forks share numbers (`@N`).
    pub seq: u32,
    /// Who speaks.
    pub role: Role,
    /// Why it is here.
    pub origin: Origin,
    /// When it was made.
    pub created_at: Time,
    /// What is said. Empty where the store left the content of a message before the view out (see
    /// [`Transcript`](crate::Transcript)).
    pub content: Vec<ContentBlock>,
    /// How the model came to say it: on its answers, and on the summaries that it wrote.
    pub response: Option<Response>,
}

/// Why a message is in the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person's prompt: a run begins here.
    Prompt,
    /// The model's answer.
    Model,
    /// The results of the tool calls of the message before.
    Results,
    /// A person's words during the run, marked `[STEERING]`.
    Steering,
    /// A prompt that waited for the end of the answer.
    FollowUp,
    /// Our warning that the model repeats itself, marked `[LOOP DETECTED]`.
    Nudge,
    /// Our request to go on after an answer that was cut by the output limit.
    Continuation,
    /// Our reminder of something still owed at the end of a run (a file, a structured answer, a hook's demand).
    Reminder,
    /// What came of something in the background, marked `[TASK]`.
    Task,
    /// What stands for all before it in the model's view, marked `[COMPACTION SUMMARY]`.
    Summary {
        /// The first message that the view keeps beside the summary; `None`: it keeps none.
        kept_from: Option<MessageId>,
    },
}

/// The circumstances of a model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Why it ended.
    pub stop_reason: StopReason,
    /// What it cost in tokens.
    pub usage: Usage,
    /// What it cost in money, as the server said or by the model's price then; `None` where neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The model that was asked.
    pub model: String,
    /// The provider that was asked.
    pub provider: String,
    /// From the request to the end, retries included.
    pub latency_ms: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StopReason {
    /// It has said what it had to say.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// The output limit cut it.
    MaxTokens,
    /// It wrote one of the request's stop sequences.
    StopSequence,
    /// A long turn was paused by the server: asking again goes on.
    PauseTurn,
    /// It declines.
    Refusal,
    /// The window is full.
    ContextWindowExceeded,
    /// We cut it: the message is what had arrived.
    Interrupted,
    /// Something this version does not know, kept as it came.
    Other(String),
}

impl StopReason {
    /// The word used on the wire, in the database and in events.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::ContextWindowExceeded => "model_context_window_exceeded",
            Self::Interrupted => "interrupted",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for StopReason {
    fn from(word: String) -> Self {
        match word.as_str() {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal,
            "model_context_window_exceeded" => Self::ContextWindowExceeded,
            "interrupted" => Self::Interrupted,
            _ => Self::Other(word),
        }
    }
}

impl From<&str> for StopReason {
    fn from(word: &str) -> Self {
        word.to_owned().into()
    }
}

impl From<StopReason> for String {
    fn from(reason: StopReason) -> Self {
        reason.as_str().to_owned()
    }
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// The model's reasoning. Sent back only to the model that signed it, and only with its signature.
    Thinking {
        /// The reasoning, as far as the vendor shows it.
        thinking: String,
        /// The vendor's seal; `None` where an interrupt cut it off.
        signature: Option<String>,
    },
    /// Reasoning that the vendor shows only in encrypted form.
    RedactedThinking {
        /// The encrypted reasoning.
        data: String,
    },
    /// A picture from the user.
    Image(Image),
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// What the tool answered.
    ToolResult(ToolResult),
    /// A block this version does not know, verbatim, with its own `type` inside.
    Other {
        /// The whole block.
        raw: Value,
    },
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The words of a text block, also of one that is kept verbatim for what else it holds.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Other { raw } if raw.get("type")?.as_str()? == "text" => {
                raw.get("text")?.as_str()
            }
            _ => None,
        }
    }
}

/// The words of `content`, its text blocks joined as they are.
pub fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect()
}

/// A picture, encoded as the wire wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// The file's bytes in base64.
    pub data: String,
}

/// The model's request to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Pairs it with its result.
    pub id: ToolUseId,
    /// The tool's name.
    pub name: String,
    /// The tool's arguments.
    pub input: Input,
}

/// A tool's arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Input {
    /// A JSON object, key order kept.
    Object(serde_json::Map<String, Value>),
    /// Anything else that the model sent in its place (another JSON value, or text that isn't JSON), to be
    /// answered with an error result.
    Malformed(Value),
}

impl Input {
    /// The argument `name`, if the input is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Object(map) => map.get(name),
            Self::Malformed(_) => None,
        }
    }

    /// The argument `name`, if it is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// The input as one JSON value.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Object(map) => Value::Object(map.clone()),
            Self::Malformed(value) => value.clone(),
        }
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(map) => Self::Object(map),
            other => Self::Malformed(other),
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::Object(serde_json::Map::new())
    }
}

/// What a tool answered, as the model sees it. The whole output is in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_use_id: ToolUseId,
    /// The tool's name; the wire does not carry it, but a resumed session needs it.
    pub tool_name: String,
    /// The output after truncation.
    pub content: Vec<ResultBlock>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// How long it ran.
    pub duration_ms: u64,
    /// What the tool says of its output besides: path, line count, exit code …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl ToolResult {
    /// An error result of a call that did not run.
    pub fn error(call: &ToolUse, text: impl Into<String>) -> Self {
        Self {
            tool_use_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: vec![ResultBlock::Text { text: text.into() }],
            is_error: true,
            duration_ms: 0,
            details: None,
        }
    }

    /// The text of the result, its pieces joined by newlines.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ResultBlock::Text { text } => Some(text.as_str()),
            ResultBlock::Image(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// A piece of a tool's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultBlock {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image(Image),
}

impl Message {
    /// The tool calls that the message asks for, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results that the message carries, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// The words of the message, its text blocks joined as they are.
    pub fn text(&self) -> String {
        text_of(&self.content)
    }

    /// Why the model stopped, on an assistant message.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.response.as_ref().map(|response| &response.stop_reason)
    }

    /// What the model's answer cost in tokens, nothing for a user message.
    pub fn usage(&self) -> Usage {
        self.response
            .as_ref()
            .map(|response| response.usage)
            .unwrap_or_default()
    }

    /// Whether `model` of `provider` wrote it, so that its thinking may go back to it.
    pub fn was_written_by(&self, provider: &str, model: &str) -> bool {
        self.response
            .as_ref()
            .is_some_and(|response| response.provider == provider && response.model == model)
    }
}
