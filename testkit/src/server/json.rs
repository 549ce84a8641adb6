//! What is looked for in requests of every protocol.

use serde_json::{Map, Value};

/// Whether `name` may name a tool or a call.
pub fn is_name(name: &str, longest: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=longest).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Whether `text` is a JSON object.
pub fn is_object(text: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

/// The elements of a list; none if it is none.
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[][..], Vec::as_slice)
}
