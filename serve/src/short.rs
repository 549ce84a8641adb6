//! Messages as lists and streams have them: a client that looks at a long session is not sent its megabytes. What is left
//! out is at the message's own place.

use ah_conversation::json;
use serde_json::Value;

/// Messages up to this size, in bytes of JSON, are never cut.
const SMALL: usize = 16 * 1024;
/// Longest text of a message that is cut, in bytes.
const LONGEST: usize = 8 * 1024;
/// All texts of a message that is cut, in bytes.
const ALL: usize = 128 * 1024;

/// Returns a message without most of its long texts, and `"cut": true` in it; the message itself if it is small.
pub(crate) fn short(json: String) -> String {
    if json.len() <= SMALL {
        return json;
    }
    let Ok(Value::Object(mut message)) = json::from_str(&json) else {
        return json;
    };
    let mut left = ALL;
    let content = message.get_mut("content");
    if !content.is_some_and(|content| cut(content, &mut left)) {
        return json;
    }
    message.insert("cut".to_owned(), Value::Bool(true));
    Value::Object(message).to_string()
}

/// Cuts the texts of a value, of which `left` bytes stay; returns whether anything was left out.
fn cut(value: &mut Value, left: &mut usize) -> bool {
    match value {
        Value::String(text) => {
            let most = LONGEST.min(*left);
            let is_long = text.len() > most;
            if is_long {
                text.truncate(text.floor_char_boundary(most));
                text.push('…');
            }
            // Each text costs something, so that a million of empty ones are not kept either.
            *left = left.saturating_sub(text.len() + 8);
            is_long
        }
        Value::Array(items) => {
            let mut is_cut = false;
            let mut kept = 0;
            while *left > 0 && kept < items.len() {
                is_cut |= cut(&mut items[kept], left);
                kept += 1;
            }
            is_cut |= kept < items.len();
            items.truncate(kept);
            is_cut
        }
        Value::Object(entries) => {
            let mut is_cut = false;
            for (name, entry) in entries {
                // Programs find a block by these.
                if !matches!(name.as_str(), "type" | "id" | "tool_use_id") {
                    is_cut |= cut(entry, left);
                }
            }
            is_cut
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *left = left.saturating_sub(8);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shortened(message: &Value) -> Value {
        serde_json::from_str(&short(message.to_string())).unwrap()
    }

    #[test]
    fn long_texts_are_cut_and_the_message_says_so() {
        let small = json!({"id": "m", "content": [{"type": "text", "text": "é".repeat(7_000)}]});
        assert_eq!(shortened(&small), small);
        let large = json!({"id": "m", "content": [
            {"type": "text", "text": "short"},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "é".repeat(9_000)}]},
        ]});
        let cut = shortened(&large);
        assert_eq!(cut["cut"], true);
        assert_eq!(cut["content"][0], large["content"][0]);
        assert_eq!(cut["content"][1]["tool_use_id"], "t");
        let text = cut["content"][1]["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with("é…") && text.len() <= LONGEST + 3);
        // Metadata beside the content stays as it is.
        let known = json!({"id": "m", "response": "x".repeat(20_000), "content": []});
        assert_eq!(shortened(&known), known);
    }

    #[test]
    fn many_texts_are_bounded_too() {
        for item in [
            json!("x".repeat(1_000)),
            json!(""),
            json!(1),
            json!({"a": [null]}),
        ] {
            let message = json!({"content": [{"type": "text", "lines": vec![item; 20_000]}]});
            let cut = short(message.to_string());
            assert!(cut.len() < 2 * ALL, "{}", cut.len());
            assert!(cut.contains("\"cut\":true"));
        }
    }
}
