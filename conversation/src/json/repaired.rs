//! Slips of models in the arguments of a call, where there is one reading.
//!
//! Small models, and servers that hold them by no grammar, wrap the arguments in a fence, leave out a brace at either end or
//! write one too many, leave a comma before a brace, or put line ends into a text as they are. All of that can be read in one
//! way. What can be read in two ways stays malformed, and the model is told: a text without its end, a list without its end,
//! and a number at the end of what lacks a brace may all have been cut.

use serde_json::{Map, Value};

use super::from_str;

/// Returns the object that `text` was to be, or `None` if it has no or several readings.
pub fn object(text: &str) -> Option<Map<String, Value>> {
    let bare = unfenced(text.trim());
    if let Ok(read) = from_str::<Value>(bare) {
        return match read {
            Value::Object(object) => Some(object),
            // The object as a text of JSON.
            Value::String(inner) if inner.trim_start().starts_with('{') => from_str(&inner).ok(),
            _ => None,
        };
    }
    let mut slips = Slips::default();
    if begins_with_a_name(bare) {
        slips.open('{');
    }
    for c in bare.chars() {
        slips.push(c)?;
    }
    from_str(&slips.finish()?).ok()
}

/// Returns the text within a fence that has nothing beside it.
fn unfenced(text: &str) -> &str {
    let inner = || {
        let inner = text.strip_prefix("```")?.strip_suffix("```")?;
        let (word, rest) = inner.split_once('\n').unwrap_or(("", inner));
        let is_word = word.trim().chars().all(char::is_alphanumeric);
        Some(if is_word { rest } else { inner }.trim())
    };
    inner().unwrap_or(text)
}

/// Whether the text begins with the name of a field, so that only the brace before it is missing.
fn begins_with_a_name(text: &str) -> bool {
    let name = text.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    name.is_some_and(|(name, rest)| !name.contains('\\') && rest.trim_start().starts_with(':'))
}

/// A JSON text while it is read, without its slips.
#[derive(Default)]
struct Slips {
    text: String,
    /// What closes the values that are open.
    closing: Vec<char>,
    is_in_text: bool,
    is_escaped: bool,
    /// White space and a comma that may stand before the end of a value.
    pending: String,
    /// Whether all values have ended.
    has_ended: bool,
}

impl Slips {
    fn open(&mut self, c: char) {
        self.text.push(c);
        self.closing.push(if c == '{' { '}' } else { ']' });
    }

    /// Reads one character; `None` if it cannot be right.
    fn push(&mut self, c: char) -> Option<()> {
        if self.is_in_text {
            self.push_in_text(c);
            return Some(());
        }
        if self.has_ended {
            // Only braces may be too many.
            return matches!(c, '}' | ' ' | '\n' | '\r' | '\t').then_some(());
        }
        if c.is_whitespace() || c == ',' && !self.pending.contains(',') {
            self.pending.push(c);
            return Some(());
        }
        if !matches!(c, '}' | ']') {
            self.text.push_str(&self.pending);
        }
        self.pending.clear();
        match c {
            '"' => self.is_in_text = true,
            '{' | '[' => {
                self.open(c);
                return Some(());
            }
            '}' | ']' => {
                if self.closing.pop()? != c {
                    return None;
                }
                self.has_ended = self.closing.is_empty();
            }
            _ => {}
        }
        self.text.push(c);
        Some(())
    }

    fn push_in_text(&mut self, c: char) {
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = true,
            '"' => self.is_in_text = false,
            '\n' => return self.text.push_str("\\n"),
            '\r' => return self.text.push_str("\\r"),
            '\t' => return self.text.push_str("\\t"),
            _ => {}
        }
        self.text.push(c);
    }

    /// Returns the text with the braces that are missing at its end.
    fn finish(mut self) -> Option<String> {
        let is_whole =
            |last: char| last == '"' || last == '}' || last == ']' || last.is_alphabetic();
        let is_one_reading = !self.is_in_text
            && self.closing.iter().all(|c| *c == '}')
            && (self.closing.is_empty() || self.text.ends_with(is_whole));
        if !is_one_reading {
            return None;
        }
        while let Some(c) = self.closing.pop() {
            self.text.push(c);
        }
        Some(self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<String> {
        object(text).map(|object| Value::Object(object).to_string())
    }

    #[test]
    fn what_has_one_reading_is_read() {
        for (text, expected) in [
            (r#"{"a": 1}"#, r#"{"a":1}"#),
            (r#"{"a": "ls""#, r#"{"a":"ls"}"#),
            (r#"{"a": {"b": true"#, r#"{"a":{"b":true}}"#),
            (r#"{"a": [1, 2]"#, r#"{"a":[1,2]}"#),
            (r#""a": "ls"}"#, r#"{"a":"ls"}"#),
            (r#""a": "ls""#, r#"{"a":"ls"}"#),
            (r#"{"a": 1}}"#, r#"{"a":1}"#),
            (r#"{"a": 1, }"#, r#"{"a":1}"#),
            (r#"{"a": [1, 2,],}"#, r#"{"a":[1,2]}"#),
            ("```json\n{\"a\": \"x\"}\n```", r#"{"a":"x"}"#),
            ("```\n{\"a\": \"x\",}\n```", r#"{"a":"x"}"#),
            ("```{\"a\": 1}```", r#"{"a":1}"#),
            ("{\"a\": \"x\ny\tz\"}", r#"{"a":"x\ny\tz"}"#),
            (r#""{\"a\": 1}""#, r#"{"a":1}"#),
            (r#"{"a": "}, ]", "b": "\"", "#, r#"{"a":"}, ]","b":"\""}"#),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_has_several_readings_stays_malformed() {
        for text in [
            "",
            "{",
            "ls",
            "[1]",
            "1",
            r#""ls""#,
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a": "ls"#,
            r#"{"a": 1"#,
            r#"{"a": [1, 2"#,
            r#"{"a": ["x"}"#,
            r#"{"a": 1,, "b": 2}"#,
            r#"{"a": 1} {"b": 2}"#,
            r#"{"a": 1} or so"#,
            r#"{"a": tru"#,
            "{'a': 1}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_objects_stay_what_they_are(
            fields in prop::collection::vec(("[a-z]{1,4}", "\\PC{0,12}"), 0..4),
        ) {
            let whole: Map<_, _> = fields.into_iter().map(|(name, text)| (name, text.into())).collect();
            prop_assert_eq!(object(&Value::Object(whole.clone()).to_string()), Some(whole));
        }

        #[test]
        fn no_text_is_too_odd(text in "[\\[\\]{}\",:` \\\\a1\n]{0,24}") {
            let _ = object(&text);
        }
    }
}
