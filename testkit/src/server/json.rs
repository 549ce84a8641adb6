//! Checks that requests of every protocol need.

use serde_json::{Map, Value};

/// Whether `name` is a valid name of a tool or id of a call.
pub fn is_name(name: &str, longest: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=longest).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Whether `text` is a JSON object.
pub fn is_object(text: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(text).is_ok()
}

/// Returns the elements of a list; none if the field is no list.
pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[][..], Vec::as_slice)
}
