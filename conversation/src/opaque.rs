//! What a server gives with an answer for itself: signatures, sealed reasoning, marks, and whatever else this program does
//! not read. It goes back to that server as it was, and nobody else sees it. So it is kept beside the content, with what
//! else is known of the answer, and not in it, where every reader would have to leave it out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields by their names, in the order in which they came.
pub type Fields = Map<String, Value>;

/// Fields of an answer that only its server understands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opaque {
    /// Fields of the answer as a whole. `null` stands for the text of its thinking, which is not kept twice; a server's own
    /// `null` says nothing and is not kept.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub message: Fields,
    /// Fields of single blocks, with the block's place in the content, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<(usize, Fields)>,
}

impl Opaque {
    /// Returns whether there is nothing to give back.
    pub fn is_empty(&self) -> bool {
        self.message.is_empty() && self.blocks.is_empty()
    }

    /// Returns the fields of the block at this place of the content.
    pub fn of_block(&self, place: usize) -> Option<&Fields> {
        let mut blocks = self.blocks.iter();
        let (_, fields) = blocks.find(|(at, _)| *at == place)?;
        Some(fields)
    }

    /// Returns everything as JSON text, one after the other.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let of_blocks = self.blocks.iter().map(|(_, fields)| fields);
        let all = [&self.message].into_iter().chain(of_blocks).flatten();
        all.map(|(_, value)| value.to_string())
    }
}

/// Returns whether a value holds nothing: `null`, and texts, lists and objects of nothing else.
pub fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(says_nothing),
        Value::Object(fields) => fields.values().all(says_nothing),
    }
}

/// Returns the fields that hold something.
pub fn said(mut fields: Fields) -> Fields {
    fields.retain(|_, value| !says_nothing(value));
    fields
}
