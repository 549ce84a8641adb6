//! A host of the Agent SDKs' protocol at the other end of a WebSocket: each text frame is one message. A host drives its session, so
//! the run waits for one that reads slowly, as for one at a pipe; one that reads nothing for a minute counts as gone.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::{Buf as _, Bytes};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;

/// Longest message, in bytes: a prompt with pictures.
pub(crate) const LONGEST: usize = 64 * 1024 * 1024;
/// Messages that wait in each direction.
const WAITING: usize = 16;
/// Time within which a host has to take a message.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two pings.
const PING: Duration = Duration::from_secs(30);
/// Longest reason of a closing frame, in bytes (RFC 6455, 5.5).
const REASON: usize = 123;

/// Has a session driven by a host, on a thread of its own. Returns what receives the end: why it failed, if it did.
pub type Drive =
    Arc<dyn Fn(Driven, HostStreams) -> oneshot::Receiver<Result<(), String>> + Send + Sync>;

/// A session as a host wants to drive it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Driven {
    /// Id of the session to continue; `None` for a new one.
    pub resume: Option<String>,
    /// Whether it goes on in a copy of that session.
    pub fork_session: bool,
    /// The model; `None` for that of the session or of the settings.
    pub model: Option<String>,
    /// Whether the host wants answers piece by piece.
    pub include_partial_messages: bool,
}

/// What a host and a session say to each other by the protocol of the Agent SDKs: a JSON message a line.
pub struct HostStreams {
    /// Lines of the host, until it is gone.
    pub input: Box<dyn Read + Send>,
    /// Lines for the host, each written at once.
    pub output: Box<dyn Write + Send>,
}

/// Lets the host drive a session until one of both is gone, or `stop` is cancelled.
pub(crate) async fn drive(
    socket: WebSocket,
    driven: Driven,
    begin: &Drive,
    stop: &CancellationToken,
) {
    let (heard, lines) = channel(WAITING);
    let (said, mut answers) = channel(WAITING);
    let streams = HostStreams {
        input: Box::new(Lines(lines, Bytes::new())),
        output: Box::new(Answers(said)),
    };
    let mut end = begin(driven, streams);
    let (mut sink, mut stream) = socket.split();
    // Dropped when the host says no more, which ends the input of the session.
    let mut heard = Some(heard);
    let mut pings = interval(PING);
    let mut ended = None;
    loop {
        let message = tokio::select! {
            line = answers.recv() => match line {
                Some(line) => Message::Text(line),
                None => break,
            },
            frame = stream.next(), if heard.is_some() => {
                if !hear(frame, &mut heard).await {
                    heard = None;
                }
                continue;
            },
            result = &mut end, if ended.is_none() => {
                // What was said before comes first.
                ended = Some(result.unwrap_or_else(|_| Err("the session ended unexpectedly".to_owned())));
                continue;
            }
            _ = pings.tick() => Message::Ping(Bytes::new()),
            () = stop.cancelled() => break,
        };
        match timeout(PATIENCE, sink.send(message)).await {
            Ok(Ok(())) => {}
            // It is gone.
            Ok(Err(_)) | Err(_) => return,
        }
    }
    if ended.is_none() && !stop.is_cancelled() {
        // The session says no more, and ends.
        ended = timeout(PATIENCE, end).await.ok().and_then(Result::ok);
    }
    let (code, reason) = match ended {
        Some(Err(reason)) => (close_code::ERROR, reason),
        _ if stop.is_cancelled() => (close_code::AWAY, "the server is stopping".to_owned()),
        _ => (close_code::NORMAL, String::new()),
    };
    let frame = CloseFrame {
        code,
        reason: reason[..reason.floor_char_boundary(REASON)].into(),
    };
    let closing = async {
        // It may have closed, or be gone already.
        let _ = sink.send(Message::Close(Some(frame))).await;
        let _ = sink.close().await;
    };
    let _ = timeout(PATIENCE, closing).await;
}

/// Passes on what the host says; returns whether it may say more.
async fn hear(
    frame: Option<Result<Message, axum::Error>>,
    heard: &mut Option<Sender<Bytes>>,
) -> bool {
    let (Some(Ok(frame)), Some(heard)) = (frame, heard) else {
        return false;
    };
    match frame {
        Message::Text(text) => {
            let line = [text.as_bytes(), b"\n"].concat();
            heard.send(line.into()).await.is_ok()
        }
        Message::Ping(_) | Message::Pong(_) => true,
        // Nothing of the protocol is binary.
        Message::Binary(_) | Message::Close(_) => false,
    }
}

/// The lines of the host, for a thread that reads.
struct Lines(Receiver<Bytes>, Bytes);

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            match self.0.blocking_recv() {
                Some(line) => self.1 = line,
                None => return Ok(0),
            }
        }
        let many = buffer.len().min(self.1.len());
        self.1.copy_to_slice(&mut buffer[..many]);
        Ok(many)
    }
}

/// The lines for the host, from a thread that writes.
struct Answers(Sender<axum::extract::ws::Utf8Bytes>);

impl Write for Answers {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        match self.0.blocking_send(text.into()) {
            Ok(()) => Ok(line.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
