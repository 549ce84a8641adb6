//! The part of a long output that is shown: its beginning and its end. What is left out between them is counted in the whole
//! output, of which only the two ends may be at hand.

use std::fmt;

use memchr::{memchr_iter, memrchr_iter};

use crate::{Content, Truncation};

/// Counts the lines of a text that comes in pieces. What is behind the last line end is a line as well.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LineCount {
    ends: u64,
    is_open: bool,
}

impl LineCount {
    /// Returns the number of lines of a text.
    pub fn of(text: impl AsRef<[u8]>) -> u64 {
        let mut count = Self::default();
        count.add(text.as_ref());
        count.lines()
    }

    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.ends += memchr_iter(b'\n', piece).count() as u64;
        if let Some(last) = piece.last() {
            self.is_open = *last != b'\n';
        }
    }

    /// Returns the number of lines so far.
    pub fn lines(self) -> u64 {
        self.ends + u64::from(self.is_open)
    }
}

/// Returns how many lines of a text lie between `head` lines at its beginning and `tail` lines at its end. `all` is the
/// number of lines with all that is left out of it, if anything is ([`ToolResult::lines`](crate::ToolResult::lines)).
pub fn lines_between(text: &str, all: Option<u64>, head: usize, tail: usize) -> u64 {
    let all = all.unwrap_or_else(|| LineCount::of(text));
    all.saturating_sub(head as u64).saturating_sub(tail as u64)
}

/// An output: its ends and its size.
#[derive(Debug, Clone, Copy)]
pub struct WholeOutput<'a> {
    /// The first bytes, or all of them.
    head: &'a [u8],
    /// The last bytes, or all of them.
    tail: &'a [u8],
    bytes: u64,
    lines: u64,
}

/// The first and last part of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excerpt<'a> {
    /// The beginning: whole lines or characters.
    pub head: &'a [u8],
    /// What is between the parts.
    pub left_out: LeftOut,
    /// The end: whole lines or characters.
    pub tail: &'a [u8],
}

/// What an excerpt leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// This many whole lines.
    Lines(u64),
    /// This many bytes, from within a line or to within a line.
    Bytes(u64),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines(1) => formatter.write_str("1 line omitted"),
            Self::Lines(lines) => write!(formatter, "{lines} lines omitted"),
            Self::Bytes(bytes) => write!(formatter, "{bytes} bytes removed from the middle"),
        }
    }
}

impl<'a> WholeOutput<'a> {
    /// Returns an output that is in memory.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self {
            head: bytes,
            tail: bytes,
            bytes: bytes.len() as u64,
            lines: LineCount::of(bytes),
        }
    }

    /// Returns the output of a content; `None` if it consists of blocks.
    pub fn of_content(content: &'a Content) -> Option<Self> {
        match content {
            Content::Bytes(bytes) => Some(Self::of(bytes)),
            Content::Spool(spool) => Some(Self {
                head: &spool.head,
                tail: &spool.tail,
                bytes: spool.len,
                lines: spool.lines,
            }),
            Content::Blocks(_) => None,
        }
    }

    /// Returns the number of its lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns its first and last part within the limits; `None` if all of it is within them.
    pub fn excerpt(&self, limit: Truncation) -> Option<Excerpt<'a>> {
        let half = limit.bytes / 2;
        let mut head = &self.head[..self.head.len().min(half)];
        let mut tail = &self.tail[self.tail.len().saturating_sub(limit.bytes - half)..];
        if let Some(most) = limit.lines
            && self.lines > most as u64
        {
            let first = first_lines(self.head, most / 2);
            let last = last_lines(self.tail, most - most / 2);
            if let (Some(head), Some(tail)) = (first, last)
                && head.len() + tail.len() <= limit.bytes
            {
                let left_out = LeftOut::Lines(self.lines - most as u64);
                return Some(Excerpt {
                    head,
                    left_out,
                    tail,
                });
            }
            head = first
                .filter(|first| first.len() < head.len())
                .unwrap_or(head);
            tail = last.filter(|last| last.len() < tail.len()).unwrap_or(tail);
        } else if self.bytes <= limit.bytes as u64 && self.is_at_hand() {
            return None;
        }
        let (head, tail) = (floor(head), ceil(tail));
        let left_out = self.bytes.saturating_sub((head.len() + tail.len()) as u64);
        Some(Excerpt {
            head,
            left_out: LeftOut::Bytes(left_out),
            tail,
        })
    }

    /// Whether the two ends are all of it.
    fn is_at_hand(&self) -> bool {
        (self.head.len() + self.tail.len()) as u64 >= self.bytes
    }
}

/// Returns the first lines of a text; `None` if it has fewer.
fn first_lines(text: &[u8], count: usize) -> Option<&[u8]> {
    let Some(before) = count.checked_sub(1) else {
        return Some(&[]);
    };
    let end = memchr_iter(b'\n', text).nth(before)?;
    Some(&text[..=end])
}

/// Returns the last lines of a text; `None` if it does not show where they begin.
fn last_lines(text: &[u8], count: usize) -> Option<&[u8]> {
    let Some(before) = count.checked_sub(1) else {
        return Some(&[]);
    };
    // The last line end belongs to the last line.
    let inner = &text[..text.len().saturating_sub(1)];
    let end = memrchr_iter(b'\n', inner).nth(before)?;
    Some(&text[end + 1..])
}

/// Removes an incomplete character at the end.
fn floor(bytes: &[u8]) -> &[u8] {
    let start = bytes.len().saturating_sub(4);
    match bytes[start..].iter().rposition(|byte| byte & 0xC0 != 0x80) {
        Some(at) if width(bytes[start + at]) > bytes.len() - start - at => &bytes[..start + at],
        _ => bytes,
    }
}

/// Removes an incomplete character at the beginning.
fn ceil(bytes: &[u8]) -> &[u8] {
    let cut = { bytes.iter().take(3) }
        .take_while(|byte| **byte & 0xC0 == 0x80)
        .count();
    &bytes[cut..]
}

/// Returns the length of the character that starts with `byte`.
fn width(byte: u8) -> usize {
    match byte {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn left_out(text: &str, bytes: usize, lines: Option<usize>) -> Option<LeftOut> {
        let whole = WholeOutput::of(text.as_bytes());
        Some(whole.excerpt(Truncation { bytes, lines })?.left_out)
    }

    #[test]
    fn lines_are_counted_in_the_whole_output() {
        let numbers = |last: usize| (1..=last).map(|n| format!("{n}\n")).collect::<String>();
        let (most, usual) = (30_000, Some(256));
        for (text, expected) in [
            (numbers(256), None),
            (numbers(257), Some(LeftOut::Lines(1))),
            (numbers(14_000), Some(LeftOut::Lines(13_744))),
            (
                numbers(14_000).trim_end().to_owned(),
                Some(LeftOut::Lines(13_744)),
            ),
            ("\n".repeat(100_000), Some(LeftOut::Lines(99_744))),
            ("x".repeat(30_001), Some(LeftOut::Bytes(1))),
            (String::new(), None),
        ] {
            let start = text.floor_char_boundary(10);
            assert_eq!(
                left_out(&text, most, usual),
                expected,
                "{:?}",
                &text[..start]
            );
        }
    }

    /// A long line beside short ones: what is shown of the short ones ends with a line.
    #[test]
    fn a_long_line_does_not_hide_what_is_known() {
        let text = format!("{}{}", "a\n".repeat(500), "x".repeat(50_000));
        let whole = WholeOutput::of(text.as_bytes());
        let limit = Truncation {
            bytes: 1_000,
            lines: Some(256),
        };
        let excerpt = whole.excerpt(limit).unwrap();
        assert_eq!((excerpt.head.len(), excerpt.tail.len()), (256, 500));
        assert_eq!(excerpt.left_out, LeftOut::Bytes(text.len() as u64 - 756));
    }

    proptest! {
        /// Whatever the output: all of it is shown or counted, in bytes or in lines, within the limits, and the count is the
        /// same if only its ends are at hand.
        #[test]
        fn what_is_shown_and_what_is_left_out_are_the_whole_output(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"\n".to_vec()), Just("ä€😀".into()), Just(b"\xff\xfe".to_vec()),
                prop::collection::vec(any::<u8>(), 0..20), Just(vec![b'x'; 60]), Just(b"short\n".to_vec()),
            ], 0..60),
            bytes in 0usize..400,
            lines in prop::option::of(0usize..20),
            cut in 400usize..500,
        ) {
            let all = pieces.concat();
            let limit = Truncation { bytes, lines };
            let whole = WholeOutput::of(&all);
            let mut count = LineCount::default();
            pieces.iter().for_each(|piece| count.add(piece));
            prop_assert_eq!(count.lines(), whole.lines());
            prop_assert_eq!(whole.lines(), all.split_inclusive(|byte| *byte == b'\n').count() as u64);
            let ends = WholeOutput {
                head: &all[..all.len().min(cut)],
                tail: &all[all.len().saturating_sub(cut)..],
                ..whole
            };
            let Some(Excerpt { head, left_out, tail }) = whole.excerpt(limit) else {
                prop_assert!(all.len() <= bytes && lines.is_none_or(|most| whole.lines() <= most as u64));
                return Ok(());
            };
            prop_assert!(all.starts_with(head) && all.ends_with(tail));
            prop_assert!(head.len() + tail.len() <= bytes.max(1));
            let exceeded = lines.filter(|most| whole.lines() > *most as u64);
            prop_assert!(exceeded.is_none_or(|most| LineCount::of(head) <= 1 + most as u64 / 2));
            match left_out {
                LeftOut::Lines(count) => {
                    prop_assert_eq!(LineCount::of(head) + count + LineCount::of(tail), whole.lines());
                    prop_assert!(count > 0);
                }
                LeftOut::Bytes(count) => prop_assert_eq!((head.len() + tail.len()) as u64 + count, all.len() as u64),
            }
            // The ends are as long as any limit.
            prop_assert_eq!(ends.excerpt(limit), whole.excerpt(limit));
        }
    }
}
