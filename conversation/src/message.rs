//! Messages and their content blocks. The format is that of the Messages API; other vendors' formats are converted by
//! their providers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Cost, JsonText, MessageId, Opaque, Time, ToolUseId, Update, Usage};

/// Role of a message's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or the engine on their behalf: prompts, tool results, steering, summaries.
    User,
    /// The model.
    Assistant,
}

/// One entry of the conversation tree. Immutable once stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Id in the tree.
    pub id: MessageId,
    /// Preceding message, `None` for a root.
    pub parent: Option<MessageId>,
    /// Depth: 0 for a root, otherwise the parent's plus one, so forks share numbers (`@N`).
    pub seq: u32,
    /// Role of the author.
    pub role: Role,
    /// Reason why it is in the conversation.
    pub origin: Origin,
    /// Time of creation.
    pub created_at: Time,
    /// Content blocks. Empty if the store omitted the content of a message before the view (see
    /// [`Transcript`](crate::Transcript)).
    pub content: Vec<ContentBlock>,
    /// Metadata of the model call, on answers and on summaries that the model wrote.
    pub response: Option<Response>,
}

/// Reason why a message is in the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person's prompt, which begins a run.
    Prompt,
    /// The model's answer.
    Model,
    /// Results of the tool calls in the preceding message.
    Results,
    /// A person's message during the run, marked `[STEERING]`.
    Steering,
    /// A prompt queued until the end of the answer.
    FollowUp,
    /// Warning by the engine that the model repeats itself, marked `[LOOP DETECTED]`.
    Nudge,
    /// Request by the engine to continue an answer cut by the output limit.
    Continuation,
    /// Reminder by the engine of something missing at the end of a run (a file, a structured answer, a hook's
    /// demand).
    Reminder,
    /// Result of a background task, marked `[TASK]`.
    Task,
    /// Notice by the engine of what has changed since the branch began, marked `[UPDATE]`.
    Update(Box<Update>),
    /// Summary that replaces all earlier messages in the model's view, marked `[COMPACTION SUMMARY]`.
    Summary {
        /// First message that the view keeps beside the summary, `None` if it keeps none.
        kept_from: Option<MessageId>,
        /// Length in bytes to which the view shortens each text of those messages; `None` if it has them whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortened_to: Option<usize>,
    },
}

impl Origin {
    /// Returns the origin of a summary that keeps the messages from `kept_from` on as they are.
    pub fn summary(kept_from: Option<MessageId>) -> Self {
        Self::Summary {
            kept_from,
            shortened_to: None,
        }
    }
}

/// Metadata of a model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Reason why the answer ended.
    pub stop_reason: StopReason,
    /// Tokens used.
    pub usage: Usage,
    /// Cost as reported by the server, or by the model's price at the time; `None` if neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Model that was requested.
    pub model: String,
    /// Provider that was requested.
    pub provider: String,
    /// Milliseconds from the request to the end, retries included.
    pub latency_ms: u64,
    /// The server's id of the request; `None` if it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What the server gave with the answer for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<Opaque>>,
}

/// Reason why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StopReason {
    /// The turn is complete.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// The model wrote one of the request's stop sequences.
    StopSequence,
    /// The server paused a long turn; another request continues it.
    PauseTurn,
    /// The model refused.
    Refusal,
    /// The context window is full.
    ContextWindowExceeded,
    /// The answer was interrupted locally; the message holds the part that had arrived.
    Interrupted,
    /// The answer was ended locally, since the model repeated itself; the message ends with what it repeated.
    Repetition,
    /// A value that this version does not know, kept verbatim.
    Other(String),
}

impl StopReason {
    /// Returns the word used on the wire, in the database and in events.
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
            Self::Repetition => "repetition",
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
            "repetition" => Self::Repetition,
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

/// A block of a message's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning. Sent back only to the model that signed it, and only with its signature.
    Thinking {
        /// The reasoning, as far as the vendor discloses it.
        thinking: String,
        /// The vendor's signature; `None` if an interrupt cut it off.
        signature: Option<String>,
    },
    /// Reasoning that the vendor discloses only in encrypted form.
    RedactedThinking {
        /// The encrypted reasoning.
        data: String,
    },
    /// An image from the user.
    Image(Image),
    /// A tool call by the model.
    ToolUse(ToolUse),
    /// Result of a tool call.
    ToolResult(ToolResult),
    /// A block that this version does not know, verbatim, including its own `type`.
    Other {
        /// The whole block.
        raw: Value,
    },
}

impl ContentBlock {
    /// Returns a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns the text of a text block, also of one kept verbatim because of additional fields.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Other { raw } if raw.get("type")?.as_str()? == "text" => {
                raw.get("text")?.as_str()
            }
            _ => None,
        }
    }

    /// Returns the text of a summary that a server wrote ([`Request::summary`](crate::Request::summary)).
    pub fn server_summary(&self) -> Option<&str> {
        match self {
            Self::Other { raw } if raw.get("type")?.as_str()? == "compaction" => {
                raw.get("content")?.as_str()
            }
            _ => None,
        }
    }
}

/// Returns the concatenated text blocks of `content`.
pub fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect()
}

/// Returns what a person has typed, or a model has said: the concatenated text blocks without notes, or the command that they
/// stand for.
pub fn said_in(content: &[ContentBlock]) -> String {
    let texts = || content.iter().filter_map(ContentBlock::as_text);
    match texts().find_map(command_in) {
        Some(typed) => typed.to_owned(),
        None => texts().filter(|text| !is_note(text)).collect(),
    }
}

/// Begins a block of a prompt that tells the model what happened beside the conversation.
pub const NOTE: &str = "[ah]";
/// Begins a block with what hooks say to the model.
pub const HOOK_NOTE: &str = "[HOOK]";

/// Returns whether a block of text is a note to the model, which nobody has typed.
pub fn is_note(text: &str) -> bool {
    [NOTE, HOOK_NOTE].iter().any(|mark| text.starts_with(mark))
}

/// Begins the note before the text of a command.
const CALLED: &str = "[ah] The user has called this command, whose text follows: ";

/// Returns the note that a text stands for a command, as that was typed.
pub fn called(typed: &str) -> String {
    format!("{CALLED}{typed}")
}

/// Returns the command that a note is about, as it was typed: people are shown it in the place of its text.
pub fn command_in(note: &str) -> Option<&str> {
    note.strip_prefix(CALLED)
}

/// An image in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// MIME type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// File content in base64.
    pub data: String,
}

/// Sound in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audio {
    /// MIME type: `audio/wav` or `audio/mpeg`.
    pub media_type: String,
    /// File content in base64.
    pub data: String,
}

impl Audio {
    /// Maximum size that is kept for models, in bytes of base64.
    pub const LIMIT: usize = 10 * 1024 * 1024;

    /// Returns the MIME type of a file that begins so, if models take it.
    pub fn sniff(content: &[u8]) -> Option<&'static str> {
        let is_wave = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WAVE");
        // Without a tag, the file begins with the header of a frame of layer III.
        let is_mp3 = matches!(content, [b'I', b'D', b'3', version, ..] if *version < 8)
            || matches!(content, [0xff, second, ..] if second & 0xe6 == 0xe2);
        is_wave
            .then_some("audio/wav")
            .or_else(|| is_mp3.then_some("audio/mpeg"))
    }

    /// Returns the blocks of a result for a sound of so many `bytes`: models that do not hear see the first one only.
    pub fn shown(self, bytes: usize) -> [ResultBlock; 2] {
        let text = format!("[{}, {bytes} bytes]", self.media_type);
        [ResultBlock::Text { text }, ResultBlock::Audio(self)]
    }
}

/// A tool call requested by the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Id that pairs the call with its result.
    pub id: ToolUseId,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the tool.
    pub input: Input,
}

/// Arguments of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Input {
    /// A JSON object with its key order.
    Object(serde_json::Map<String, Value>),
    /// Any other value that the model sent (another JSON value, or text that is not JSON); answered with an error
    /// result.
    Malformed(Value),
}

impl Input {
    /// Returns the argument `name`, if the input is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Object(map) => map.get(name),
            Self::Malformed(_) => None,
        }
    }

    /// Returns the argument `name`, if it is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Returns the input as one JSON value.
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

/// Result of a tool call as the model sees it. The store has the whole output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id of the call that it answers.
    pub tool_use_id: ToolUseId,
    /// Name of the tool; the wire does not carry it, but a resumed session needs it.
    pub tool_name: String,
    /// Output after truncation.
    pub content: Vec<ResultBlock>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Structured data about the output: path, line count, exit code, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<JsonText>,
    /// Number of lines of the text with all of the output, if `content` has only a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

impl ToolResult {
    /// Returns an error result for a call that did not run.
    pub fn error(call: &ToolUse, text: impl Into<String>) -> Self {
        Self {
            tool_use_id: call.id.clone(),
            tool_name: call.name.clone(),
            content: vec![ResultBlock::Text { text: text.into() }],
            is_error: true,
            duration_ms: 0,
            details: None,
            lines: None,
        }
    }

    /// Returns the text blocks of the result, joined by newlines.
    pub fn text(&self) -> String {
        ResultBlock::text_of(&self.content)
    }
}

/// A block of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Image),
    /// Sound, for models that hear. A text before it says what it is.
    Audio(Audio),
}

impl ResultBlock {
    /// Returns the text blocks of `blocks`, joined by newlines.
    pub fn text_of(blocks: &[Self]) -> String {
        let texts = blocks.iter().filter_map(|block| match block {
            Self::Text { text } => Some(text.as_str()),
            Self::Image(_) | Self::Audio(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Message {
    /// Returns a message behind `last`, or a root; it has no metadata of a model call.
    pub fn behind(
        last: Option<&Self>,
        (id, created_at): (MessageId, Time),
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Self {
        Self {
            id,
            parent: last.map(|last| last.id.clone()),
            seq: last.map_or(0, |last| last.seq + 1),
            role,
            origin,
            created_at,
            content,
            response: None,
        }
    }

    /// Returns the words of each field of `update`, which the message tells, in their order; `None` for an empty field.
    pub fn words_of(&self, update: &Update) -> [Option<&str>; 4] {
        let mut texts = self.content.iter().filter_map(ContentBlock::as_text);
        let is_said = [
            !update.facts.is_empty(),
            update.mode.is_some(),
            !update.tools.is_empty(),
            update.thinking.is_some(),
        ];
        is_said.map(|is_said| is_said.then(|| texts.next()).flatten())
    }

    /// Returns the tool calls of the message, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool results of the message, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// Returns the concatenated text blocks of the message.
    pub fn text(&self) -> String {
        text_of(&self.content)
    }

    /// Returns what a person has typed, or a model has said.
    pub fn said(&self) -> String {
        said_in(&self.content)
    }

    /// Returns why the model stopped, for an assistant message.
    pub fn stop_reason(&self) -> Option<&StopReason> {
        self.response.as_ref().map(|response| &response.stop_reason)
    }

    /// Returns the tokens of the model call, zero for a user message.
    pub fn usage(&self) -> Usage {
        self.response
            .as_ref()
            .map(|response| response.usage)
            .unwrap_or_default()
    }

    /// Whether `model` of `provider` wrote the message, so that its thinking may be sent back.
    pub fn was_written_by(&self, provider: &str, model: &str) -> bool {
        self.response
            .as_ref()
            .is_some_and(|response| response.provider == provider && response.model == model)
    }

    /// Returns what the server of `model` gave with the message for itself, if it wrote the message: this model or another of
    /// the same maker, since behind a gateway each maker has a server of its own. Thinking among it is of use to the model
    /// that [wrote](Self::was_written_by) it only.
    pub fn opaque_of(&self, provider: &str, model: &str) -> Option<&Opaque> {
        let response = self.response.as_ref()?;
        let opaque = response.opaque.as_deref()?;
        let is_of_server = response.provider == provider && maker(&response.model) == maker(model);
        is_of_server.then_some(opaque)
    }

    /// Removes the blocks that are not to be kept, with what a server gave with them.
    pub fn retain_blocks(&mut self, mut keeps: impl FnMut(&ContentBlock) -> bool) {
        let mut places = Vec::new();
        let mut next = 0;
        self.content.retain(|block| {
            let is_kept = keeps(block);
            places.push(is_kept.then_some(next));
            next += usize::from(is_kept);
            is_kept
        });
        let opaque = self.response.as_mut().and_then(|of| of.opaque.as_mut());
        if let Some(opaque) = opaque {
            opaque.blocks.retain_mut(|(place, _)| {
                let moved = places.get(*place).copied().flatten();
                moved.inspect(|moved| *place = *moved).is_some()
            });
        }
    }
}

/// Returns the word that stands for the maker in a model's name: `gpt` in `gpt-6.2-sol`, `google` in `google/gemini-3.8-flash`.
fn maker(model: &str) -> &str {
    let end = model.find(|c: char| !c.is_alphanumeric());
    &model[..end.unwrap_or(model.len())]
}
