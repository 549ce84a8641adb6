//! Lines from the host, read by a separate thread, so that the host never waits for a run.

use std::io::{self, BufRead, BufReader, Read};

use ah_conversation::encoding::Decoder;
use tokio::sync::mpsc;

/// Upper limit of a line, well above that of hosts that send whole files.
const LONGEST: u64 = 64 << 20;
/// Upper limit of waiting lines.
const WAITING: usize = 64;

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

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
    let mut input = BufReader::with_capacity(READ_SIZE, Decoded::new(input));
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

/// An input as UTF-8.
struct Decoded<R> {
    input: R,
    decoder: Decoder,
    buffer: Vec<u8>,
    ready: io::Cursor<Vec<u8>>,
}

impl<R: Read> Decoded<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            decoder: Decoder::default(),
            buffer: vec![0; READ_SIZE],
            ready: io::Cursor::default(),
        }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.ready.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            let read = self.input.read(&mut self.buffer)?;
            let piece = match read {
                0 => self.decoder.end(),
                _ => self.decoder.feed(&self.buffer[..read]).into_owned(),
            };
            if read == 0 && piece.is_empty() {
                return Ok(0);
            }
            self.ready = io::Cursor::new(piece);
        }
    }
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

    #[test]
    fn lines_in_utf_16_are_read() {
        // The first letter's bytes are those of a line end, too.
        let text = "\u{feff}上 😀\r\n\r\nlast";
        for bytes_of in [u16::to_le_bytes, u16::to_be_bytes] {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(bytes_of).collect();
            let mut lines = lines(io::Cursor::new(bytes));
            let read: Vec<_> = std::iter::from_fn(|| lines.blocking_recv()).collect();
            let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
            assert_eq!(read, [whole("\u{feff}上 😀"), whole("last")]);
        }
    }
}
