//! Protects the terminal from control sequences in text of models and tools.

use std::borrow::Cow;

/// Returns `text` with control characters and bidirectional formatting characters in visible form. Newlines and tabs are
/// kept; a carriage return before a newline or at the end is removed.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    // Most text has no byte that a dangerous character can start with.
    let may_be_dangerous = |byte: u8| {
        (byte < 0x20 && byte != b'\n' && byte != b'\t') || matches!(byte, 0x7F | 0xC2 | 0xD8 | 0xE2)
    };
    let Some(first) = text.bytes().position(may_be_dangerous) else {
        return Cow::Borrowed(text);
    };
    let (clean, rest) = text.split_at(first);
    let mut neutral = String::with_capacity(text.len() + 16);
    neutral.push_str(clean);
    let mut characters = rest.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\n' | '\t' => neutral.push(c),
            '\r' if matches!(characters.peek(), None | Some('\n')) => {}
            '\0'..='\x1F' => neutral.push(picture(c)),
            '\x7F' => neutral.push('␡'),
            '\u{80}'..='\u{9F}'
            | '\u{61C}'
            | '\u{200E}'
            | '\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2066}'..='\u{2069}' => {
                neutral.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            _ => neutral.push(c),
        }
    }
    Cow::Owned(neutral)
}

/// The Unicode control picture of a control character: `␛` for escape.
fn picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        for (text, expected) in [
            (
                "plain, ünïcode “quotes” …\n\ttab",
                "plain, ünïcode “quotes” …\n\ttab",
            ),
            ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
            ("\x1b]0;title\x07", "␛]0;title␇"),
            ("bell\x07 back\x08 del\x7f nul\0", "bell␇ back␈ del␡ nul␀"),
            ("\u{9b}31m", "<U+009B>31m"),
            ("no-break\u{a0}space", "no-break\u{a0}space"),
            ("one\r\ntwo\r", "one\ntwo"),
            ("safe\rrm -rf", "safe␍rm -rf"),
            ("a\u{202e}b\u{2066}c", "a<U+202E>b<U+2066>c"),
            ("a\u{61c}b ش", "a<U+061C>b ش"),
            ("", ""),
        ] {
            assert_eq!(neutralise(text), expected, "{text:?}");
        }
    }

    #[test]
    fn harmless_text_is_not_copied() {
        assert!(matches!(
            neutralise("a line\nand another"),
            Cow::Borrowed(_)
        ));
    }
}
