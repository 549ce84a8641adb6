//! JSON that other programs wrote.
//!
//! JSON can name half of a character: `"\ud83d"`, the first of the two UTF-16 units of an emoji. JavaScript and Java write it
//! where they cut a text, and Python for bytes of a file name that are no UTF-8. Such a text has no place in a `String`, so
//! `serde_json` refuses it, and a whole line, answer or file would be lost for one character. It also passes over it where a
//! part is kept as it is (`RawValue`), so the half would come out again much later. Here each half becomes U+FFFD before
//! anything is parsed, as do bytes that are no UTF-8. All else is kept, and every place in the text as well: the escape of
//! U+FFFD is as long as that of a half. A byte order mark before the text is skipped, and UTF-16 is read ([`encoding`]).
//!
//! What leaves the program is written with [`line()`]: JSON allows U+2028, U+2029 and U+0085 in strings, and some readers end a
//! line there.
//!
//! `cargo xtask check` sees to it that our crates read JSON with these functions only (`xtask/src/json.rs`).

pub mod repaired;

use std::borrow::Cow;
use std::iter;
use std::ops::{Range, RangeInclusive};

use memchr::memmem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::encoding;

/// First halves of a character beyond U+FFFF.
const FIRST: RangeInclusive<u16> = 0xd800..=0xdbff;
/// Second halves.
const SECOND: RangeInclusive<u16> = 0xdc00..=0xdfff;
/// Length of an escape: `\u` and four digits.
const LENGTH: usize = 6;
/// What takes the place of a half.
const REPLACEMENT: &str = "\\ufffd";

/// Parses a JSON text.
///
/// # Errors
///
/// If it is not JSON or not a `T`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    whole(text).read()
}

/// Parses the bytes of a JSON text.
///
/// # Errors
///
/// If they are not JSON or not a `T`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    whole_bytes(bytes).read()
}

/// Parses a part that was kept as it is, of a text that was read with one of these functions. The value may borrow from it.
///
/// # Errors
///
/// If it is not a `T`.
pub fn part<'t, T: Deserialize<'t>>(part: &'t RawValue) -> Result<T, serde_json::Error> {
    own(part.get())
}

/// Parses a text that this program wrote, without a search for halves. The value may borrow from it.
///
/// # Errors
///
/// If it is not JSON or not a `T`.
pub fn own<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// Returns a JSON text without halves of characters, borrowed if it has none. What is no JSON stays what it is.
pub fn whole(text: &str) -> Whole<'_> {
    let text = encoding::without_mark(text);
    Whole(mended(text).map_or(Cow::Borrowed(text), Cow::Owned))
}

/// Returns the text of bytes of JSON, without halves of characters.
pub fn whole_bytes(bytes: &[u8]) -> Whole<'_> {
    let text = match encoding::as_utf8(bytes) {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    };
    Whole(match text {
        Cow::Borrowed(text) => return whole(text),
        Cow::Owned(text) => Cow::Owned(mended(&text).unwrap_or(text)),
    })
}

/// Returns a value as one line of JSON, without a line end, for every reader: Node's line reader, Python's `splitlines` and
/// others split at more characters than JSON escapes.
pub fn line(value: &impl Serialize) -> String {
    // All our keys are text, which is all that could fail.
    one_line(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
}

/// Returns JSON in which no string has a character that ends a line.
pub fn one_line(json: String) -> String {
    const ENDS: [(char, &str); 3] = [
        ('\u{85}', "\\u0085"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    // In UTF-8 they begin with one of two bytes, which most texts do not have.
    if memchr::memchr2(0xC2, 0xE2, json.as_bytes()).is_none() {
        return json;
    }
    ENDS.iter()
        .fold(json, |json, (end, escape)| match json.contains(*end) {
            true => json.replace(*end, escape),
            false => json,
        })
}

/// Returns the objects that stand in a text of another kind, in order, none within another.
pub fn objects_in(text: &str) -> Vec<Map<String, Value>> {
    let text = whole(text);
    let (mut objects, mut rest) = (Vec::new(), text.as_str());
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let length = match values.next() {
            Some(Ok(object)) => {
                objects.push(object);
                values.byte_offset()
            }
            _ => 1,
        };
        rest = &rest[length..];
    }
    objects
}

/// A JSON text without halves of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole<'a>(Cow<'a, str>);

impl<'a> Whole<'a> {
    /// Parses the text. The value may borrow from it.
    ///
    /// # Errors
    ///
    /// If it is not JSON or not a `T`.
    pub fn read<'t, T: Deserialize<'t>>(&'t self) -> Result<T, serde_json::Error> {
        own(&self.0)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text, as it was given if there was nothing to replace.
    pub fn into_text(self) -> Cow<'a, str> {
        self.0
    }
}

fn mended(text: &str) -> Option<String> {
    let mut halves = halves(text).peekable();
    halves.peek()?;
    let mut mended = String::with_capacity(text.len());
    for half in halves {
        mended.push_str(&text[mended.len()..half.at]);
        mended.push_str(REPLACEMENT);
    }
    mended.push_str(&text[mended.len()..]);
    Some(mended)
}

/// Half of a character in a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half {
    /// Byte offset of its escape.
    pub at: usize,
    /// Whether it is the first one of its character.
    pub is_first: bool,
}

impl Half {
    /// Returns the place of its escape.
    pub fn range(self) -> Range<usize> {
        self.at..self.at + LENGTH
    }
}

/// Returns the halves in a JSON text that stand without the other one beside them, in order.
pub fn halves(text: &str) -> impl Iterator<Item = Half> {
    let bytes = text.as_bytes();
    let mut at = 0;
    iter::from_fn(move || {
        loop {
            at += memmem::find(&bytes[at..], b"\\u")?;
            let Some(found) = unit(bytes, at).filter(|_| !is_escaped(bytes, at)) else {
                at += 2;
                continue;
            };
            let here = at;
            at += LENGTH;
            let is_first = FIRST.contains(&found);
            if is_first && unit(bytes, at).is_some_and(|next| SECOND.contains(&next)) {
                at += LENGTH;
            } else if is_first || SECOND.contains(&found) {
                return Some(Half { at: here, is_first });
            }
        }
    })
}

/// Returns the UTF-16 unit of the escape at `at`, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + LENGTH)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

/// Whether the backslash at `at` is itself escaped: the one before it escapes it, unless that one is escaped.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let before = bytes[..at].iter().rev();
    before.take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_half_becomes_a_replacement_character_and_all_else_is_kept() {
        for (text, expected) in [
            (r#""a \ud83d b""#, Some(r#""a \ufffd b""#)),
            (r#""\uDE00""#, Some(r#""\ufffd""#)),
            (r#""\udBfF\uDc00""#, None),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ude00\ud83d""#, Some(r#""\ufffd\ufffd""#)),
            (r#""\ud83d\u0041""#, Some(r#""\ufffd\u0041""#)),
            (r#""\ud83d\n\ude00""#, Some(r#""\ufffd\n\ufffd""#)),
            (r#""\ud83d\\ude00""#, Some(r#""\ufffd\\ude00""#)),
            // An escaped backslash before a letter.
            (r#""C:\\ud83d""#, None),
            (r#""\\\ud83d""#, Some(r#""\\\ufffd""#)),
            (r#""\\\\ud83d\\\\\udc00""#, Some(r#""\\\\ud83d\\\\\ufffd""#)),
            (
                r#"{"\udc80": "\ud7ff\ue000"}"#,
                Some(r#"{"\ufffd": "\ud7ff\ue000"}"#),
            ),
            ("\"ž😀 \\ud83d\"", Some("\"ž😀 \\ufffd\"")),
            // No JSON, so there is nothing to mend.
            (r#"\ud83"#, None),
            (r#"\u"#, None),
            (r#""\ud8zz""#, None),
            ("", None),
        ] {
            assert_eq!(mended(text).as_deref(), expected, "{text}");
            if serde_json::from_str::<&RawValue>(text).is_ok() {
                from_str::<Value>(text).expect(text);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_replaced() {
        let line = b"{\"name\": \"caf\xe9 \\ud83d\", \"n\": 1}";
        let expected = serde_json::json!({"name": "caf\u{fffd} \u{fffd}", "n": 1});
        assert_eq!(from_slice::<Value>(line).unwrap(), expected);
        assert!(matches!(
            whole_bytes(b"[1]").into_text(),
            Cow::Borrowed("[1]")
        ));
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        for bytes in [
            &b"\xef\xbb\xbf[1]"[..],
            b"\xff\xfe[\x001\0]\0",
            b"\0[\x001\0]",
        ] {
            assert_eq!(from_slice::<Value>(bytes).unwrap(), serde_json::json!([1]));
        }
        assert_eq!(
            from_str::<Value>("\u{feff}[1]").unwrap(),
            serde_json::json!([1])
        );
    }

    #[test]
    fn objects_are_found_between_other_words() {
        for (text, expected) in [
            ("", vec![]),
            ("a {} b", vec!["{}"]),
            (
                "{\"a\":{\"b\":\"\\ud83d{}\"}}{ {\"c\":1}}",
                vec!["{\"a\":{\"b\":\"\u{fffd}{}\"}}", "{\"c\":1}"],
            ),
            ("{\"a\":1", vec![]),
            ("ž{\"a\":[{]}ž{\"b\":2}", vec!["{\"b\":2}"]),
        ] {
            let found: Vec<_> = objects_in(text)
                .into_iter()
                .map(|it| Value::Object(it).to_string())
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn parts_that_are_kept_as_text_have_no_halves() {
        let text = whole(r#"{"part": ["\ud83d"]}"#);
        let parsed: std::collections::BTreeMap<&str, &RawValue> = text.read().unwrap();
        assert_eq!(parsed["part"].get(), r#"["\ufffd"]"#);
    }

    /// The units of a string, any of which may be half of a character.
    fn units() -> impl Strategy<Value = Vec<u16>> {
        let unit = prop_oneof![
            0xd7fe_u16..=0xe001,
            Just(0xd83d),
            Just(0xde00),
            Just(u16::from(b'\\')),
            Just(u16::from(b'u')),
            Just(u16::from(b'"')),
            any::<u16>(),
        ];
        proptest::collection::vec(unit, 0..12)
    }

    /// Writes a string as JSON, with an escape for each unit whose bit is set or that has no other form.
    fn written(units: &[u16], escapes: u16) -> String {
        let mut text = String::from('"');
        for (index, found) in char::decode_utf16(units.iter().copied()).enumerate() {
            match found {
                Ok(character) if escapes >> (index % 16) & 1 == 0 => {
                    let quoted = serde_json::to_string(&character).unwrap();
                    text.push_str(quoted.trim_start_matches('"').strip_suffix('"').unwrap());
                }
                Ok(character) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        text.push_str(&format!("\\u{unit:04X}"));
                    }
                }
                Err(half) => text.push_str(&format!("\\u{:04x}", half.unpaired_surrogate())),
            }
        }
        text.push('"');
        text
    }

    proptest! {
        #[test]
        fn a_line_is_a_line_for_every_reader(words in proptest::collection::vec("[a\u{85}\u{2028}\u{2029}\u{b}\u{c}\u{1c}\u{1e}\r\n\"\\\\é…]{0,8}", 0..5)) {
            let value = serde_json::json!({"words": words, "more": {words.concat(): words.concat()}});
            let line = line(&value);
            let ends = |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
            prop_assert!(!line.contains(ends), "{line:?}");
            prop_assert_eq!(from_str::<Value>(&line).unwrap(), value);
        }

        #[test]
        fn a_text_with_halves_anywhere_is_the_value_with_replacements(
            strings in proptest::collection::vec((units(), any::<u16>()), 0..6),
        ) {
            let texts: Vec<_> = strings.iter().map(|(units, escapes)| written(units, *escapes)).collect();
            let document = format!("{{\"a\": [{}], \"b\": {{}}}}", texts.join(", "));
            let expected: Vec<_> = strings.iter().map(|(units, _)| String::from_utf16_lossy(units)).collect();
            let found: Value = from_str(&document).unwrap();
            prop_assert_eq!(&found, &serde_json::json!({"a": expected, "b": {}}));
            prop_assert_eq!(from_slice::<Value>(document.as_bytes()).unwrap(), found);
            let text = whole(&document);
            prop_assert_eq!(text.as_str().len(), document.len());
            let has_halves = serde_json::from_str::<Value>(&document).is_err();
            prop_assert_eq!(matches!(text.into_text(), Cow::Owned(_)), has_halves);
        }

        #[test]
        fn any_text_is_whole_after_one_pass(text in r#"["\\uUdD8cCeEfF0 é😀]{0,40}"#) {
            let once = whole(&text);
            prop_assert_eq!(once.as_str().len(), text.len());
            prop_assert!(matches!(whole(once.as_str()).into_text(), Cow::Borrowed(_)));
        }
    }
}
