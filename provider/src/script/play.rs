//! Converts a turn to a list of steps, without I/O or delays.
//!
//! The steps are performed by the scripted model, as a stream, or by a test server, over a socket.

use std::time::Duration;

use ah_conversation::{
    BlockStart, Delta, ErrorClass, ProviderError, Request, StopReason, StreamEvent, Usage,
};
use serde_json::{Map, Value};

use super::format::{BlockContent, ScriptedCall, ScriptedText, Turn};
use super::new_messages::{new_messages, user_text};

/// One step of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A delay.
    Wait(Duration),
    /// An event of the answer.
    Event(StreamEvent),
    /// An error, before or within the answer.
    Fail(ProviderError),
    /// The end of the connection.
    Cut,
    /// Silence without an end.
    Hang,
}

/// The part of a request that a turn uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnContext {
    /// Part of the answer's ids that makes them unique in the conversation.
    pub id: String,
    /// 1-based number of the turn, with repetitions: `{{turn}}`.
    pub turn: usize,
    /// User text since the model's last answer: `{{user}}`.
    pub user: String,
    /// Text of the last tool result: `{{result}}`.
    pub result: String,
    /// Whether these placeholders in double braces are replaced.
    pub templates: bool,
}

impl TurnContext {
    /// The context of turn `turn` (1-based), which answers `request`.
    pub fn new(request: &Request, turn: usize, templates: bool) -> Self {
        let new = new_messages(request);
        let result = new.iter().flat_map(|message| message.tool_results()).last();
        Self {
            id: request
                .messages
                .last()
                .map_or_else(|| "0".to_owned(), |message| message.id.to_string()),
            turn,
            user: user_text(request),
            result: result.map(|result| result.text()).unwrap_or_default(),
            templates,
        }
    }

    fn fill(&self, text: &str) -> String {
        if !self.templates || !text.contains("{{") {
            return text.to_owned();
        }
        // One pass, so that nothing is replaced within inserted text.
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let marks = [
                ("{{user}}", self.user.clone()),
                ("{{result}}", self.result.clone()),
                ("{{turn}}", self.turn.to_string()),
            ];
            match marks.into_iter().find(|(mark, _)| rest.starts_with(mark)) {
                Some((mark, value)) => {
                    filled.push_str(&value);
                    rest = &rest[mark.len()..];
                }
                None => {
                    filled.push_str("{{");
                    rest = &rest[2..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(values) => {
                Value::Array(values.iter().map(|value| self.fill_value(value)).collect())
            }
            Value::Object(map) => Value::Object(self.fill_map(map)),
            other => other.clone(),
        }
    }

    fn fill_map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        map.iter()
            .map(|(key, value)| (key.clone(), self.fill_value(value)))
            .collect()
    }
}

impl Turn {
    /// Returns the steps of the turn. `chunk_delay_ms` holds if the turn has no delay of its own.
    pub fn steps(&self, context: &TurnContext, chunk_delay_ms: Option<u64>) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(delay) = self.delay_ms {
            steps.push(Step::Wait(Duration::from_millis(delay)));
        }
        if let Some(failure) = &self.error {
            steps.push(Step::Fail(failure.to_error()));
            return steps;
        }
        let usage = self.usage.unwrap_or_default();
        steps.push(Step::Event(StreamEvent::Started {
            id: format!("msg_{}", context.id),
            usage: Usage {
                output_tokens: 0,
                ..usage
            },
        }));
        let pace = Pace {
            delay: self
                .chunk_delay_ms
                .or(chunk_delay_ms)
                .filter(|delay| *delay > 0)
                .map(Duration::from_millis),
            pieces: self.pieces,
        };
        let parts = self.parts();
        for (index, part) in parts.iter().enumerate() {
            block(&mut steps, index, *part, context, &pace);
            if self.answers() || index + 1 < parts.len() {
                steps.push(Step::Event(StreamEvent::BlockStopped { index }));
            }
        }
        self.end(&mut steps, usage);
        steps
    }

    /// Returns the default stop reason.
    pub fn implied_stop_reason(&self) -> StopReason {
        let mut parts = self.parts().into_iter();
        if parts.any(|part| matches!(part, BlockContent::Tool(_))) {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        }
    }

    fn end(&self, steps: &mut Vec<Step>, usage: Usage) {
        if let Some(failure) = &self.stream_error {
            steps.push(Step::Fail(failure.to_error()));
        } else if self.cut {
            steps.push(Step::Cut);
        } else if self.hang {
            steps.push(Step::Hang);
        } else {
            let stop_reason = match &self.stop_reason {
                Some(word) => word.as_str().into(),
                None => self.implied_stop_reason(),
            };
            steps.push(Step::Event(StreamEvent::Stopping { stop_reason, usage }));
            steps.push(Step::Event(StreamEvent::Ended));
        }
    }
}

/// Size of the pieces of an answer and the delay between them.
struct Pace {
    delay: Option<Duration>,
    pieces: Option<usize>,
}

impl Pace {
    fn cut(&self, text: &str) -> Vec<String> {
        match (self.pieces, self.delay) {
            (Some(count), _) => in_pieces(text, count),
            (None, Some(_)) => text.split_inclusive(' ').map(str::to_owned).collect(),
            (None, None) => in_pieces(text, 1),
        }
    }

    fn cut_words(&self, words: &ScriptedText, context: &TurnContext) -> Vec<String> {
        match words {
            ScriptedText::Whole(text) => self.cut(&context.fill(text)),
            ScriptedText::Pieces(pieces) => {
                pieces.iter().map(|piece| context.fill(piece)).collect()
            }
        }
    }
}

/// `text` in at most `count` pieces of about equal length, none of them empty.
fn in_pieces(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(count.max(1)).max(1);
    characters
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// Adds the steps of one block, without its end.
fn block(
    steps: &mut Vec<Step>,
    index: usize,
    part: BlockContent<'_>,
    context: &TurnContext,
    pace: &Pace,
) {
    let (start, deltas): (_, Vec<Delta>) = match part {
        BlockContent::Text(words) => {
            let pieces = pace.cut_words(words, context);
            (
                BlockStart::Text(String::new()),
                pieces.into_iter().map(Delta::Text).collect(),
            )
        }
        BlockContent::Thinking(words, signature) => {
            let pieces = pace
                .cut_words(words, context)
                .into_iter()
                .map(Delta::Thinking);
            let signature = Some(signature)
                .filter(|signature| !signature.is_empty())
                .map(|signature| Delta::Signature(signature.to_owned()));
            (
                BlockStart::Thinking(String::new()),
                pieces.chain(signature).collect(),
            )
        }
        BlockContent::RedactedThinking(data) => {
            (BlockStart::RedactedThinking(data.to_owned()), Vec::new())
        }
        BlockContent::Tool(call) => {
            let id = call
                .id
                .clone()
                .unwrap_or_else(|| format!("toolu_{}_{index}", context.id));
            let start = BlockStart::ToolUse {
                id: id.into(),
                name: call.name.clone(),
                input: Value::Object(Map::new()),
            };
            let pieces = pace.cut(&arguments(call, context));
            (start, pieces.into_iter().map(Delta::InputJson).collect())
        }
        BlockContent::Other(raw) => (BlockStart::Other(raw.clone()), Vec::new()),
    };
    steps.push(Step::Event(StreamEvent::BlockStarted {
        index,
        block: start,
    }));
    for delta in deltas {
        steps.extend(pace.delay.map(Step::Wait));
        steps.push(Step::Event(StreamEvent::Delta { index, delta }));
    }
}

fn arguments(call: &ScriptedCall, context: &TurnContext) -> String {
    if context.templates && call.input_json.is_none() {
        Value::Object(context.fill_map(&call.input)).to_string()
    } else {
        call.json()
    }
}

/// Returns the error of an answer whose connection ends.
pub fn cut_off() -> ProviderError {
    ProviderError::new(
        ErrorClass::Network,
        "the connection ended before the answer was whole (scripted)",
    )
}
