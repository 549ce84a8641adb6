//! Numbered lines of a file, read as a stream: skipped and overlong parts are counted, never held in memory.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bstr::ByteSlice;
use serde_json::{Value, json};

use crate::details;

/// Limits for one line and for all lines, in bytes.
const LINE_BYTES: usize = 10_000;
const TEXT_BYTES: usize = 8 << 20;
/// Limit for the part behind the lines in which further lines are counted, in bytes.
const COUNTED: u64 = 16 << 20;

/// Range of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// The first line, from 1.
    pub(super) first: u64,
    /// Number of lines; `None` for all.
    pub(super) limit: Option<u64>,
}

/// The lines that were read.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// `number<TAB>line`, joined by line feeds, with remarks in brackets behind.
    pub(super) text: String,
    /// Number of lines in the text.
    pub(super) count: u64,
    /// Number of lines skipped before them.
    pub(super) skipped: u64,
    /// Whether the file continues behind them.
    pub(super) more: bool,
    /// The lines as they are in the file, with normalised ends, up to the limit for details.
    pub(super) plain: Vec<u8>,
    /// Number of line ends behind them, up to the limit for counting.
    pub(super) rest: u64,
    /// Whether the last of the lines has a line end.
    pub(super) is_ended: bool,
}

impl Lines {
    /// Returns the details for programs. They count what is between line ends, so that a line end at the end of the file
    /// starts one more line, which is empty.
    pub(super) fn details(&self, path: &Path, first: u64) -> Value {
        let last = u64::from(!self.more && (self.is_ended || self.count == 0));
        let plain = self.plain.to_str_lossy();
        let content = if self.more || !self.is_ended {
            plain.strip_suffix('\n').unwrap_or(&plain)
        } else {
            &plain
        };
        let total = self.skipped + self.count + last;
        json!({
            "type": "text",
            "file": {
                "filePath": path.to_string_lossy(),
                "content": details::start(content),
                "numLines": self.count + last,
                "startLine": first,
                "totalLines": total + if self.more { self.rest + 1 } else { 0 },
            },
        })
    }
}

/// Returns the words for the model that belong to details of this form: the lines with their numbers.
pub(super) fn words_of(details: &Value) -> Option<String> {
    let file = details.get("file")?;
    let content = file.get("content")?.as_str()?;
    let first = file.get("startLine").and_then(Value::as_u64).unwrap_or(1);
    // A hook may have set any number.
    let numbers = (0..).map(|at| first.saturating_add(at));
    let lines = numbers.zip(content.lines());
    let lines: Vec<_> = lines.map(|(at, line)| format!("{at}\t{line}")).collect();
    Some(lines.join("\n"))
}

/// Returns a phrase, possibly empty, if a file that starts like this is not text; it continues "is a binary file".
pub(super) fn why_binary(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Some(" that looks like text in UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`");
    }
    // Text has signs of terminals, in logs and pages of man, and signs between fields.
    let usual: &[u8] = match is_utf8(start) {
        true => b"\t\n\r\x01\x07\x08\x0b\x0c\x1b\x1c\x1d\x1e\x1f\x7f",
        false => b"\t\n\r\x08\x0c\x1b",
    };
    let is_odd = |byte: &&u8| byte.is_ascii_control() && !usual.contains(byte);
    let controls = start.iter().filter(is_odd).count();
    (start.contains(&0) || (controls > 0 && controls * 10 >= start.len())).then_some("")
}

/// Whether these bytes are UTF-8, which may be cut at the end.
fn is_utf8(start: &[u8]) -> bool {
    match std::str::from_utf8(start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

/// Reads the lines of `window`. A line ends with a line feed, with or without a carriage return before it; one at the
/// end of the file starts no further line.
pub(super) fn read(source: impl Read, window: Window) -> io::Result<Lines> {
    let mut source = BufReader::with_capacity(64 * 1024, source);
    let mut lines = Lines::default();
    while lines.skipped + 1 < window.first && source.skip_until(b'\n')? > 0 {
        lines.skipped += 1;
    }
    let mut is_lossy = false;
    let mut line = Vec::new();
    while lines.text.len() < TEXT_BYTES && window.limit.is_none_or(|limit| lines.count < limit) {
        line.clear();
        let read = (&mut source)
            .take(LINE_BYTES as u64)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        let (left_out, is_ended) = match (line.last(), source.fill_buf()?.first()) {
            (Some(b'\n'), _) => (0, true),
            (_, None) => (0, false),
            (_, Some(b'\n')) => {
                source.consume(1);
                (0, true)
            }
            _ => (source.skip_until(b'\n')?, true),
        };
        let number = window.first + lines.count;
        if number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if lines.count > 0 {
            lines.text.push('\n');
        }
        is_lossy |= push_line(&mut lines.text, number, &line, left_out);
        push_plain(&mut lines.plain, &line);
        lines.is_ended = is_ended;
        lines.count += 1;
    }
    lines.more = !source.fill_buf()?.is_empty();
    if lines.more {
        count_rest(&mut lines, source)?;
    }
    push_remarks(&mut lines, window, is_lossy);
    Ok(lines)
}

/// Adds one line, up to the limit for details.
fn push_plain(plain: &mut Vec<u8>, line: &[u8]) {
    if plain.len() < details::LIMIT {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        plain.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        plain.push(b'\n');
    }
}

/// Counts the lines behind those that were read.
fn count_rest(lines: &mut Lines, source: impl BufRead) -> io::Result<()> {
    let mut source = source.take(COUNTED);
    loop {
        let part = source.fill_buf()?;
        if part.is_empty() {
            return Ok(());
        }
        lines.rest += part.find_iter("\n").count() as u64;
        let len = part.len();
        source.consume(len);
    }
}

/// Adds one line; returns whether it has bytes that are not UTF-8.
fn push_line(text: &mut String, number: u64, line: &[u8], left_out: usize) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let whole = line.strip_suffix(b"\r").unwrap_or(line);
    // A cut may split a character, whose start is then left out.
    let cut = match (left_out, std::str::from_utf8(whole)) {
        (1.., Err(error)) if error.error_len().is_none() => &whole[..error.valid_up_to()],
        _ => whole,
    };
    let shown = String::from_utf8_lossy(cut);
    let _ = write!(text, "{number}\t{shown}");
    if left_out > 0 {
        let bytes = left_out + whole.len() - cut.len();
        let _ = write!(text, " [{bytes} more bytes in this line]");
    }
    matches!(shown, std::borrow::Cow::Owned(_))
}

fn push_remarks(lines: &mut Lines, window: Window, is_lossy: bool) {
    let next = window.first + lines.count;
    let is_whole = window.limit.is_some_and(|limit| lines.count >= limit);
    if lines.count == 0 && !lines.more && window.first == 1 {
        lines.text.push_str("[the file is empty]");
    }
    if lines.more && !is_whole {
        let _ = write!(lines.text, "\n[more of the file: read from offset {next}]");
    }
    if is_lossy {
        lines
            .text
            .push_str("\n[not all of it is UTF-8: \u{fffd} stands for other bytes]");
    }
}
