//! The prompt cache of the Messages API: how long its entries live, and the first byte that missed when less was read from
//! it than the request before had left there. Pure.

use ah_conversation::json;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest excerpt of a changed text, in characters.
const EXCERPT: usize = 40;

/// Lifetime of entries of the prompt cache, from their last use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheTtl {
    /// Five minutes; writing costs 1.25 times the price of input.
    #[default]
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour; writing costs twice the price of input.
    #[serde(rename = "1h")]
    Hour,
}

/// A prompt cache breakpoint.
#[derive(Debug, Serialize)]
pub struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheTtl {
    /// Returns a breakpoint.
    pub(crate) fn control(self) -> CacheControl {
        CacheControl {
            kind: "ephemeral",
            ttl: (self == Self::Hour).then_some("1h"),
        }
    }

    /// Returns a breakpoint as a further field of a JSON object, with the comma before it.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::FiveMinutes => r#","cache_control":{"type":"ephemeral"}"#,
            Self::Hour => r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        }
    }

    /// Returns the lifetime in seconds.
    pub(crate) fn seconds(self) -> u64 {
        match self {
            Self::FiveMinutes => 300,
            Self::Hour => 3_600,
        }
    }
}

/// Fields of a request that the cache covers, in its order.
const COVERED: [&str; 8] = [
    "model",
    "prompt_cache_key",
    "reasoning",
    "tools",
    "system",
    "instructions",
    "messages",
    "input",
];

/// Returns the place of the first byte at which `request` does not continue `former`, two bodies in pieces; `None` if it
/// does. Breakpoints, and settings that the cache does not cover, do not count.
pub fn first_change(former: &[Bytes], request: &[Bytes]) -> Option<String> {
    let parse = |body: &[Bytes]| json::from_slice::<Value>(&body.concat()).ok();
    let (former, request) = (parse(former)?, parse(request)?);
    COVERED.iter().find_map(|field| {
        let (old, new) = (former.get(field), request.get(field));
        match (old, new) {
            (None, None) => None,
            (Some(old), Some(new)) => {
                let is_list = matches!(*field, "messages" | "input");
                difference(old, new, field, is_list)
            }
            (None, Some(_)) => Some(format!("`{field}` is new")),
            (Some(_), None) => Some(format!("`{field}` is gone")),
        }
    })
}

/// The first difference of two values at `path`. If `may_grow`, the end of `old` need not be the end of `new`.
fn difference(old: &Value, new: &Value, path: &str, may_grow: bool) -> Option<String> {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) => {
            let last = old.len().saturating_sub(1);
            let items = old.iter().zip(new).enumerate();
            let mut changes = items.filter_map(|(index, (old, new))| {
                let may_grow = may_grow && index == last;
                difference(old, new, &format!("{path}[{index}]"), may_grow)
            });
            changes.next().or_else(|| match (old.len(), new.len()) {
                (had, has) if has < had => Some(format!("`{path}[{has}]` is gone")),
                (had, has) if has > had && !may_grow => Some(format!("`{path}[{had}]` is new")),
                _ => None,
            })
        }
        (Value::Object(old), Value::Object(new)) => {
            let names = old
                .keys()
                .chain(new.keys().filter(|name| !old.contains_key(*name)));
            let mut names = names.filter(|name| *name != "cache_control");
            names.find_map(|name| match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) => difference(
                    old,
                    new,
                    &format!("{path}.{name}"),
                    may_grow && name == "content",
                ),
                (None, _) => Some(format!("`{path}.{name}` is new")),
                (_, None) => Some(format!("`{path}.{name}` is gone")),
            })
        }
        (Value::String(old), Value::String(new)) if old != new => {
            let same = old
                .bytes()
                .zip(new.bytes())
                .take_while(|(a, b)| a == b)
                .count();
            // Text of consecutive messages may be joined.
            if may_grow && same == old.len() {
                return None;
            }
            let excerpt: String = new[new.floor_char_boundary(same)..]
                .chars()
                .take(EXCERPT)
                .collect();
            Some(format!("`{path}` differs at byte {same}: {excerpt:?}"))
        }
        _ if old != new => Some(format!("`{path}` differs")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_byte_that_missed_is_named() {
        let body = |tools: Value, system: &str, messages: Value| {
            json!({"model": "m", "max_tokens": 5, "tools": tools, "system": [{"type": "text", "text": system,
                "cache_control": {"type": "ephemeral"}}], "messages": messages})
        };
        let said = |texts: &[&str]| {
            let block = |text: &&str| json!({"type": "text", "text": text});
            json!({"role": "user", "content": texts.iter().map(block).collect::<Vec<_>>()})
        };
        let former = body(
            json!([{"name": "a"}]),
            "Be brief.",
            json!([said(&["x", "y"])]),
        );
        for (request, expected) in [
            (former.clone(), None),
            (
                body(
                    json!([{"name": "a"}]),
                    "Be brief.",
                    json!([said(&["x", "y", "z"]), said(&["w"])]),
                ),
                None,
            ),
            (
                body(
                    json!([{"name": "a"}, {"name": "b"}]),
                    "Be brief.",
                    json!([said(&["x", "y"])]),
                ),
                Some("`tools[1]` is new"),
            ),
            (
                body(json!([{"name": "a"}]), "Be bright.", json!([said(&["x"])])),
                Some(r#"`system[0].text` differs at byte 6: "ght.""#),
            ),
            (
                body(json!([{"name": "a"}]), "Be brief.", json!([said(&["x"])])),
                Some("`messages[0].content[1]` is gone"),
            ),
            (
                body(
                    json!([{"name": "a"}]),
                    "Be brief.",
                    json!([said(&["x", "é", "z"])]),
                ),
                Some(r#"`messages[0].content[1].text` differs at byte 0: "é""#),
            ),
            (
                json!({"model": "n", "messages": []}),
                Some(r#"`model` differs at byte 0: "n""#),
            ),
        ] {
            let pieces = |body: &Value| {
                let text = body.to_string();
                let (start, end) = text.split_at(text.len() / 2);
                [start, end].map(|piece| Bytes::from(piece.to_owned()))
            };
            let mut moved = request.clone();
            moved["max_tokens"] = 6.into();
            for request in [&request, &moved] {
                let found = first_change(&pieces(&former), &pieces(request));
                assert_eq!(found.as_deref(), expected, "{request}");
            }
        }
        assert_eq!(first_change(&[], &[]), None);
    }

    #[test]
    fn breakpoints_name_only_the_longer_lifetime() {
        for (ttl, expected) in [
            (CacheTtl::FiveMinutes, r#"{"type":"ephemeral"}"#),
            (CacheTtl::Hour, r#"{"type":"ephemeral","ttl":"1h"}"#),
        ] {
            let control = serde_json::to_string(&ttl.control()).unwrap();
            assert_eq!(control, expected);
            assert_eq!(ttl.field(), format!(r#","cache_control":{control}"#));
        }
    }
}
