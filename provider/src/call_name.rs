//! Names of tool calls in the form that servers accept. One invalid name, invented by a model or left by a damaged
//! stream, makes a server reject the conversation and so every later prompt of the session. Changing such a name loses
//! nothing, since the call was answered with an error.

use std::borrow::Cow;

/// Length limit of chat completions and the Responses API, in bytes.
pub const OPENAI: usize = 64;
/// Length limit of the Messages API, in bytes.
pub const MESSAGES: usize = 128;

/// Returns `name` with an underscore for each invalid character, at most `longest` bytes long and never empty.
pub fn call_name(name: &str, longest: usize) -> Cow<'_, str> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=longest).contains(&name.len()) && name.chars().all(is_valid) {
        return Cow::Borrowed(name);
    }
    let valid = |c| if is_valid(c) { c } else { '_' };
    let mut sent: String = name.chars().map(valid).take(longest).collect();
    if sent.is_empty() {
        sent.push('_');
    }
    Cow::Owned(sent)
}

/// Returns a called name without the marks of a model's format that a server has left at its end, such as
/// `<|channel|>commentary` of Harmony. No tool has such a name.
pub fn unmarked(name: &str) -> &str {
    let bare = name.split('<').next().unwrap_or_default().trim();
    if bare.is_empty() { name } else { bare }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_at_the_end_of_a_name_are_no_part_of_it() {
        for (name, expected) in [
            ("Bash", "Bash"),
            ("Bash<|channel|>commentary", "Bash"),
            ("mcp__a__b <|constrain|>json", "mcp__a__b"),
            ("Read<｜tool▁sep｜>", "Read"),
            ("<|channel|>", "<|channel|>"),
            ("", ""),
        ] {
            assert_eq!(unmarked(name), expected);
        }
    }

    #[test]
    fn invalid_names_are_made_valid() {
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
