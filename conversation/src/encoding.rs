//! Encodings of text files and streams that people and programs give us. Pure.
//!
//! Windows and .NET begin files with a byte order mark, and some of their programs write UTF-16, with or without one.
//! Everything else is UTF-8.

use std::borrow::Cow;

/// U+FEFF at the beginning of a text.
const MARK: char = '\u{FEFF}';

/// Returns a text without the byte order mark that it begins with.
pub fn without_mark(text: &str) -> &str {
    text.trim_start_matches(MARK)
}

/// Returns the bytes of a text as UTF-8 without a byte order mark. UTF-16 is recognised by its mark, or by the zero beside
/// its first letter; bytes that are neither are returned as they are.
pub fn as_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => as_utf8(rest),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [1..=0x7F, 0, ..] => utf16(bytes, u16::from_le_bytes),
        [0, 1..=0x7F, ..] => utf16(bytes, u16::from_be_bytes),
        _ => Cow::Borrowed(bytes),
    }
}

/// Returns the text of a file or stream; bytes that are no text become U+FFFD.
pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&as_utf8(bytes)).into_owned()
}

/// Returns the text of a file in any of the encodings.
///
/// # Errors
///
/// If it is not valid UTF-8.
pub fn text(bytes: &[u8]) -> Result<String, std::str::Utf8Error> {
    let utf8 = as_utf8(bytes);
    std::str::from_utf8(&utf8).map(str::to_owned)
}

fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Cow<'_, [u8]> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let mut text: String = char::decode_utf16(units)
        .map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(without_mark(&text).to_owned().into_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_bytes_are_kept() {
        for bytes in [&b""[..], b"{", b"\xff", b"caf\xe9", b"\0\0", b"\xef\xbb"] {
            assert!(matches!(as_utf8(bytes), Cow::Borrowed(same) if same == bytes));
        }
        assert_eq!(text_of(b"\xff\xfea\0b"), "a\u{fffd}");
        assert_eq!(without_mark("\u{feff}a\u{feff}"), "a\u{feff}");
    }

    proptest! {
        /// However a text was written, it is read as the same.
        #[test]
        fn a_text_is_the_same_in_each_encoding(text in r#"[a-z{"][a-zž😀\r\n ]{0,20}"#) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            let marked = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
            for written in [
                text.clone().into_bytes(),
                marked(b"\xef\xbb\xbf", text.as_bytes()),
                marked(b"\xff\xfe", &little),
                marked(b"\xfe\xff", &big),
                little,
                big,
            ] {
                prop_assert_eq!(super::text(&written).unwrap(), text.as_str());
                prop_assert_eq!(text_of(&written), text.as_str());
            }
        }
    }
}
