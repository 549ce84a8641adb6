//! Names and words of servers, made fit for models, rules and terminals. Pure: a server may say anything.

use sha2::{Digest, Sha256};

/// How long the name of a tool may be for every vendor's API.
const LONGEST_NAME: usize = 64;
/// How many hexadecimal digits tell two shortened names apart.
const DIGITS: usize = 8;

/// The name by which the model knows a server's tool.
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

/// What the names of all tools of a server begin with.
pub(crate) fn prefix(server: &str) -> String {
    format!("mcp__{}__", plain_name(server))
}

/// A name with everything but ASCII letters, digits, `_` and `-` replaced by `_`, as permission rules write it.
pub fn plain_name(name: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '_',
    };
    name.chars().map(plain).collect()
}

/// `text` without what would steer a terminal or mislead a reader, and at most `limit` characters of it.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    let is_harmless = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c));
    let mut clean: String = text.chars().filter(is_harmless).take(limit).collect();
    if text.chars().filter(is_harmless).nth(limit).is_some() {
        clean.push('…');
    }
    clean
}

/// The same in one line.
pub(crate) fn clean_line(text: &str, limit: usize) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    clean(&words.join(" "), limit)
}

/// Characters that turn the direction of text or stand for nothing: a place to hide words from people.
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

    /// Port 04 f: names of tools.
    #[test]
    fn tools_are_named_after_their_server() {
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
    fn words_are_cleaned_and_cut() {
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
        fn every_name_is_one_that_vendors_take(server in ".{0,90}", tool in ".{0,90}") {
            let name = tool_name(&server, &tool);
            prop_assert!(name.len() <= 64 && name.starts_with("mcp__"));
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
        }
    }
}
