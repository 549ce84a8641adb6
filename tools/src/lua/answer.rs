//! The tool output made of the values that `execute` returns. An invalid value gives an error that says what is valid.

use ah_conversation::{Content, Output};
use mlua::{Lua, MultiValue, Value};
use serde::Deserialize;
use serde_json::Value as Json;

use super::json;
use crate::blocks::{Block, shown};

/// Key of JSON text that contains content blocks, as the first `ah` stored images.
const ENVELOPE: &str = "__image__";
/// Maximum length of a text, in bytes.
const MAX_TEXT: usize = 64 << 20;

#[derive(Deserialize)]
struct Envelope {
    content: Vec<Block>,
}

/// Returns the output of the values `text, is_error, details`.
pub(super) fn output(lua: &Lua, returned: &MultiValue) -> Output {
    let value = |at: usize| returned.get(at).cloned().unwrap_or(Value::Nil);
    let (text, second) = (value(0), value(1));
    let details = details(lua, value(2));
    // Lua's usual form of a failure: `nil` and the reason.
    if let (Value::Nil, Value::String(reason)) = (&text, &second) {
        let reason = reason.to_string_lossy();
        return Output {
            details,
            ..Output::error(reason)
        };
    }
    match content(lua, text) {
        Ok(content) => Output {
            content,
            is_error: !matches!(second, Value::Nil | Value::Boolean(false)),
            details,
        },
        Err(fault) => Output {
            details,
            ..Output::error(fault)
        },
    }
}

fn content(lua: &Lua, text: Value) -> Result<Content, String> {
    match text {
        Value::String(text) => {
            let bytes = text.as_bytes();
            if let Some(blocks) = enveloped(&bytes) {
                return Ok(Content::Blocks(shown(blocks)?));
            }
            if bytes.len() > MAX_TEXT {
                return Err(format!("the tool returned more than {MAX_TEXT} bytes"));
            }
            Ok(Content::Bytes(bytes.to_vec()))
        }
        Value::Integer(_) | Value::Number(_) => {
            let text = text.to_string().map_err(|error| error.to_string())?;
            Ok(Content::Bytes(text.into_bytes()))
        }
        Value::Table(_) => {
            let blocks = json::from_lua(lua, text)
                .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
            match blocks {
                Ok(blocks) => Ok(Content::Blocks(shown(blocks)?)),
                Err(fault) => Err(nonsense(&format!(
                    "a table that is not a list of content blocks ({fault})"
                ))),
            }
        }
        Value::Nil => Err(nonsense("nothing")),
        other => Err(nonsense(&format!("a {}", other.type_name()))),
    }
}

fn nonsense(what: &str) -> String {
    format!("the tool is faulty: `execute` must return text, but it returned {what}")
}

fn enveloped(text: &[u8]) -> Option<Vec<Block>> {
    let is_likely = text.starts_with(b"{") && bstr::ByteSlice::contains_str(text, ENVELOPE);
    if !is_likely {
        return None;
    }
    let value: Json = ah_conversation::json::from_slice(text).ok()?;
    if value.get(ENVELOPE) != Some(&Json::Bool(true)) {
        return None;
    }
    let envelope: Envelope = serde_json::from_value(value).ok()?;
    Some(envelope.content)
}

/// Returns the details. Values that are no data are dropped, so that the text is not lost.
fn details(lua: &Lua, value: Value) -> Option<Json> {
    if value.is_nil() {
        return None;
    }
    match json::from_lua(lua, value) {
        Ok(details) => Some(details),
        Err(fault) => {
            tracing::debug!(target: "lua", "details that are no data are left out: {fault}");
            None
        }
    }
}
