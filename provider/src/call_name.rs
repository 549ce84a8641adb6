//! The name of a call as servers take it. They refuse a conversation, and so every later prompt of a session, for one
//! name that a model or a damaged stream has made up; the call was answered with an error then, which stays true.

use std::borrow::Cow;

/// As much as chat completions and Responses take.
pub const OPENAI: usize = 64;
/// As much as the Messages API takes.
pub const MESSAGES: usize = 128;

/// `name`, with a low line for each character that no tool's name may have, and no longer than `longest` bytes.
pub fn call_name(name: &str, longest: usize) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=longest).contains(&name.len()) && name.chars().all(is_fine) {
        return Cow::Borrowed(name);
    }
    let plain = |c| if is_fine(c) { c } else { '_' };
    let mut fine: String = name.chars().map(plain).take(longest).collect();
    if fine.is_empty() {
        fine.push('_');
    }
    Cow::Owned(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_as_it_is_or_made_one() {
        for (name, expected) in [
            ("bash", "bash"),
            ("mcp__a-b__C1", "mcp__a-b__C1"),
            ("wr te", "wr_te"),
            ("é\u{0}\"", "___"),
            ("", "_"),
            (&"a".repeat(65), &"a".repeat(64)),
        ] {
            assert_eq!(call_name(name, OPENAI), expected);
        }
    }
}
