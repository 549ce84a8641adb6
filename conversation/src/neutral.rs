//! Protects the terminal from control sequences in text of models and tools.

use std::borrow::Cow;

/// Returns `text` with control characters, bidirectional formatting characters and characters that nothing shows in visible
/// form. Newlines and tabs are kept, as are joiners within emoji and scripts that need them; a carriage return before a
/// newline or at the end is removed.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    // Most text has no byte that a dangerous character can start with.
    let may_be_dangerous = |byte: u8| {
        (byte < 0x20 && byte != b'\n' && byte != b'\t')
            || matches!(byte, 0x7F | 0xC2 | 0xCD | 0xD8 | 0xE1..=0xE3 | 0xEF | 0xF3)
    };
    let Some(first) = text.bytes().position(may_be_dangerous) else {
        return Cow::Borrowed(text);
    };
    let (clean, rest) = text.split_at(first);
    let mut neutral = String::with_capacity(text.len() + 16);
    neutral.push_str(clean);
    let mut characters = rest.chars().peekable();
    let mut before = clean.chars().next_back();
    while let Some(c) = characters.next() {
        let former = before.replace(c);
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
            '\u{200C}' | '\u{200D}' if joins(former, characters.peek()) => neutral.push(c),
            _ if is_invisible(c) => {
                neutral.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            _ => neutral.push(c),
        }
    }
    Cow::Owned(neutral)
}

/// Whether a joiner between these characters is part of what is shown.
fn joins(before: Option<char>, after: Option<&char>) -> bool {
    let is_joined = |c: char| !c.is_ascii() && !is_invisible(c);
    before.is_some_and(is_joined) && after.is_some_and(|c| is_joined(*c))
}

/// Whether nothing is shown for the character, so that text may hide in it: those that Unicode calls default ignorable,
/// but for variation selectors of emoji.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{AD}'
            | '\u{34F}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200D}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206A}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
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
            ("a\u{200b}b\u{feff}", "a<U+200B>b<U+FEFF>"),
            ("rm\u{e0041}\u{e0020}", "rm<U+E0041><U+E0020>"),
            ("soft\u{ad}hyphen \u{3164}", "soft<U+00AD>hyphen <U+3164>"),
            ("line\u{2028}line", "line<U+2028>line"),
            ("a\u{200d}b \u{200c}", "a<U+200D>b <U+200C>"),
            ("👩\u{200d}🔬 ❤\u{fe0f}", "👩\u{200d}🔬 ❤\u{fe0f}"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
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
