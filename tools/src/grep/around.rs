//! Shows of a long line the part around its first match: the start of a minified file says nothing about it.

use std::cell::RefCell;
use std::io::{self, Write};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::capped::Capped;

/// Limit for the part of a line that is shown, in bytes.
pub(super) const MAX_COLUMNS: usize = 2000;
/// Bytes that are shown before a match.
const BEFORE: usize = MAX_COLUMNS / 4;

/// The output of a file, which the printer and [`Around`] write to.
pub(super) struct Shared<'a>(pub(super) &'a RefCell<Capped>);

impl Write for Shared<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes matches on to the printer, but for those with long lines.
pub(super) struct Around<'a, S> {
    pub(super) printer: S,
    pub(super) matcher: &'a RegexMatcher,
    /// Where long lines go to; `None` if no lines are shown.
    pub(super) output: Option<&'a RefCell<Capped>>,
    /// The path in front of each line.
    pub(super) path: Option<&'a str>,
    pub(super) matches_only: bool,
    /// Whether the file is binary.
    pub(super) is_binary: bool,
}

impl<'a, S> Around<'a, S> {
    /// Returns the output for lines that the printer cannot show.
    fn output_for<'l>(&self, mut lines: impl Iterator<Item = &'l [u8]>) -> Option<Shared<'a>> {
        let is_long = lines.any(|line| line.len() > MAX_COLUMNS);
        // Of a binary file, the printer says only that it matches.
        let output = self.output.filter(|_| is_long && !self.is_binary);
        output.map(Shared)
    }

    /// Writes what stands before a line.
    fn write_start(
        &self,
        output: &mut Shared<'_>,
        number: Option<u64>,
        sign: char,
    ) -> io::Result<()> {
        if let Some(path) = self.path {
            write!(output, "{path}{sign}")?;
        }
        number.map_or(Ok(()), |number| write!(output, "{number}{sign}"))
    }

    fn write_match(
        &self,
        output: &mut Shared<'_>,
        number: Option<u64>,
        line: &[u8],
    ) -> io::Result<()> {
        let found = self.matches(line);
        if self.matches_only {
            for (start, end) in found {
                self.write_start(output, number, ':')?;
                output.write_all(&part(&line[start..end], &[]))?;
                output.write_all(b"\n")?;
            }
            return Ok(());
        }
        self.write_start(output, number, ':')?;
        output.write_all(&part(line, &found))?;
        output.write_all(b"\n")
    }

    fn matches(&self, line: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        // This matcher has no errors.
        let _ = self.matcher.find_iter(line, |place| {
            found.push((place.start(), place.end()));
            true
        });
        found
    }
}

impl<S: Sink<Error = io::Error>> Sink for Around<'_, S> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let Some(mut output) = self.output_for(found.lines()) else {
            return self.printer.matched(searcher, found);
        };
        for (number, line) in (0..).zip(found.lines()) {
            let number = found.line_number().map(|first| first + number);
            self.write_match(&mut output, number, without_end(line))?;
        }
        Ok(true)
    }

    fn context(&mut self, searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let line = without_end(context.bytes());
        let Some(mut output) = self.output_for(std::iter::once(line)) else {
            return self.printer.context(searcher, context);
        };
        self.write_start(&mut output, context.line_number(), '-')?;
        output.write_all(&part(line, &[]))?;
        output.write_all(b"\n")?;
        Ok(true)
    }

    fn context_break(&mut self, searcher: &Searcher) -> io::Result<bool> {
        self.printer.context_break(searcher)
    }

    fn binary_data(&mut self, searcher: &Searcher, offset: u64) -> io::Result<bool> {
        self.is_binary = true;
        self.printer.binary_data(searcher, offset)
    }

    fn begin(&mut self, searcher: &Searcher) -> io::Result<bool> {
        self.printer.begin(searcher)
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.printer.finish(searcher, finish)
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Returns the part of a line around the first match, with what is left out of it.
fn part(line: &[u8], found: &[(usize, usize)]) -> Vec<u8> {
    if line.len() <= MAX_COLUMNS {
        return line.to_vec();
    }
    let first = found.first().map_or(0, |(start, _)| *start);
    let latest = line.len() - MAX_COLUMNS;
    let start = character(line, first.saturating_sub(BEFORE).min(latest));
    let end = character(line, (start + MAX_COLUMNS).min(line.len()));
    let is_shown = |(from, to): &(usize, usize)| *from >= start && *to <= end;
    let more = found.iter().filter(|place| !is_shown(place)).count();
    let mut part = Vec::new();
    if start > 0 {
        part.extend_from_slice(format!("[{start} bytes ...] ").as_bytes());
    }
    part.extend_from_slice(&line[start..end]);
    let matches = match more {
        0 => String::new(),
        1 => ", 1 more match".to_owned(),
        more => format!(", {more} more matches"),
    };
    let after = line.len() - end;
    if after > 0 || more > 0 {
        part.extend_from_slice(format!(" [... {after} bytes{matches}]").as_bytes());
    }
    part
}

/// Returns the beginning of the character at a place.
fn character(line: &[u8], place: usize) -> usize {
    let is_within = |at: &usize| line.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let back = place.saturating_sub(3);
    (back..=place)
        .rev()
        .find(|at| !is_within(at))
        .unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, found: &[&str]) -> String {
        let places = found.iter().map(|word| {
            let start = line.find(word).unwrap();
            (start, start + word.len())
        });
        let places: Vec<_> = places.collect();
        String::from_utf8(part(line.as_bytes(), &places)).unwrap()
    }

    #[test]
    fn the_part_around_the_first_match_is_shown() {
        let line = format!("{}NEEDLE{}LAST", "ä".repeat(3_000), "b".repeat(6_000));
        let text = shown(&line, &["NEEDLE", "LAST"]);
        assert!(text.starts_with("[5500 bytes ...] ää"), "{text}");
        assert!(text.contains("äNEEDLEb"), "{text}");
        assert!(text.ends_with("b [... 4510 bytes, 1 more match]"), "{text}");
        let text = shown(&line, &["LAST"]);
        assert!(text.ends_with("bLAST"), "{text}");
        let text = shown(&line, &[]);
        assert!(
            text.starts_with("ä") && text.ends_with(" [... 10010 bytes]"),
            "{text}"
        );
        assert_eq!(shown("short", &[]), "short");
    }

    #[test]
    fn all_bytes_are_shown_or_counted() {
        for length in [2_001, 2_500, 9_999] {
            for at in [0, 1, 499, 500, 501, 1_000, 2_000, length - 3] {
                let mut line = vec![b'x'; length];
                let at = at.min(length - 3);
                line[at..at + 3].copy_from_slice(b"yyy");
                let text = String::from_utf8(part(&line, &[(at, at + 3)])).unwrap();
                assert!(text.contains("yyy"));
                let kept = text.matches(['x', 'y']).count() - text.matches("bytes").count();
                let counts = text
                    .split(['[', ']'])
                    .filter(|words| words.contains("bytes"));
                let counts = counts.filter_map(|words| {
                    words.split(' ').find_map(|word| word.parse::<usize>().ok())
                });
                assert_eq!(kept + counts.sum::<usize>(), length, "{at} of {length}");
            }
        }
    }
}
