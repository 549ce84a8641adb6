//! Puts an answer together from its events and converts it to a turn of a scenario.

use std::collections::BTreeMap;

use ah_conversation::{BlockStart, Delta, StopReason, StreamEvent, Usage, json};
use serde_json::{Map, Value};

use crate::script::format::{Block, ScriptedCall, ScriptedText, Turn};
use crate::script::normalizer::Normalizer;

/// An answer so far.
#[derive(Default)]
pub(super) struct RecordedAnswer {
    blocks: BTreeMap<usize, OpenBlock>,
    stop_reason: Option<StopReason>,
    usage: Usage,
}

/// A block so far.
enum OpenBlock {
    Text(String),
    Thinking(String, String),
    RedactedThinking(String),
    Tool(ScriptedCall, String),
    Other(Value),
}

impl RecordedAnswer {
    /// Adds an event.
    pub(super) fn add(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::BlockStarted { index, block } => {
                self.blocks.insert(*index, OpenBlock::new(block));
            }
            StreamEvent::Delta { index, delta } => {
                if let Some(block) = self.blocks.get_mut(index) {
                    block.grow(delta);
                }
            }
            StreamEvent::Stopping { stop_reason, usage } => {
                self.stop_reason = Some(stop_reason.clone());
                self.usage = *usage;
            }
            StreamEvent::Sent { .. }
            | StreamEvent::LeftOut { .. }
            | StreamEvent::Retry(_)
            | StreamEvent::Fallback(_)
            | StreamEvent::Opaque { .. }
            | StreamEvent::Billed { .. }
            | StreamEvent::Accepted { .. }
            | StreamEvent::CacheMissed(_)
            | StreamEvent::ThinkingDropped(_)
            | StreamEvent::Reading { .. }
            | StreamEvent::Started { .. }
            | StreamEvent::BlockStopped { .. }
            | StreamEvent::Ended => {}
        }
    }

    /// Returns the turn that gives this answer, without secrets.
    pub(super) fn into_turn(self, normalizer: &Normalizer) -> Turn {
        let content: Vec<_> = self
            .blocks
            .into_values()
            .map(|block| block.into_block(normalizer))
            .collect();
        let mut turn = short_form(&content).unwrap_or(Turn {
            content,
            ..Turn::default()
        });
        turn.usage = Some(self.usage).filter(|usage| *usage != Usage::default());
        let implied = turn.implied_stop_reason();
        turn.stop_reason = self
            .stop_reason
            .filter(|reason| *reason != implied || turn.parts().is_empty())
            .map(String::from);
        turn
    }
}

/// `content` in the short form, if it is reasoning, text and tool calls in this order.
fn short_form(content: &[Block]) -> Option<Turn> {
    let mut turn = Turn::default();
    let mut rest = content.iter().peekable();
    if let Some(block) = rest.next_if(|block| block.thinking.is_some()) {
        turn.thinking.clone_from(&block.thinking);
        turn.signature.clone_from(&block.signature);
    }
    if let Some(block) = rest.next_if(|block| block.text.is_some()) {
        turn.text.clone_from(&block.text);
    }
    turn.tools = rest
        .map(|block| block.tool.clone())
        .collect::<Option<_>>()?;
    if turn.tools.len() == 1 {
        turn.tool = turn.tools.pop();
    }
    Some(turn)
}

impl OpenBlock {
    fn new(start: &BlockStart) -> Self {
        match start {
            BlockStart::Text(text) => Self::Text(text.clone()),
            BlockStart::Thinking(thinking) => Self::Thinking(thinking.clone(), String::new()),
            BlockStart::RedactedThinking(data) => Self::RedactedThinking(data.clone()),
            BlockStart::ToolUse { id, name, input } => Self::Tool(
                ScriptedCall {
                    name: name.clone(),
                    id: Some(id.to_string()),
                    input: input.as_object().cloned().unwrap_or_default(),
                    input_json: None,
                },
                String::new(),
            ),
            BlockStart::Other(raw) => Self::Other(raw.clone()),
        }
    }

    fn grow(&mut self, delta: &Delta) {
        match (self, delta) {
            (Self::Text(text), Delta::Text(more))
            | (Self::Thinking(text, _), Delta::Thinking(more)) => {
                text.push_str(more);
            }
            (Self::Thinking(_, signature), Delta::Signature(more)) => signature.push_str(more),
            (Self::Tool(_, json), Delta::InputJson(more)) => json.push_str(more),
            // Scenarios cannot express deltas of unknown kinds.
            _ => {}
        }
    }

    fn into_block(self, normalizer: &Normalizer) -> Block {
        let redact = |text: String| (normalizer.redact)(&text);
        let words = |text: String| Some(ScriptedText::Whole(redact(text)));
        match self {
            Self::Text(text) => Block {
                text: words(text),
                ..Block::default()
            },
            Self::Thinking(thinking, signature) => Block {
                thinking: words(thinking),
                signature: Some(signature),
                ..Block::default()
            },
            Self::RedactedThinking(data) => Block {
                redacted_thinking: Some(data),
                ..Block::default()
            },
            Self::Tool(call, json) => Block {
                tool: Some(whole_call(call, &json, redact)),
                ..Block::default()
            },
            Self::Other(raw) => Block {
                other: Some(json::from_str(&redact(raw.to_string())).unwrap_or(raw)),
                ..Block::default()
            },
        }
    }
}

/// The call with its arguments, as text if they are not a JSON object. If `json` is empty, they came with its start.
fn whole_call(call: ScriptedCall, json: &str, redact: impl Fn(String) -> String) -> ScriptedCall {
    let json = match json {
        "" => redact(call.json()),
        json => redact(json.to_owned()),
    };
    match json::from_str(&json) {
        Ok(Value::Object(input)) => ScriptedCall { input, ..call },
        _ => ScriptedCall {
            input_json: Some(json),
            input: Map::new(),
            ..call
        },
    }
}
