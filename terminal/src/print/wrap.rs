//! Notices, lists and hints in rows that break between words. What the terminal breaks itself, it breaks within words.
//!
//! Answers and tool calls are laid out by `ah_render`, and the outputs of commands are left to the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr;

/// Returns the columns that a text takes, whose colours take none.
pub fn width(text: &str) -> usize {
    strip_str(text).map(UnicodeWidthStr::width).sum()
}

/// Returns the lines of `text` in rows of at most `columns`. Further rows of a line stand below its text: behind its
/// indentation, or below the second column of a list. A word that is longer than a row is left whole, and so are shell
/// commands to copy, of which the terminal makes one line.
pub fn at_words(text: &str, columns: usize) -> Cow<'_, str> {
    if columns == 0 || text.lines().all(|line| width(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let mut wrapped = String::with_capacity(text.len() + text.len() / 8);
    for line in text.split_inclusive('\n') {
        let words = line.trim_end_matches(['\r', '\n']);
        let is_command = words.contains(" && ") || words.trim_start().starts_with("$ ");
        if width(words) <= columns || is_command {
            wrapped.push_str(words);
        } else {
            break_line(words, columns, &mut wrapped);
        }
        wrapped.push_str(&line[words.len()..]);
    }
    Cow::Owned(wrapped)
}

fn break_line(line: &str, columns: usize, wrapped: &mut String) {
    let hang = hang(line, columns);
    let mut at = 0;
    let mut blanks = 0;
    for piece in line.split_inclusive(' ') {
        let word = piece.trim_end_matches(' ');
        let wide = width(word);
        if wide > 0 && at + blanks + wide > columns && at > hang {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(hang));
            (at, blanks) = (hang, 0);
        }
        if wide > 0 {
            wrapped.push_str(&" ".repeat(blanks));
            at += blanks + wide;
            blanks = 0;
        }
        wrapped.push_str(word);
        blanks += piece.len() - word.len();
    }
    // What is typed behind a prompt is apart from it.
    wrapped.push_str(&" ".repeat(blanks.min(columns.saturating_sub(at))));
}

/// Beginning of what a person has said.
const SAID: &str = "> ";

/// Returns the column of the further rows of a line.
fn hang(line: &str, columns: usize) -> usize {
    let text: String = strip_str(line).collect();
    if text.starts_with(SAID) {
        return SAID.len();
    }
    let indent = text.len() - text.trim_start_matches(' ').len();
    let second = text[indent..].find("  ").map(|gap| {
        let gap = indent + gap;
        let blanks = text[gap..].len() - text[gap..].trim_start_matches(' ').len();
        text[..gap].width() + blanks
    });
    match second {
        Some(second) if second <= columns / 2 => second,
        _ => indent.min(columns / 2),
    }
}

/// A stream of lines that break between words. A line is written when it is complete, or at a flush.
#[derive(Debug)]
pub struct Wrapped<W: Write> {
    stream: W,
    columns: usize,
    open: Vec<u8>,
}

impl<W: Write> Wrapped<W> {
    /// Returns a stream of rows of this width before `stream`; with 0 columns, lines are as long as they are.
    pub fn new(stream: W, columns: usize) -> Self {
        Self {
            stream,
            columns,
            open: Vec::new(),
        }
    }

    fn write_open(&mut self, end: usize) -> io::Result<()> {
        let lines: Vec<u8> = self.open.drain(..end).collect();
        match std::str::from_utf8(&lines) {
            Ok(text) => {
                let rows = at_words(text, self.columns);
                self.stream.write_all(rows.as_bytes())
            }
            Err(_) => self.stream.write_all(&lines),
        }
    }
}

impl<W: Write> Write for Wrapped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open.extend_from_slice(bytes);
        if let Some(end) = self.open.iter().rposition(|byte| *byte == b'\n') {
            self.write_open(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_open(self.open.len())?;
        self.stream.flush()
    }
}

impl<W: Write> Drop for Wrapped<W> {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_between_words_below_their_text() {
        for (text, expected) in [
            ("short\n", "short\n"),
            (
                "the session is held by another process\n",
                "the session is held\nby another process\n",
            ),
            (
                "  indented lines stay indented\n",
                "  indented lines\n  stay indented\n",
            ),
            (
                "  /cost  tokens and cost\n",
                "  /cost  tokens and\n         cost\n",
            ),
            (
                "see https://host.example/a/long/path now",
                "see\nhttps://host.example/a/long/path\nnow",
            ),
            (
                "\x1b[1;33ma warning of some length\x1b[0m\nend",
                "\x1b[1;33ma warning of some\nlength\x1b[0m\nend",
            ),
            ("日本語 日本語 日本語 日", "日本語 日本語 日本語\n日"),
            ("> say it in a few words\n", "> say it in a few\n  words\n"),
            (
                "Trust it? [y]es, Enter = not now ",
                "Trust it? [y]es,\nEnter = not now ",
            ),
            (
                "  $ ls -la ~ and all of this\n",
                "  $ ls -la ~ and all of this\n",
            ),
        ] {
            assert_eq!(at_words(text, 20), expected);
        }
        assert_eq!(at_words("a line", 0), "a line");
    }

    #[test]
    fn a_stream_shows_lines_when_they_are_complete() {
        let mut shown = Vec::new();
        {
            let mut stream = Wrapped::new(&mut shown, 8);
            write!(stream, "one two ").unwrap();
            write!(stream, "three\nfour? ").unwrap();
            stream.flush().unwrap();
            write!(stream, "five").unwrap();
        }
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "one two\nthree\nfour? five"
        );
    }

    proptest! {
        #[test]
        fn no_word_is_broken_and_none_is_lost(
            text in "( {0,4})(\\[?[a-z日é]{1,24}[.,)]?( |  |\n)){0,40}",
            columns in 20usize..120,
        ) {
            let wrapped = at_words(&text, columns);
            let words: Vec<_> = text.split_whitespace().collect();
            let left: Vec<_> = wrapped.split_whitespace().collect();
            prop_assert_eq!(&words, &left);
            for row in wrapped.lines() {
                let long = row.split_whitespace().any(|word| width(word) > columns / 2);
                prop_assert!(long || width(row.trim_end()) <= columns, "{row:?}");
            }
        }
    }
}
