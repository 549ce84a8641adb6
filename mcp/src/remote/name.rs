//! Makes names and texts of servers safe for models, permission rules and terminals. Pure: a server may send anything.

use ah_conversation::ToolName;
use sha2::{Digest, Sha256};

/// Maximum length of a tool name in every vendor's API.
const LONGEST_NAME: usize = 64;
/// Hexadecimal digits of the hash that tells two shortened names apart.
const DIGITS: usize = 8;

/// Returns the name of a server's tool for the model; one that is too long ends in a hash.
pub(crate) fn tool_name(server: &str, tool: &str) -> String {
    let name = format!("{}{}", prefix(server), plain_name(tool));
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let hash = Sha256::digest(format!("{server}\n{tool}"));
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let start = &name[..LONGEST_NAME - DIGITS - 1];
    format!("{start}_{}", &digits[..DIGITS])
}

/// Returns the prefix of all tool names of a server.
pub(crate) fn prefix(server: &str) -> String {
    ToolName::of_server(&plain_name(server))
}

/// Replaces everything but ASCII letters, digits, `_` and `-` in a name by `_`, as permission rules spell it.
pub(crate) fn plain_name(name: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '_',
    };
    name.chars().map(plain).collect()
}

/// Removes control and invisible characters from `text` and cuts it after `limit` characters.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    let is_harmless = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c));
    let mut clean: String = text.chars().filter(is_harmless).take(limit).collect();
    if text.chars().filter(is_harmless).nth(limit).is_some() {
        clean.push('…');
    }
    clean
}

/// Does the same as [`clean`] and joins all lines into one.
pub(crate) fn clean_line(text: &str, limit: usize) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    clean(&words.join(" "), limit)
}

/// Returns whether `c` is invisible or changes the direction of text, and so can hide text from people.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{AD}'
            | '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{E0000}'..='\u{E007F}'
            | '\u{E0100}'..='\u{E01EF}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tool_names_begin_with_their_server() {
        for (server, tool, expected) in [
            ("github", "create_issue", "mcp__github__create_issue"),
            ("my server", "a.b/c", "mcp__my_server__a_b_c"),
            ("ü", "\u{1b}[31mx", "mcp_______31mx"),
        ] {
            assert_eq!(tool_name(server, tool), expected);
        }
        let long = tool_name("server", &"x".repeat(100));
        let other = tool_name("server", &"x".repeat(101));
        assert_eq!((long.len(), other.len()), (64, 64));
        assert_ne!(long, other);
    }

    #[test]
    fn texts_are_cleaned_and_cut() {
        for (text, expected) in [
            ("two\nlines\tand more", "two\nlines\tand more"),
            ("\u{1b}]0;title\u{7}", "]0;title"),
            ("a\u{202E}b\u{200B}c\r\u{9b}", "abc"),
            ("a\u{61C}b\u{E0101}c\u{AD}", "abc"),
            ("0123456789012345678901234", "01234567890123456789…"),
        ] {
            assert_eq!(clean(text, 20), expected, "{text:?}");
        }
        assert_eq!(clean_line(" a\n\n b ", 20), "a b");
    }

    proptest! {
        #[test]
        fn every_tool_name_is_valid_for_all_vendors(server in ".{0,90}", tool in ".{0,90}") {
            let name = tool_name(&server, &tool);
            prop_assert!(name.len() <= 64 && name.starts_with("mcp__"));
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
        }
    }
}
