//! Lines from the host, read by a thread of their own: the host is never kept waiting by what a run does.

use std::io::{self, BufRead, BufReader, Read};

use tokio::sync::mpsc;

/// The longest line that is read. A host that sends files whole stays below.
const LONGEST: u64 = 64 << 20;
/// How many lines wait at most.
const WAITING: usize = 64;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// A line that is too long to be kept; the next one is read as if nothing were.
    TooLong,
    /// Nothing more can be read, and why.
    Broken(String),
}

/// Reads lines that are not blank until there are no more.
pub(crate) fn lines(input: impl Read + Send + 'static) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut input = BufReader::with_capacity(64 << 10, input);
    // It ends with the input or with the program: nothing waits for it.
    std::thread::spawn(move || {
        loop {
            let line = match next(&mut input, LONGEST) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => Line::Broken(error.to_string()),
            };
            let is_last = matches!(line, Line::Broken(_));
            if sender.blocking_send(line).is_err() || is_last {
                break;
            }
        }
    });
    receiver
}

fn next(input: &mut impl BufRead, longest: u64) -> io::Result<Option<Line>> {
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(longest).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == longest {
            input.skip_until(b'\n')?;
            return Ok(Some(Line::TooLong));
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Some(Line::Whole(line.trim_ascii().to_vec())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_and_long_ones_are_left_out() {
        let mut input = io::Cursor::new(b"one\r\n\n  \ntoo long a line\nlast".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = next(&mut input, 8).unwrap() {
            lines.push(line);
        }
        let whole = |text: &[u8]| Line::Whole(text.to_vec());
        assert_eq!(lines, [whole(b"one"), Line::TooLong, whole(b"last")]);
    }
}
