//! Requests and answers over a WebSocket, which mean the same as over HTTP: each message of the server is an event of the
//! answer, and an error in one is the error that a response with its status would be.
//!
//! As OpenAI has it for the Responses API (`https://developers.openai.com/api/docs/guides/websocket-mode`, npm `openai` 7.59.0).

use std::sync::{Arc, Weak};
use std::time::Duration;

use ah_conversation::{ErrorClass, EventStream, Message, ProviderError, StreamEvent, json};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::StatusCode;
use reqwest::header::{
    ACCEPT, CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SystemRandom, generate};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::decode::AnswerReader;
use crate::exchange::{Endpoint, sent};
use crate::failure;
use crate::lenient::or_default;
use crate::pieces::len;
use crate::socket::{Socket, Sockets};
use crate::unreached::is_unreachable;

/// Kind of an error of a socket that was lost, of which the request knows nothing else.
const LOST: &str = "websocket_lost";
/// Kind of the error of a server that opens no sockets.
const REFUSED: &str = "websocket_refused";
/// Kind of the error of a server that opens none now.
const NOT_NOW: &str = "websocket_not_now";
/// Most headers of an error that count.
const MOST_HEADERS: usize = 100;
/// Timeout for opening a socket. A proxy may know nothing of them.
const OPENING: Duration = Duration::from_secs(15);
/// Code of an error of the socket alone.
const OF_SOCKET: &str = "websocket_connection_limit_reached";
/// Code of an error of which some servers leave out the status.
const FORGOTTEN: &str = "previous_response_not_found";
/// Types of messages that end an answer, as they stand in them.
const ENDS: [&str; 4] = [
    "\"response.completed\"",
    "\"response.incomplete\"",
    "\"response.failed\"",
    "\"error\"",
];

/// Whether the socket was lost.
pub fn is_lost(error: &ProviderError) -> bool {
    error.kind.as_deref() == Some(LOST)
}

/// Whether the server opens no socket now.
pub fn is_not_now(error: &ProviderError) -> bool {
    error.kind.as_deref() == Some(NOT_NOW)
}

/// Whether the server opens no sockets.
pub fn is_refused(error: &ProviderError) -> bool {
    error.kind.as_deref() == Some(REFUSED)
}

/// The events of the answer, as `reader` reads them, to the request that `body` is, of the conversation that begins with `of`. It
/// is sent over `socket`, or over one that is opened. Nothing is sent until the stream is polled.
pub fn ask<R: AnswerReader>(
    endpoint: &Endpoint,
    sockets: &Arc<Sockets>,
    (socket, of): (Option<Socket>, Weak<Message>),
    body: &[Bytes],
    reader: R,
) -> EventStream {
    let payload_bytes = len(body);
    let request = Utf8Bytes::try_from(Bytes::from(body.concat()));
    let (endpoint, sockets) = (endpoint.clone(), sockets.clone());
    let opened = async move {
        let deadline = Instant::now() + endpoint.timeouts().first_event;
        let request = request.map_err(|_| failure::protocol("the request is not UTF-8"))?;
        let mut socket = match socket {
            Some(socket) => socket,
            None => open(&endpoint, &sockets, deadline).await?,
        };
        socket.of = of;
        socket.send(request).await;
        let messages = messages(endpoint.clone(), socket, sockets);
        let events = endpoint.events(messages, deadline, reader);
        Ok(events.flat_map(|event| stream::iter(accepted(&event).into_iter().chain([event]))))
    };
    let sent = stream::once(async move { Ok(sent(payload_bytes)) });
    Box::pin(sent.chain(stream::once(opened).try_flatten()))
}

/// Returns the event that stands before the start of an answer: there are no headers with an id of the request, and the
/// answer's own tells it as well.
fn accepted(
    event: &Result<StreamEvent, ProviderError>,
) -> Option<Result<StreamEvent, ProviderError>> {
    match event {
        Ok(StreamEvent::Started { id, .. }) if !id.is_empty() => {
            let request_id = id.clone();
            Some(Ok(StreamEvent::Accepted { request_id }))
        }
        _ => None,
    }
}

/// Opens a socket.
async fn open(
    endpoint: &Endpoint,
    sockets: &Sockets,
    deadline: Instant,
) -> Result<Socket, ProviderError> {
    let refused =
        |message: String| of_kind(REFUSED, ProviderError::new(ErrorClass::Network, message));
    let not_now = |cause: &str| of_kind(NOT_NOW, endpoint.lost(cause));
    let client = { sockets.client(endpoint.address()) }.map_err(|it| refused(it.to_string()))?;
    let key = generate(&SystemRandom::new()).map_err(|_| refused("no random key".to_owned()))?;
    let key: [u8; 16] = key.expose();
    let key = BASE64_STANDARD.encode(key);
    let mut headers = HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("*/*")),
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
    ]);
    headers.extend(HeaderValue::from_str(&key).map(|key| (SEC_WEBSOCKET_KEY, key)));
    let opening = async {
        let response = match endpoint.get(client, headers).await {
            Err(error) if error.class == ErrorClass::Network && !is_unreachable(&error) => {
                return Err(of_kind(NOT_NOW, error));
            }
            response => response?,
        };
        let status = response.status();
        let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        let is_ours = accept.is_some_and(|accept| accept == &*accept_of(&key));
        let is_passing = matches!(status.as_u16(), 401 | 408 | 429 | 500..);
        match status {
            StatusCode::SWITCHING_PROTOCOLS if is_ours => {}
            _ if is_passing => return Err(not_now(&format!("status {status}"))),
            _ => return Err(refused(format!("no WebSocket, but status {status}"))),
        }
        let upgraded = response.upgrade().await;
        let connection = upgraded.map_err(|error| not_now(&error.to_string()))?;
        Ok(Socket::over(connection).await)
    };
    match timeout_at(deadline, timeout(OPENING, opening)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(_)) | Err(_) => Err(refused("no WebSocket in time".to_owned())),
    }
}

/// Returns what a server answers to the key of a WebSocket that it opens (RFC 6455).
fn accept_of(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// The messages of the answer to the request that was sent, as events of a stream. After the last one the socket is kept, unless
/// it was an error.
fn messages(
    endpoint: Endpoint,
    socket: Socket,
    sockets: Arc<Sockets>,
) -> impl Stream<Item = Result<Bytes, ProviderError>> + Send {
    let state = (Some(socket), endpoint, sockets);
    stream::unfold(state, |(socket, endpoint, sockets)| async move {
        let mut socket = socket?;
        let text = match socket.next().await {
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                let error = lost(endpoint.lost(&error.to_string()));
                return Some((Err(error), (None, endpoint, sockets)));
            }
            None => {
                let error = lost(endpoint.lost("the server closed it"));
                return Some((Err(error), (None, endpoint, sockets)));
            }
        };
        let message = match End::of(&text) {
            None => return Some((Ok(event(&text)), (Some(socket), endpoint, sockets))),
            Some(End::Answer(answer)) => {
                sockets.keep(answer, socket);
                Ok(event(&text))
            }
            Some(End::Failed) => Ok(event(&text)),
            Some(End::Error {
                status,
                headers,
                error,
            }) => Err(refusal(&endpoint, status, &headers, &error)),
        };
        Some((message, (None, endpoint, sockets)))
    })
}

/// The end of an answer.
enum End {
    /// The server holds the answer, with this id.
    Answer(String),
    /// The server holds nothing.
    Failed,
    /// An error with a status.
    Error {
        status: u16,
        headers: Map<String, Value>,
        error: Value,
    },
}

/// A message that may end an answer.
#[derive(Deserialize)]
struct Ending {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    response: Answer,
    #[serde(default, deserialize_with = "or_default")]
    status: Option<u16>,
    #[serde(default, deserialize_with = "or_default")]
    status_code: Option<u16>,
    #[serde(default, deserialize_with = "or_default")]
    headers: Map<String, Value>,
    error: Option<Value>,
    code: Option<String>,
}

#[derive(Deserialize, Default)]
struct Answer {
    #[serde(default)]
    id: String,
}

impl End {
    /// Returns the end that a message is.
    fn of(text: &str) -> Option<Self> {
        if !ENDS.iter().any(|end| text.contains(end)) {
            return None;
        }
        let ending: Ending = json::from_str(text).ok()?;
        match &*ending.kind {
            "response.completed" | "response.incomplete" => Some(Self::Answer(ending.response.id)),
            "response.failed" => Some(Self::Failed),
            "error" => {
                let error = ending.error.unwrap_or_default();
                let code = error["code"].as_str().or(ending.code.as_deref());
                let is_known = [Some(FORGOTTEN), Some(OF_SOCKET)].contains(&code);
                let status = ending.status.or(ending.status_code);
                let status = status.or(is_known.then_some(400));
                Some(status.map_or(Self::Failed, |status| Self::Error {
                    status,
                    headers: ending.headers,
                    error: match error.is_null() {
                        true => json::from_str(text).unwrap_or_default(),
                        false => error,
                    },
                }))
            }
            _ => None,
        }
    }
}

/// Returns the error that a response with this status, these headers and this error would be.
fn refusal(
    endpoint: &Endpoint,
    status: u16,
    headers: &Map<String, Value>,
    error: &Value,
) -> ProviderError {
    let headers = headers.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(&value).ok()?))
    });
    let body = serde_json::json!({ "error": error }).to_string();
    let refusal = endpoint.refusal(status, &headers.take(MOST_HEADERS).collect(), &body);
    match error["code"].as_str() == Some(OF_SOCKET) {
        true => lost(refusal),
        false => refusal,
    }
}

fn lost(error: ProviderError) -> ProviderError {
    of_kind(LOST, error)
}

fn of_kind(kind: &str, error: ProviderError) -> ProviderError {
    ProviderError {
        kind: Some(kind.to_owned()),
        ..error
    }
}

/// Returns a message as an event of a stream.
fn event(message: &str) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 8);
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(message.as_bytes());
    // Within JSON they only stand between values.
    for byte in &mut event {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    event.extend_from_slice(b"\n\n");
    event.into()
}
