//! The content blocks of an answer whose vendor streams pieces of text, reasoning and tool calls without block
//! boundaries. Each block gets an index, a start event and a stop event, as in the Messages API.

use std::collections::VecDeque;

use ah_conversation::{BlockStart, Delta, Fields, StreamEvent};
use serde_json::{Map, Value};

/// The blocks of one answer. At most one block of text or reasoning is open at a time; tool calls stay open beside each
/// other, since vendors interleave the pieces of several.
#[derive(Debug, Default)]
pub struct Blocks {
    count: usize,
    open: Option<(usize, Kind)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// Reasoning with its signature; later reasoning starts a new block.
    Signed,
}

impl Blocks {
    /// Returns whether there is no block yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends text.
    pub fn text(&mut self, text: String, events: &mut VecDeque<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let index = match self.open {
            Some((index, Kind::Text)) => index,
            _ => self.start(Kind::Text, BlockStart::Text(String::new()), events),
        };
        let delta = Delta::Text(text);
        events.push_back(StreamEvent::Delta { index, delta });
    }

    /// Appends reasoning.
    pub fn thinking(&mut self, text: String, events: &mut VecDeque<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let index = match self.open {
            Some((index, Kind::Thinking)) => index,
            _ => self.start_thinking(Kind::Thinking, events),
        };
        let delta = Delta::Thinking(text);
        events.push_back(StreamEvent::Delta { index, delta });
    }

    /// Appends a piece of the signature of the open reasoning block; without one, starts a block without text.
    pub fn signature(&mut self, signature: String, events: &mut VecDeque<StreamEvent>) {
        if signature.is_empty() {
            return;
        }
        let index = match self.open {
            Some((index, Kind::Thinking | Kind::Signed)) => index,
            _ => self.start_thinking(Kind::Signed, events),
        };
        self.open = Some((index, Kind::Signed));
        let delta = Delta::Signature(signature);
        events.push_back(StreamEvent::Delta { index, delta });
    }

    /// Adds a block of encrypted reasoning.
    pub fn redacted(&mut self, data: String, events: &mut VecDeque<StreamEvent>) {
        let index = self.next(BlockStart::RedactedThinking(data), events);
        events.push_back(StreamEvent::BlockStopped { index });
    }

    /// Adds a block that only its server understands.
    pub fn other(&mut self, raw: Value, events: &mut VecDeque<StreamEvent>) {
        let index = self.next(BlockStart::Other(raw), events);
        events.push_back(StreamEvent::BlockStopped { index });
    }

    /// Starts a tool call and returns its index; the arguments follow as [`Delta::InputJson`].
    pub fn tool_use(&mut self, id: &str, name: &str, events: &mut VecDeque<StreamEvent>) -> usize {
        let block = BlockStart::ToolUse {
            id: id.into(),
            name: name.to_owned(),
            input: Value::Object(Map::new()),
        };
        self.next(block, events)
    }

    /// Adds what the server gives with a block, or with the message.
    pub fn opaque(
        &mut self,
        index: Option<usize>,
        fields: Fields,
        events: &mut VecDeque<StreamEvent>,
    ) {
        if !fields.is_empty() {
            events.push_back(StreamEvent::Opaque { index, fields });
        }
    }

    /// Returns the index of the open block of text or reasoning.
    pub fn open(&self) -> Option<usize> {
        self.open.map(|(index, _)| index)
    }

    /// Ends the open block of text or reasoning.
    pub fn close(&mut self, events: &mut VecDeque<StreamEvent>) {
        if let Some((index, _)) = self.open.take() {
            events.push_back(StreamEvent::BlockStopped { index });
        }
    }

    fn start_thinking(&mut self, kind: Kind, events: &mut VecDeque<StreamEvent>) -> usize {
        self.start(kind, BlockStart::Thinking(String::new()), events)
    }

    fn start(
        &mut self,
        kind: Kind,
        block: BlockStart,
        events: &mut VecDeque<StreamEvent>,
    ) -> usize {
        let index = self.next(block, events);
        self.open = Some((index, kind));
        index
    }

    fn next(&mut self, block: BlockStart, events: &mut VecDeque<StreamEvent>) -> usize {
        self.close(events);
        let index = self.count;
        self.count += 1;
        events.push_back(StreamEvent::BlockStarted { index, block });
        index
    }
}
