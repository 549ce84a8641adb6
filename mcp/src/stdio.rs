//! One JSON message per line, over the pipes of a child.

use std::io;
use std::os::fd::OwnedFd;

use ah_process::Pipes;
use futures_util::{Sink, Stream, sink, stream};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;

use crate::fault::LastWords;
use crate::name::clean_line;

/// No message is longer: a server that never ends its line shall not take all memory.
const LONGEST_LINE: usize = 32 << 20;
const PIECE: usize = 64 * 1024;

/// Messages to and from a child. A task reads what it says besides, for the log; the last of it for `last_words`.
pub(crate) fn messages(
    pipes: Pipes,
    server: &str,
    last_words: &LastWords,
) -> io::Result<(
    impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + use<>,
    impl Stream<Item = ServerJsonRpcMessage> + Send + use<>,
    JoinHandle<()>,
)> {
    let stdin = Sender::from_owned_fd(OwnedFd::from(pipes.stdin))?;
    let stdout = Receiver::from_owned_fd(OwnedFd::from(pipes.stdout))?;
    let stderr = Receiver::from_owned_fd(OwnedFd::from(pipes.stderr))?;
    let (server, last_words) = (server.to_owned(), last_words.clone());
    let listener = tokio::spawn(listen(stderr, server.clone(), last_words.clone()));
    let sink = sink::unfold(stdin, send);
    let stream = stream::unfold(
        (Lines::new(stdout), server, last_words),
        |(mut lines, server, last_words)| async move {
            let message = next_message(&mut lines, &server, &last_words).await?;
            Some((message, (lines, server, last_words)))
        },
    );
    Ok((sink, stream, listener))
}

async fn send(mut stdin: Sender, message: ClientJsonRpcMessage) -> io::Result<Sender> {
    let mut line = serde_json::to_vec(&message)?;
    line.push(b'\n');
    stdin.write_all(&line).await?;
    Ok(stdin)
}

/// The next line that is a message. Programs print all kinds of things on their standard output.
async fn next_message(
    lines: &mut Lines,
    server: &str,
    last_words: &LastWords,
) -> Option<ServerJsonRpcMessage> {
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return None,
            Err(fault) => {
                last_words.add(fault.to_string());
                return None;
            }
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(fault) => {
                let start = String::from_utf8_lossy(&line[..line.len().min(200)]);
                let start = clean_line(&start, 200);
                tracing::debug!(server, %fault, "no message: {start}");
            }
        }
    }
}

/// Writes what a server says besides into the log.
async fn listen(stderr: Receiver, server: String, last_words: LastWords) {
    let mut lines = Lines::new(stderr);
    while let Ok(Some(line)) = lines.next().await {
        let line = clean_line(&String::from_utf8_lossy(line), 1_000);
        tracing::info!(server, "{line}");
        last_words.add(line);
    }
}

/// The lines of a pipe.
struct Lines {
    pipe: Receiver,
    buffer: Vec<u8>,
    /// How much of the buffer was given as the last line.
    given: usize,
}

impl Lines {
    fn new(pipe: Receiver) -> Self {
        Self {
            pipe,
            buffer: Vec::new(),
            given: 0,
        }
    }

    /// The next line with its end, or what there is at the end of all.
    async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.drain(..self.given);
        self.given = 0;
        let mut scanned = 0;
        loop {
            if let Some(end) = self.buffer[scanned..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                self.given = scanned + end + 1;
                return Ok(Some(&self.buffer[..self.given]));
            }
            scanned = self.buffer.len();
            if scanned > LONGEST_LINE {
                let message = format!("it sent a line of more than {} MiB", LONGEST_LINE >> 20);
                return Err(io::Error::other(message));
            }
            self.buffer.reserve(PIECE);
            if self.pipe.read_buf(&mut self.buffer).await? == 0 {
                self.given = scanned;
                return Ok((scanned > 0).then_some(&self.buffer[..]));
            }
        }
    }
}
