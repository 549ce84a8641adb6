//! HTTP/1.1 as far as a model's client needs it, with control of every byte: a response can be cut anywhere, arrive byte
//! by byte, or never end. Blocking, one thread per connection.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use ah_provider::script::format::Wire;

/// Size of the write buffer, unless the scenario sets another.
const BUFFER: usize = 32 * 1024;
/// Upper limit of a request body in bytes.
const LONGEST_BODY: u64 = 256 * 1024 * 1024;

/// Incoming request.
pub struct IncomingRequest {
    /// Method, such as `POST`.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Body.
    pub body: Vec<u8>,
}

/// Reads the next request of a connection; `None` when the client has closed it.
pub fn read(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<IncomingRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(io::Error::other("not a request line"));
    };
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    let length: Option<u64> = headers
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let length = length.unwrap_or(0);
    if length > LONGEST_BODY {
        return Err(io::Error::other("the body is too long"));
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(IncomingRequest {
        method,
        path,
        headers,
        body,
    }))
}

/// Reason why a response is incomplete.
#[derive(Debug)]
pub enum Broken {
    /// The scenario cut it.
    Cut,
    /// The client closed the connection.
    Closed,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// Connection to a client.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The connection itself.
    pub stream: &'a TcpStream,
    /// Whether it is a WebSocket, each of whose messages is the data of an event.
    pub is_socket: bool,
}

impl<'a> From<&'a TcpStream> for Line<'a> {
    fn from(stream: &'a TcpStream) -> Self {
        Self {
            stream,
            is_socket: false,
        }
    }
}

/// Response being written. The head is sent with the first bytes of the body.
pub struct OutgoingResponse<'a> {
    stream: &'a TcpStream,
    /// What arrived of an event; `None` unless the connection is a WebSocket.
    event: Option<Vec<u8>>,
    wire: &'a Wire,
    head: Option<String>,
    pending: Vec<u8>,
    written: usize,
}

impl<'a> OutgoingResponse<'a> {
    /// Creates a response with this status and these headers.
    pub fn new(
        line: impl Into<Line<'a>>,
        wire: &'a Wire,
        status: u16,
        headers: &[(&str, String)],
    ) -> Self {
        let mut head = format!(
            "HTTP/1.1 {status} {}\r\ntransfer-encoding: chunked\r\n",
            reason(status)
        );
        let extra = wire.headers.iter().map(|(name, value)| {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            (name.as_str(), value)
        });
        let is_replaced = |name: &str| {
            wire.headers
                .keys()
                .any(|extra| extra.eq_ignore_ascii_case(name))
        };
        let own = headers
            .iter()
            .filter(|(name, _)| !is_replaced(name))
            .cloned();
        for (name, value) in own.chain(extra) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let Line { stream, is_socket } = line.into();
        Self {
            stream,
            event: is_socket.then(Vec::new),
            wire,
            head: Some(head).filter(|_| !is_socket),
            pending: Vec::new(),
            written: 0,
        }
    }

    /// Appends to the body.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= BUFFER || self.wire.bytes_per_write.is_some() {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the buffer.
    pub fn flush(&mut self) -> Result<(), Broken> {
        let mut pending = std::mem::take(&mut self.pending);
        let left = self
            .wire
            .cut_after_bytes
            .map(|limit| limit.saturating_sub(self.written));
        let is_cut = left.is_some_and(|left| left <= pending.len());
        if let Some(left) = left.filter(|_| is_cut) {
            pending.truncate(left);
        }
        if let Some(head) = self.head.take() {
            self.stream.write_all(head.as_bytes())?;
        }
        let size = self.wire.bytes_per_write.unwrap_or(BUFFER).max(1);
        match &mut self.event {
            Some(event) => {
                event.extend_from_slice(&pending);
                self.stream.write_all(&frames(event))?;
            }
            None => {
                for piece in pending.chunks(size) {
                    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
                    chunk.extend_from_slice(piece);
                    chunk.extend_from_slice(b"\r\n");
                    self.stream.write_all(&chunk)?;
                }
            }
        }
        self.written += pending.len();
        if is_cut { Err(self.cut()) } else { Ok(()) }
    }

    /// Writes the buffer and sleeps.
    pub fn wait(&mut self, time: Duration) -> Result<(), Broken> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        std::thread::sleep(time);
        Ok(())
    }

    /// Ends the body.
    pub fn finish(mut self) -> Result<(), Broken> {
        self.flush()?;
        match self.event {
            Some(_) => Ok(()),
            None => Ok(self.stream.write_all(b"0\r\n\r\n")?),
        }
    }

    /// Closes the connection in the middle of the body.
    pub fn cut(&self) -> Broken {
        // The connection may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
        Broken::Cut
    }

    /// Sends nothing more until the client disconnects, except `ping` if the scenario sets an interval.
    pub fn hang(&mut self, ping: &[u8]) -> Broken {
        let every = self.wire.ping_every_ms.map(Duration::from_millis);
        let mut waste = [0; 1024];
        if !self.pending.is_empty()
            && let Err(broken) = self.flush()
        {
            return broken;
        }
        if self.stream.set_read_timeout(every).is_err() {
            return Broken::Closed;
        }
        loop {
            match (&mut &*self.stream).read(&mut waste) {
                Ok(0) => return Broken::Closed,
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    self.pending.extend_from_slice(ping);
                    if let Err(broken) = self.flush() {
                        return broken;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Broken::Closed,
            }
        }
    }
}

/// Takes the complete events from `bytes`; returns the WebSocket messages with their data.
fn frames(bytes: &mut Vec<u8>) -> Vec<u8> {
    let mut frames = Vec::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
        let event: Vec<_> = bytes.drain(..end + 2).collect();
        let lines = event.split(|byte| *byte == b'\n');
        for data in lines.filter_map(|line| line.strip_prefix(b"data: ")) {
            frames.push(0x81);
            match (u8::try_from(data.len()), u16::try_from(data.len())) {
                (Ok(short @ ..126), _) => frames.push(short),
                (_, Ok(middle)) => {
                    frames.push(126);
                    frames.extend(middle.to_be_bytes());
                }
                _ => {
                    frames.push(127);
                    frames.extend((data.len() as u64).to_be_bytes());
                }
            }
            frames.extend_from_slice(data);
        }
    }
    frames
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        529 => "Overloaded",
        _ => "Unnamed",
    }
}
