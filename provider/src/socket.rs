//! WebSockets that stay open between the requests of conversations. A server holds in each what it has said last there, so a
//! socket belongs to one conversation, and is found by the id of its last answer.
//!
//! Opening them, and the meaning of what comes, is left to [`over_socket`](crate::over_socket).

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use ah_conversation::Message;
use futures_util::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use reqwest::{Client, Upgraded};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Error, Utf8Bytes};

/// Number of sockets that stay open: a session and its subagents share a provider.
const SOCKETS: usize = 4;
/// How long a socket is used. OpenAI closes it after 60 minutes, even within an answer (its guide of the WebSocket mode, 2026).
const USED_FOR: Duration = Duration::from_secs(55 * 60);
/// Most messages that have arrived and are not read yet.
const MESSAGES_AHEAD: usize = 2;
/// Most bytes of a message. The last one of an answer has all of it.
const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// The open sockets of a model that answer nothing now, and the means to open others.
pub struct Sockets {
    http: ah_http::Options,
    /// Made with the first socket: reading certificates takes its time.
    client: OnceLock<Client>,
    idle: Mutex<Vec<Idle>>,
}

/// An open socket between two requests.
struct Idle {
    /// The server's id of the last answer.
    answer: String,
    socket: Socket,
}

/// An open socket. Dropping it closes the connection.
pub struct Socket {
    /// The first message of its conversation.
    pub of: Weak<Message>,
    opened: Instant,
    requests: mpsc::Sender<Utf8Bytes>,
    messages: mpsc::Receiver<Result<Utf8Bytes, Error>>,
}

impl Sockets {
    /// No sockets yet. Connections have these options.
    pub fn new(http: ah_http::Options) -> Self {
        Self {
            http,
            client: OnceLock::new(),
            idle: Mutex::default(),
        }
    }

    /// Returns the client that opens sockets to `address`.
    pub fn client(&self, address: &str) -> Result<Client, ah_http::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = ah_http::client_of_sockets(&self.http, address)?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    /// Whether a socket is open that answers nothing now.
    pub fn is_any_open(&self) -> bool {
        let idle = self.idle.lock();
        idle.iter().any(|idle| !idle.socket.requests.is_closed())
    }

    /// Closes those of the conversation that begins with `first`, which goes on elsewhere, and of those that are gone.
    pub fn leave(&self, first: &Arc<Message>) {
        let mut idle = self.idle.lock();
        idle.retain(|Idle { socket, .. }| {
            socket.of.strong_count() > 0 && !std::ptr::eq(socket.of.as_ptr(), &raw const **first)
        });
    }

    /// Keeps a socket open whose last answer has this id.
    pub fn keep(&self, answer: String, socket: Socket) {
        let mut idle = self.idle.lock();
        if idle.len() == SOCKETS {
            idle.remove(0);
        }
        idle.push(Idle { answer, socket });
    }

    /// Takes the socket whose last answer has this id, if it is still open.
    pub fn take(&self, answer: &str) -> Option<Socket> {
        let mut idle = self.idle.lock();
        let at = idle.iter().position(|idle| idle.answer == answer)?;
        let mut socket = idle.remove(at).socket;
        // Whatever has arrived answers no request.
        let is_open = matches!(
            socket.messages.try_recv(),
            Err(mpsc::error::TryRecvError::Empty)
        );
        let is_young = socket.opened.elapsed() < USED_FOR;
        (is_open && is_young).then_some(socket)
    }
}

impl Socket {
    /// A socket over a connection that the server has turned into one.
    pub async fn over(connection: Upgraded) -> Self {
        let (requests, to_send) = mpsc::channel(1);
        let (arrived, messages) = mpsc::channel(MESSAGES_AHEAD);
        let limits = WebSocketConfig::default()
            .max_message_size(Some(LONGEST_MESSAGE))
            .max_frame_size(Some(LONGEST_MESSAGE));
        let stream = WebSocketStream::from_raw_socket(connection, Role::Client, Some(limits)).await;
        // A task of its own also answers the server's pings between requests.
        tokio::spawn(serve(stream, to_send, arrived));
        Self {
            of: Weak::new(),
            opened: Instant::now(),
            requests,
            messages,
        }
    }

    /// Sends a request. If the connection is lost, [`Self::next`] says so.
    pub async fn send(&self, request: Utf8Bytes) {
        let _ = self.requests.send(request).await;
    }

    /// Returns the next message of the server; `None` if it has closed the socket.
    pub async fn next(&mut self) -> Option<Result<Utf8Bytes, Error>> {
        self.messages.recv().await
    }
}

/// Sends what is to be sent and hands on what arrives, until either side closes.
async fn serve(
    mut stream: WebSocketStream<Upgraded>,
    mut to_send: mpsc::Receiver<Utf8Bytes>,
    arrived: mpsc::Sender<Result<Utf8Bytes, Error>>,
) {
    loop {
        let message = tokio::select! {
            message = stream.next() => match message {
                Some(message) => message,
                None => return,
            },
            request = to_send.recv() => match request {
                Some(request) => tokio::select! {
                    sent = stream.send(tungstenite::Message::Text(request)) => match sent {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                    () = arrived.closed() => return,
                },
                None => return,
            },
        };
        let handed_on = match message {
            Ok(tungstenite::Message::Text(text)) => Ok(text),
            Ok(tungstenite::Message::Close(_)) => return,
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        let is_over = handed_on.is_err();
        tokio::select! {
            sent = arrived.send(handed_on) => if sent.is_err() || is_over {
                return;
            },
            () = arrived.closed() => return,
        }
    }
}
