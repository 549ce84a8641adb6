//! Encodings of text files and streams that people and programs give us. Pure.
//!
//! Windows and .NET begin files with a byte order mark, and some of their programs write UTF-16, with or without one.
//! Everything else is UTF-8.

use std::borrow::Cow;
use std::mem;

/// U+FEFF at the beginning of a text.
const MARK: char = '\u{FEFF}';

/// Returns a text without the byte order mark that it begins with.
pub fn without_mark(text: &str) -> &str {
    text.trim_start_matches(MARK)
}

/// Returns the bytes of a text as UTF-8 without a byte order mark. UTF-16 is recognised by its mark, or by the zero beside
/// its first letter; bytes that are neither are returned as they are.
pub fn as_utf8(mut bytes: &[u8]) -> Cow<'_, [u8]> {
    while let [0xEF, 0xBB, 0xBF, rest @ ..] = bytes {
        bytes = rest;
    }
    match unit_of(bytes) {
        Some(unit) => utf16(bytes, unit),
        None => Cow::Borrowed(bytes),
    }
}

/// Two bytes as a unit of UTF-16.
type Unit = fn([u8; 2]) -> u16;

/// Returns how the units of UTF-16 are read that a text begins with.
fn unit_of(bytes: &[u8]) -> Option<Unit> {
    match bytes {
        [0xFF, 0xFE, ..] | [1..=0x7F, 0, ..] => Some(u16::from_le_bytes),
        [0xFE, 0xFF, ..] | [0, 1..=0x7F, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Bytes of a stream in any of the encodings as UTF-8, in whatever pieces they arrive: the bytes of a line end are also halves
/// of letters in UTF-16, so lines are separated behind it. A byte order mark stays the first letter.
#[derive(Debug, Default)]
pub struct Decoder {
    /// `None` before the first two bytes; then how units are read, if they are those of UTF-16.
    unit: Option<Option<Unit>>,
    /// Bytes that were fed and are no whole letter.
    rest: Vec<u8>,
}

impl Decoder {
    /// Accepts the next bytes and returns what they complete.
    pub fn feed<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if matches!(self.unit, Some(None)) {
            return Cow::Borrowed(bytes);
        }
        self.rest.extend_from_slice(bytes);
        if self.unit.is_none() && self.rest.len() >= 2 {
            self.unit = Some(unit_of(&self.rest));
        }
        match self.unit {
            None => Cow::default(),
            Some(None) => mem::take(&mut self.rest).into(),
            Some(Some(unit)) => {
                let (pairs, _) = self.rest.as_chunks::<2>();
                let mut whole = pairs.len() * 2;
                if { pairs.last() }.is_some_and(|last| (0xD800..0xDC00).contains(&unit(*last))) {
                    whole -= 2;
                }
                let rest = self.rest.split_off(whole);
                let fed = mem::replace(&mut self.rest, rest);
                decoded(&fed, unit).into_bytes().into()
            }
        }
    }

    /// Returns what is left at the end of the stream.
    pub fn end(&mut self) -> Vec<u8> {
        let rest = mem::take(&mut self.rest);
        match self.unit {
            Some(Some(unit)) => decoded(&rest, unit).into_bytes(),
            _ => rest,
        }
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

fn utf16(bytes: &[u8], unit: Unit) -> Cow<'_, [u8]> {
    let text = decoded(bytes, unit);
    Cow::Owned(without_mark(&text).to_owned().into_bytes())
}

fn decoded(bytes: &[u8], unit: Unit) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    let mut text: String = char::decode_utf16(units)
        .map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
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
                // The same if it comes in pieces of any size.
                for size in 1..=written.len().max(1) {
                    let mut decoder = Decoder::default();
                    let mut read: Vec<u8> = { written.chunks(size) }
                        .flat_map(|piece| decoder.feed(piece).into_owned())
                        .collect();
                    read.extend(decoder.end());
                    let read = String::from_utf8(read).unwrap();
                    prop_assert_eq!(without_mark(&read), text.as_str());
                }
            }
        }
    }
}
