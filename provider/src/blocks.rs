//! The content blocks of an answer whose vendor streams loose pieces of text, reasoning and calls: gives each block its
//! number, a beginning and an end, so that the events look like those of a vendor that does so itself.

use std::collections::VecDeque;

use ah_conversation::{BlockStart, Delta, StreamEvent};
use serde_json::{Map, Value};

/// The blocks of one answer. Text and reasoning grow one at a time; a tool call stays open beside others until it is
/// stopped, since vendors mix the pieces of several.
#[derive(Debug, Default)]
pub struct Blocks {
    count: usize,
    open: Option<(usize, Kind)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// Reasoning that has its seal: what comes after is another block's.
    Sealed,
}

impl Blocks {
    /// Whether nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds words.
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

    /// Adds reasoning.
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

    /// Adds a piece of the seal on the reasoning at hand, or on reasoning that is not shown.
    pub fn seal(&mut self, signature: String, events: &mut VecDeque<StreamEvent>) {
        if signature.is_empty() {
            return;
        }
        let index = match self.open {
            Some((index, Kind::Thinking | Kind::Sealed)) => index,
            _ => self.start_thinking(Kind::Sealed, events),
        };
        self.open = Some((index, Kind::Sealed));
        let delta = Delta::Signature(signature);
        events.push_back(StreamEvent::Delta { index, delta });
    }

    /// Adds encrypted reasoning, whole.
    pub fn redacted(&mut self, data: String, events: &mut VecDeque<StreamEvent>) {
        let index = self.next(BlockStart::RedactedThinking(data), events);
        events.push_back(StreamEvent::BlockStopped { index });
    }

    /// Starts a tool call and gives its number; its arguments follow as [`Delta::InputJson`].
    pub fn tool_use(&mut self, id: &str, name: &str, events: &mut VecDeque<StreamEvent>) -> usize {
        let block = BlockStart::ToolUse {
            id: id.into(),
            name: name.to_owned(),
            input: Value::Object(Map::new()),
        };
        self.next(block, events)
    }

    /// Ends the text or reasoning at hand.
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
