//! Server-sent events without the server.
//!
//! Providers differ in what they stream but not in how they frame it, and the bugs live in the framing: an event
//! split across two reads, a `\r\n` split in two, data of several lines. So the framing is a plain value that is
//! given bytes and asked for events. Reading from a socket, and what the events mean, is left to others.

use memchr::{memchr, memchr2};

/// An event may not be longer than this unless the caller says otherwise.
pub const DEFAULT_LIMIT: usize = 64 << 20;

/// Turns bytes, in whatever pieces they arrive, into events.
#[derive(Debug)]
pub struct Decoder {
    /// Bytes that have arrived, from before [`Self::line_start`] on.
    buffer: Vec<u8>,
    /// Where the first line begins that is not read yet.
    line_start: usize,
    /// From where on line ends are still to be looked for.
    scanned: usize,
    /// Whether the last line ended with `\r`, so that a `\n` right after it still belongs to that end.
    after_carriage_return: bool,
    /// Whether no line was read yet: a byte order mark may stand before the first.
    is_first_line: bool,
    limit: usize,
    name: String,
    data: String,
    has_data: bool,
    /// Whether the event at hand was given out, so that the next one starts empty.
    is_given: bool,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of the `event` field, empty where there was none.
    pub name: &'a str,
    /// The values of the `data` fields, joined by newlines.
    pub data: &'a str,
}

/// Why bytes are not a stream of events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line is not valid UTF-8.
    #[error("the event stream is not valid UTF-8")]
    NotUtf8,
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
    /// A decoder that refuses events of more than `limit` bytes.
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

    /// Takes the next bytes. Their events are to be fetched with [`Self::next_event`].
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.line_start);
        self.scanned -= self.line_start;
        self.line_start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next event that is whole, or `None` until more bytes are fed.
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

    /// The event that the end of the stream cut off before its blank line, if there is one. What it holds may be
    /// cut as well.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, Error> {
        self.feed(b"\n\n");
        self.next_event()
    }

    fn start_event(&mut self) {
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }

    /// Start and end of the next whole line, without its line end.
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
        let line = std::str::from_utf8(line).map_err(|_| Error::NotUtf8)?;
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
            // Comments have an empty name; `id` and `retry` are for clients that reconnect.
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
    fn framing() {
        for (stream, expected) in [
            ("event: a\ndata: 1\n\n", "a=1"),
            ("event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", "a=1 | =2"),
            ("event: a\rdata: 1\r\rdata: 2\r\r", "a=1 | =2"),
            ("data: 1\ndata: 2\ndata\ndata:  3\n\n", "=1\n2\n\n 3"),
            ("data:1\n\n", "=1"),
            ("\u{feff}data: 1\n\n", "=1"),
            ("\u{feff}\u{feff}data: 1\n\n", ""),
            (": hello\n\n:\ndata: 1\n: between\ndata: 2\n\n", "=1\n2"),
            ("event: a\n\ndata: 1\n\n", "=1"), // No data, no event, and its name is not kept.
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
    fn faults() {
        assert_eq!(decode(&[b"data: \xff\n\n"]), Err(Error::NotUtf8));
        let too_long = Err(Error::TooLong { limit: 100 });
        assert_eq!(decode(&[&b"x".repeat(101)]), too_long);
        assert_eq!(
            decode(&[&b"data: 45678901234567890\n".repeat(10)]),
            too_long
        );
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
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
        fn garbage_is_no_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
            let _ = decode(&pieces);
        }
    }
}
