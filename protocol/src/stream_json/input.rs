//! Lines from the host, read by a separate thread, so that the host never waits for a run.

use std::io::{self, BufRead, BufReader, Read};

use tokio::sync::mpsc;

/// Upper limit of a line, well above that of hosts that send whole files.
const LONGEST: u64 = 64 << 20;
/// Upper limit of waiting lines.
const WAITING: usize = 64;

/// Result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Line without its end.
    Whole(Vec<u8>),
    /// Line above the limit, which was skipped.
    TooLong,
    /// Error after which nothing more can be read.
    Broken(String),
}

/// Reads all lines that are not blank.
pub(crate) fn lines(input: impl Read + Send + 'static) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut input = BufReader::with_capacity(64 << 10, input);
    // The thread ends with the input or with the program; nothing waits for it.
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
    fn lines_are_separated_and_long_ones_are_skipped() {
        let mut input = io::Cursor::new(b"one\r\n\n  \ntoo long a line\nlast".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = next(&mut input, 8).unwrap() {
            lines.push(line);
        }
        let whole = |text: &[u8]| Line::Whole(text.to_vec());
        assert_eq!(lines, [whole(b"one"), Line::TooLong, whole(b"last")]);
    }
}
