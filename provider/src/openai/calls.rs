//! Puts the tool calls of an answer together from their pieces.
//!
//! A piece has the index of its call, but servers count from 0, from 1, with gaps, always 0, or send no index. Some repeat
//! the name, some leave it empty, some send no id or the same ids in every answer.

use std::collections::VecDeque;

use ah_conversation::{Delta, Fields, ProviderError, StreamEvent, json};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::wire;
use crate::blocks::Blocks;
use crate::call_name::unmarked;
use crate::failure::protocol;
use crate::opaque::merge;

/// Length below which an id is taken for a counter that restarts with each answer. Ids have to be unique in the
/// conversation.
const SHORTEST_ID: usize = 8;
/// Prefix of the ids of calls that the server runs itself. They are reported and not to be run.
const SERVER_CALL: &str = "srvtoolu_";

/// The tool calls of one answer.
#[derive(Debug, Default)]
pub struct Calls {
    calls: Vec<PartialCall>,
}

#[derive(Debug, Default)]
struct PartialCall {
    position: Option<i64>,
    id: String,
    name: String,
    arguments: String,
    /// What the server gives with it.
    opaque: Fields,
    /// Index of its block, once that has started.
    block: Option<usize>,
}

impl Calls {
    /// Accepts a piece of a call. `stamp` identifies the answer.
    pub fn read(
        &mut self,
        piece: wire::ToolCallDelta,
        stamp: &str,
        blocks: &mut Blocks,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let index = self.find(&piece).unwrap_or_else(|| {
            self.calls.push(PartialCall {
                position: piece.index,
                ..PartialCall::default()
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[index];
        let more = call.take(piece);
        if call.is_of_server() {
            blocks.close(events);
        } else if let Some(index) = call.block {
            grow(index, more, events);
        } else if call.can_start() {
            self.start(index, stamp, blocks, events);
        }
    }

    /// Ends all calls. A call without a name is an error.
    pub fn finish(
        &mut self,
        stamp: &str,
        blocks: &mut Blocks,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        for index in 0..self.calls.len() {
            let call = &self.calls[index];
            if call.is_of_server() || call.is_nothing() {
                continue;
            }
            if call.name.is_empty() {
                return Err(protocol("a tool call without a name"));
            }
            if call.block.is_none() {
                self.start(index, stamp, blocks, events);
            }
        }
        for call in &mut self.calls {
            if let Some(index) = call.block {
                let fields = std::mem::take(&mut call.opaque);
                blocks.opaque(Some(index), fields, events);
                events.push_back(StreamEvent::BlockStopped { index });
            }
        }
        Ok(())
    }

    /// Returns whether there are calls to be run here, and all of them are there: each has arguments, which are whole.
    pub fn are_there(&self) -> bool {
        self.has_ours()
            && self
                .ours()
                .all(|call| !call.name.is_empty() && is_object(&call.arguments))
    }

    /// Returns whether there is no call, including those of the server.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether there is a call to be run here.
    pub fn has_ours(&self) -> bool {
        self.ours().next().is_some()
    }

    /// Returns whether the arguments of all calls to be run here are complete.
    pub fn are_whole(&self) -> bool {
        self.ours()
            .all(|call| call.arguments.trim().is_empty() || is_json(&call.arguments))
    }

    fn ours(&self) -> impl Iterator<Item = &PartialCall> {
        let calls = self.calls.iter();
        calls.filter(|call| !call.is_of_server() && !call.is_nothing())
    }

    /// The index of the call that `piece` belongs to, or `None` if it starts a call.
    fn find(&self, piece: &wire::ToolCallDelta) -> Option<usize> {
        let id = piece.id.as_deref().filter(|id| !id.is_empty());
        let has_name = piece.name.as_ref().is_some_and(|name| !name.is_empty());
        if let Some(position) = piece.index {
            let is_at = |call: &PartialCall| call.position == Some(position);
            let index = self.calls.iter().rposition(is_at)?;
            let call = &self.calls[index];
            let has_other_id = id.is_some_and(|id| !call.id.is_empty() && call.id != id);
            // Servers that give all calls the same index send each call in one piece.
            let is_other = has_name && has_other_id && is_json(&call.arguments);
            return (!is_other).then_some(index);
        }
        match id {
            Some(id) => self.calls.iter().rposition(|call| call.id == id),
            None if has_name => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    fn start(
        &mut self,
        index: usize,
        stamp: &str,
        blocks: &mut Blocks,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let call = &self.calls[index];
        let is_taken = self.calls[..index].iter().any(|other| other.id == call.id);
        let id = unique_id(&call.id, is_taken, index, stamp);
        let block = blocks.tool_use(&id, &call.name, events);
        grow(block, call.arguments.clone(), events);
        self.calls[index].block = Some(block);
    }
}

impl PartialCall {
    /// Adds `piece` and returns the arguments in it.
    fn take(&mut self, piece: wire::ToolCallDelta) -> String {
        let fill = |field: &mut String, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                *field = value;
            }
        };
        fill(&mut self.id, piece.id);
        fill(
            &mut self.name,
            piece.name.map(|name| unmarked(&name).to_owned()),
        );
        merge(&mut self.opaque, piece.opaque);
        let more = match piece.arguments {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(json) => json.to_string(),
        };
        self.arguments.push_str(&more);
        more
    }

    /// Whether its block can start. An id that does not come before the arguments will not come at all.
    fn can_start(&self) -> bool {
        !self.name.is_empty() && (!self.id.is_empty() || !self.arguments.is_empty())
    }

    fn is_of_server(&self) -> bool {
        is_of_server(&self.id)
    }

    /// Whether only its place was sent.
    fn is_nothing(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty()
    }
}

/// Returns the `id` of the call at `index`, or a derived id if it is not unique in the conversation. `stamp` identifies
/// the answer.
pub fn unique_id(id: &str, is_taken: bool, index: usize, stamp: &str) -> String {
    match id {
        "" => format!("call_{index}_{stamp}"),
        id if is_taken || id.len() < SHORTEST_ID => format!("{id}_{index}_{stamp}"),
        id => id.to_owned(),
    }
}

/// Returns whether the call `id` is run by the server itself.
pub fn is_of_server(id: &str) -> bool {
    id.starts_with(SERVER_CALL)
}

fn grow(index: usize, json: String, events: &mut VecDeque<StreamEvent>) {
    if !json.is_empty() {
        let delta = Delta::InputJson(json);
        events.push_back(StreamEvent::Delta { index, delta });
    }
}

fn is_object(text: &str) -> bool {
    json::from_str::<Fields>(text).is_ok()
}

fn is_json(text: &str) -> bool {
    json::from_str::<IgnoredAny>(text).is_ok()
}
