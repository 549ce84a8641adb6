//! The stdio transport: one JSON message per line, over the pipes of a child process.

use std::io;
use std::os::fd::OwnedFd;

use ah_conversation::encoding::Decoder;
use ah_conversation::json;
use ah_process::Pipes;
use futures_util::{Sink, Stream, sink, stream};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;

use crate::remote::error::ErrorTail;
use crate::remote::name::{clean, clean_line};

/// Maximum length of a message in bytes, so that a server that never ends its line cannot exhaust memory.
const LONGEST_LINE: usize = 32 << 20;
const READ_SIZE: usize = 64 * 1024;

/// Opens the streams of messages to and from a child. A task copies its standard error to the log and to `error_tail`.
pub(crate) fn messages(
    pipes: Pipes,
    server: &str,
    error_tail: &ErrorTail,
) -> io::Result<(
    impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + use<>,
    impl Stream<Item = ServerJsonRpcMessage> + Send + use<>,
    JoinHandle<()>,
)> {
    let stdin = Sender::from_owned_fd(OwnedFd::from(pipes.stdin))?;
    let stdout = Receiver::from_owned_fd(OwnedFd::from(pipes.stdout))?;
    let stderr = Receiver::from_owned_fd(OwnedFd::from(pipes.stderr))?;
    let (server, error_tail) = (server.to_owned(), error_tail.clone());
    let stderr_reader = tokio::spawn(log_stderr(stderr, server.clone(), error_tail.clone()));
    let sink = sink::unfold(stdin, send);
    let stream = stream::unfold(
        (Lines::new(stdout), server, error_tail),
        |(mut lines, server, error_tail)| async move {
            let message = next_message(&mut lines, &server, &error_tail).await?;
            Some((message, (lines, server, error_tail)))
        },
    );
    Ok((sink, stream, stderr_reader))
}

async fn send(mut stdin: Sender, message: ClientJsonRpcMessage) -> io::Result<Sender> {
    let mut line = json::line(&message).into_bytes();
    line.push(b'\n');
    stdin.write_all(&line).await?;
    Ok(stdin)
}

/// Returns the next message. Other lines are ignored, since programs print all kinds of things on standard output.
async fn next_message(
    lines: &mut Lines,
    server: &str,
    error_tail: &ErrorTail,
) -> Option<ServerJsonRpcMessage> {
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return None,
            Err(error) => {
                error_tail.end(error.to_string());
                return None;
            }
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        match json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(error) => {
                let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
                let start = clean_line(&text, 200);
                tracing::debug!(server, %error, "not a JSON-RPC message: {start}");
            }
        }
    }
}

/// Copies a server's standard error to the log and to `error_tail`.
async fn log_stderr(stderr: Receiver, server: String, error_tail: ErrorTail) {
    let mut lines = Lines::new(stderr);
    while let Ok(Some(line)) = lines.next().await {
        let line = clean(&String::from_utf8_lossy(line), 1_000);
        let line = line.trim_end();
        tracing::info!(server, "{line}");
        error_tail.add(line.to_owned());
    }
}

/// Reads a pipe line by line.
struct Lines {
    pipe: Receiver,
    decoder: Decoder,
    /// What was read, as UTF-8.
    buffer: Vec<u8>,
    /// Bytes as they are read.
    piece: Vec<u8>,
    /// Length of the line returned last, at the start of the buffer.
    returned: usize,
}

impl Lines {
    fn new(pipe: Receiver) -> Self {
        Self {
            pipe,
            decoder: Decoder::default(),
            buffer: Vec::new(),
            piece: Vec::with_capacity(READ_SIZE),
            returned: 0,
        }
    }

    /// Returns the next line including its line break; the last line may lack one.
    async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.drain(..self.returned);
        self.returned = 0;
        let mut scanned = 0;
        loop {
            if let Some(end) = self.buffer[scanned..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                self.returned = scanned + end + 1;
                return Ok(Some(&self.buffer[..self.returned]));
            }
            scanned = self.buffer.len();
            if scanned > LONGEST_LINE {
                let message = format!("it sent a line longer than {} MiB", LONGEST_LINE >> 20);
                return Err(io::Error::other(message));
            }
            self.piece.clear();
            if self.pipe.read_buf(&mut self.piece).await? == 0 {
                self.buffer.extend(self.decoder.end());
                self.returned = self.buffer.len();
                return Ok((self.returned > 0).then_some(&self.buffer[..]));
            }
            let piece = self.decoder.feed(&self.piece);
            self.buffer.extend_from_slice(&piece);
        }
    }
}
