//! Loop detection: the number of consecutive turns with identical tool calls, and of identical pieces within an answer.

mod chant;

use std::fmt::Write;

use serde_json::Value;

use crate::{ContentBlock, Message, Role, StopReason};

pub use chant::chant;

/// Consecutive identical turns, or pieces of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repetition {
    /// Number of consecutive turns or pieces, at least 1.
    pub count: usize,
    /// The calls as text, see [`signature`], or the piece.
    pub signature: String,
}

/// Counts how often the last turn of `run` with tool calls occurs in a row; `None` if no turn has any. Every argument
/// counts, so paging through a file is no repetition. In an answer that was ended since it repeated itself, its pieces count.
pub fn repetition<M: AsRef<Message>>(run: &[M]) -> Option<Repetition> {
    if let Some(piece) = run.last().and_then(|last| repeated(last.as_ref())) {
        return Some(Repetition {
            count: chant::TIMES,
            signature: piece.to_owned(),
        });
    }
    let mut turns =
        run.iter().rev().map(AsRef::as_ref).filter(|message| {
            message.role == Role::Assistant && message.tool_uses().next().is_some()
        });
    let last = turns.next()?;
    let count = 1 + turns.take_while(|turn| asks_the_same(turn, last)).count();
    Some(Repetition {
        count,
        signature: signature(last),
    })
}

fn repeated(message: &Message) -> Option<&str> {
    if message.stop_reason() != Some(&StopReason::Repetition) {
        return None;
    }
    let mut texts = message.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text),
        ContentBlock::Thinking { thinking, .. } => Some(thinking),
        _ => None,
    });
    texts.next_back().and_then(|text| chant(text))
}

fn asks_the_same(one: &Message, other: &Message) -> bool {
    let calls = |message: &Message| message.tool_uses().count();
    calls(one) == calls(other)
        && one
            .tool_uses()
            .zip(other.tool_uses())
            .all(|(a, b)| a.name == b.name && a.input == b.input)
}

/// Returns the calls of a turn as text: `name:{arguments}`, keys sorted, joined by `|`.
pub fn signature(message: &Message) -> String {
    let mut signature = String::new();
    for call in message.tool_uses() {
        if !signature.is_empty() {
            signature.push('|');
        }
        signature.push_str(&call.name);
        signature.push(':');
        write_canonical(&mut signature, &call.input.to_value());
    }
    signature
}

fn write_canonical(out: &mut String, value: &Value) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(out, "{comma}{}:", Value::String(key.clone()));
                write_canonical(out, value);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(out, item);
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}
