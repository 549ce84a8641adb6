//! What a hook wrote: an object of the hook protocol, or plain text. Pure.
//!
//! The object need not be alone: shells print lines of a profile, programs reset colours, and Windows writes byte order
//! marks. What decides about a call is found behind all of these.

use ah_conversation::{encoding, json};
use serde_json::{Map, Value};

use super::{HookEvent, HookReply};

/// Keys of an answer. An object without any of them is output like any other.
const KEYS: [&str; 7] = [
    "async",
    "continue",
    "decision",
    "hookSpecificOutput",
    "stopReason",
    "suppressOutput",
    "systemMessage",
];
/// Words that no output but an answer has.
const SIGNS: [&str; 2] = ["hookSpecificOutput", "permissionDecision"];

impl HookReply {
    /// Reads what a hook of `event` wrote.
    pub fn of_output(event: HookEvent, bytes: &[u8]) -> Self {
        let text = without_controls(&encoding::text_of(bytes));
        let text = text.trim();
        if text.is_empty() {
            return Self::Nothing;
        }
        if let Ok(Value::Object(object)) = json::from_str(text) {
            return Self::Object(object);
        }
        // At the start of a session text is what hooks are there for, and it may be about hooks.
        let mut answers = match event {
            HookEvent::SessionStart => Vec::new(),
            _ => answers(text),
        };
        match answers.pop() {
            Some(answer) if answers.is_empty() => Self::Object(answer),
            _ => Self::Text(text.to_owned()),
        }
    }
}

/// Whether a text that is no answer was probably meant to be one.
pub(super) fn looks_like_answer(event: HookEvent, text: &str) -> bool {
    let begins_line = || text.lines().any(|line| line.trim_start().starts_with('{'));
    match event {
        HookEvent::SessionStart => false,
        // Its text is context for the model, too.
        HookEvent::UserPromptSubmit => text.starts_with('{'),
        event if event.guards() => begins_line() || SIGNS.iter().any(|sign| text.contains(sign)),
        _ => text.starts_with('{'),
    }
}

/// Returns the answers within a text.
fn answers(text: &str) -> Vec<Map<String, Value>> {
    let objects = json::objects_in(text).into_iter();
    let is_answer = |object: &Map<String, Value>| KEYS.iter().any(|key| object.contains_key(*key));
    objects.filter(is_answer).collect()
}

/// Returns the text without escape sequences of terminals and other control characters, line ends and tabs apart.
fn without_controls(text: &str) -> String {
    let mut plain = String::new();
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\u{1b}' => match signs.next() {
                Some('[') => {
                    // Parameters, up to the letter that ends the sequence.
                    while signs.next_if(|sign| matches!(sign, ' '..='?')).is_some() {}
                    signs.next_if(|sign| matches!(sign, '@'..='~'));
                }
                Some(']') => {
                    while let Some(sign) = signs.next_if(|sign| *sign != '\n') {
                        if sign == '\u{7}' || sign == '\u{1b}' {
                            signs.next_if(|sign| *sign == '\\');
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\n' | '\r' | '\t' => plain.push(sign),
            '\u{feff}' => {}
            sign if sign.is_control() => {}
            sign => plain.push(sign),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DENIAL: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"{no}"}}"#;

    fn read(event: HookEvent, text: &str) -> String {
        match HookReply::of_output(event, text.as_bytes()) {
            HookReply::Nothing => "nothing".to_owned(),
            HookReply::Object(object) => Value::Object(object).to_string(),
            HookReply::Text(text) if looks_like_answer(event, &text) => "unclear".to_owned(),
            HookReply::Text(_) => "text".to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_is_found_or_missed_but_never_lost() {
        use HookEvent::{PostToolUse, PreToolUse, SessionStart, UserPromptSubmit};
        let block = r#"{"decision":"block"}"#;
        for (event, text, expected) in [
            (PreToolUse, "", "nothing"),
            (PreToolUse, "\u{feff}\r\n\u{1b}[0m", "nothing"),
            (PreToolUse, "checked", "text"),
            (PreToolUse, "{\"level\": 1}\nchecked", "unclear"),
            (PreToolUse, "see {\"level\": 1}", "text"),
            (PreToolUse, "{'decision': 'block'}", "unclear"),
            (PreToolUse, "hello\n {'decision': 'block'}", "unclear"),
            (PreToolUse, "permissionDecision: deny", "unclear"),
            // Which of the two counts is not said.
            (
                PreToolUse,
                "{\"continue\":true}\n{\"decision\":\"block\"}",
                "unclear",
            ),
            (
                PreToolUse,
                "{\"level\":\"info\"}\n{\"decision\":\"block\"}",
                block,
            ),
            (PreToolUse, "prompt> {\"decision\":\"block\"} bye", block),
            (UserPromptSubmit, "hi\n{\"decision\":\"block\"}", block),
            (UserPromptSubmit, "hi\n{ a: 1 }", "text"),
            (SessionStart, "hi\n{\"decision\":\"block\"}", "text"),
            (SessionStart, "{ a: 1 }", "text"),
            (PostToolUse, "hi\n{ a: 1 }", "text"),
            (PostToolUse, "{ a: 1 }", "unclear"),
        ] {
            assert_eq!(read(event, text), expected, "{event:?} {text:?}");
        }
    }

    proptest! {
        /// Lines of a shell, colours and line ends around an answer do not hide it.
        #[test]
        fn a_denial_is_read_behind_and_before_anything(
            before in r"(\x{feff})?(\x1b\[[0-9;]{0,4}m|\x1b\]0;t\x07|[a-z ]{1,8}\r?\n|\[[0-9]\] ){0,4}",
            after in r"(\x1b\[0m|\r?\n[a-z ]{0,8}|[)>\]]){0,3}",
        ) {
            let text = format!("{before}{DENIAL}{after}");
            prop_assert_eq!(read(HookEvent::PreToolUse, &text), DENIAL);
            let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let marked = [&b"\xff\xfe"[..], &units].concat();
            let reply = HookReply::of_output(HookEvent::PreToolUse, &marked);
            prop_assert!(matches!(reply, HookReply::Object(_)), "{:?}", reply);
        }
    }
}
