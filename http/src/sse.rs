//! A decoder of server-sent events, without I/O.
//!
//! All providers use the same framing, which has its pitfalls: an event or a `\r\n` that is split across two reads, data
//! of several lines. The decoder is a plain value that accepts bytes and returns events. Reading from a socket and the
//! meaning of the events are left to the callers.

use memchr::{memchr, memchr2};

/// Default length limit of an event, in bytes.
pub const DEFAULT_LIMIT: usize = 64 << 20;

/// Decodes bytes, in pieces of any size, to events.
#[derive(Debug)]
pub struct Decoder {
    /// Bytes that are not decoded yet, and some before them, up to [`Self::line_start`].
    buffer: Vec<u8>,
    /// Offset of the next line to be read.
    line_start: usize,
    /// Offset up to which line ends were searched for.
    scanned: usize,
    /// Whether the last line ended with `\r`; a `\n` after it belongs to the same line end.
    after_carriage_return: bool,
    /// Whether no line was read yet; the first one may have a byte order mark.
    is_first_line: bool,
    limit: usize,
    name: String,
    data: String,
    has_data: bool,
    /// Whether the current event was returned and has to be cleared.
    is_given: bool,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Value of the `event` field, or an empty string.
    pub name: &'a str,
    /// Values of the `data` fields, joined by newlines.
    pub data: &'a str,
}

/// Error of an invalid stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An event is longer than the limit.
    #[error("an event of the stream is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// Returns a decoder that rejects events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            line_start: 0,
            scanned: 0,
            after_carriage_return: false,
            is_first_line: true,
            limit,
            name: String::new(),
            data: String::new(),
            has_data: false,
            is_given: false,
        }
    }

    /// Accepts the next bytes. [`Self::next_event`] returns their events.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.line_start);
        self.scanned -= self.line_start;
        self.line_start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete event, or `None` until more bytes are fed.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        if std::mem::take(&mut self.is_given) {
            self.start_event();
        }
        while let Some((start, end)) = self.next_line() {
            if start < end {
                self.read_line(start, end)?;
            } else if self.has_data {
                self.is_given = true;
                return Ok(Some(Event {
                    name: &self.name,
                    data: &self.data,
                }));
            } else {
                self.start_event();
            }
        }
        let pending = self.buffer.len() - self.line_start;
        self.check_limit(pending)?;
        Ok(None)
    }

    /// Ends the stream and returns the last event if its blank line is missing. Its data may be incomplete.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, Error> {
        self.feed(b"\n\n");
        self.next_event()
    }

    fn start_event(&mut self) {
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }

    /// Returns start and end of the next complete line, without its line end.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        if self.after_carriage_return {
            let next = *self.buffer.get(self.line_start)?;
            self.after_carriage_return = false;
            if next == b'\n' {
                self.line_start += 1;
                self.scanned = self.line_start;
            }
        }
        let Some(offset) = memchr2(b'\n', b'\r', &self.buffer[self.scanned..]) else {
            self.scanned = self.buffer.len();
            return None;
        };
        let end = self.scanned + offset;
        let start = std::mem::replace(&mut self.line_start, end + 1);
        self.scanned = end + 1;
        self.after_carriage_return = self.buffer[end] == b'\r';
        Some((start, end))
    }

    fn read_line(&mut self, start: usize, end: usize) -> Result<(), Error> {
        self.check_limit(end - start)?;
        let mut line = &self.buffer[start..end];
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        // As the standard decodes it (WHATWG HTML, 9.2.5): one bad byte does not cost an answer.
        let line = &*String::from_utf8_lossy(line);
        let (field, value) = match memchr(b':', line.as_bytes()) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, ""),
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.name),
            // Comments have an empty field name; `id` and `retry` are for clients that reconnect.
            _ => {}
        }
        Ok(())
    }

    fn check_limit(&self, more: usize) -> Result<(), Error> {
        if self.data.len() + more > self.limit {
            return Err(Error::TooLong { limit: self.limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<String, Error> {
        let mut decoder = Decoder::new(100);
        let mut events = Vec::new();
        let mut show = |event: Event| events.push(format!("{}={}", event.name, event.data));
        for piece in pieces {
            decoder.feed(piece);
            while let Some(event) = decoder.next_event()? {
                show(event);
            }
        }
        if let Some(event) = decoder.finish()? {
            show(event);
        }
        Ok(events.join(" | "))
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        for (stream, expected) in [
            ("event: a\ndata: 1\n\n", "a=1"),
            ("event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", "a=1 | =2"),
            ("event: a\rdata: 1\r\rdata: 2\r\r", "a=1 | =2"),
            ("data: 1\ndata: 2\ndata\ndata:  3\n\n", "=1\n2\n\n 3"),
            ("data:1\n\n", "=1"),
            ("\u{feff}data: 1\n\n", "=1"),
            ("\u{feff}\u{feff}data: 1\n\n", ""),
            (": hello\n\n:\ndata: 1\n: between\ndata: 2\n\n", "=1\n2"),
            ("event: a\n\ndata: 1\n\n", "=1"), // Without data there is no event, and its name is dropped.
            ("data\n\n", "="),
            ("id: 7\nretry: 10\nDATA: x\ndatax: y\ndata: 1\n\n", "=1"),
            ("data: a:b\n\n", "=a:b"),
            ("data: 1", "=1"), // The end of the stream ends the event.
            ("data: 1\n", "=1"),
            ("data: 1\r", "=1"),
            ("data: 1\n\n\n\n", "=1"),
            ("", ""),
            ("data: žluť 🦀\n\n", "=žluť 🦀"),
        ] {
            let bytes = stream.as_bytes();
            assert_eq!(decode(&[bytes]).unwrap(), expected, "{stream:?}");
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                assert_eq!(
                    decode(&[first, second]).unwrap(),
                    expected,
                    "{stream:?} cut at {at}"
                );
            }
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_replaced() {
        assert_eq!(decode(&[b"data: a\xffb\n\n"]).unwrap(), "=a\u{fffd}b");
    }

    #[test]
    fn long_events_are_errors() {
        let too_long = Err(Error::TooLong { limit: 100 });
        assert_eq!(decode(&[&b"x".repeat(101)]), too_long);
        assert_eq!(
            decode(&[&b"data: 45678901234567890\n".repeat(10)]),
            too_long
        );
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same_events(
            lines in proptest::collection::vec("(data|event|id|:)?[: ]{0,2}[a-zé🦀]{0,3}(\n|\r|\r\n){1,3}", 0..8),
            cuts in proptest::collection::vec(0usize..200, 0..6),
        ) {
            let stream = lines.concat();
            let bytes = stream.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(decode(&pieces), decode(&[bytes]));
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
            let _ = decode(&pieces);
        }
    }
}
