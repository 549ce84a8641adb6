//! Requests over HTTP and the streams of their answers: sends, reads, and keeps the time. The same for every API.
//!
//! What the bytes mean is left to the decoder of each, what a refusal means to [`failure`], and whether to try again
//! to [`retry`](crate::retry).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use ah_conversation::{ErrorClass, EventStream, ProviderError, StreamEvent};
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt, stream};
use http_body::{Frame, SizeHint};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Client, Response, StatusCode, Url};
use tokio::time::{Instant, timeout, timeout_at};

use crate::auth::Authorization;
use crate::decode::{Answer, Decoder};
use crate::failure;

/// How much of the body of a refusal is read, and for how long.
const LONGEST_REFUSAL: usize = 64 << 10;
const REFUSAL_TIME: Duration = Duration::from_secs(10);
/// How long the end of the connection's answer is waited for after the end of the model's.
const END_TIME: Duration = Duration::from_millis(100);

/// How long a server may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until the first event of the answer.
    pub first_event: Duration,
    /// Until each further event. Pings are no events: they keep coming from a server that has stalled.
    pub next_event: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_event: Duration::from_secs(300),
            next_event: Duration::from_secs(120),
        }
    }
}

/// An address that answers requests.
pub struct Endpoint {
    client: Client,
    url: Url,
    /// Server and port, for messages: the address itself may hold a password.
    host: String,
    headers: HeaderMap,
    key: Option<Arc<Authorization>>,
    settings: Settings,
    patience: Patience,
}

/// What the user has set to get here, by name, so that a hint can say what to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What names the address.
    pub address: String,
    /// What holds the credentials.
    pub credentials: String,
}

impl Endpoint {
    /// The address `url`, reached with `client`; `headers` are sent with each request, and `key` is shown.
    pub(crate) fn new(
        client: Client,
        url: &str,
        mut headers: HeaderMap,
        key: Option<Authorization>,
        settings: Settings,
        patience: Patience,
    ) -> Result<Self, ProviderError> {
        let url = Url::parse(url).map_err(|error| ProviderError {
            hint: Some(format!("check {}", settings.address)),
            ..ProviderError::new(
                ErrorClass::InvalidRequest,
                format!("the server's address is not valid: {error}"),
            )
        })?;
        headers.extend([
            (ACCEPT, HeaderValue::from_static("text/event-stream")),
            // A compressed stream would be held back until a block of it is full.
            (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        Ok(Self {
            client,
            host: match (url.host_str().unwrap_or_default(), url.port()) {
                (host, Some(port)) => format!("{host}:{port}"),
                (host, None) => host.to_owned(),
            },
            url,
            headers,
            key: key.map(Arc::new),
            settings,
            patience,
        })
    }

    /// The events of the answer, as `A` reads them, to the request that `body` is. Nothing is sent until the stream
    /// is polled.
    pub fn ask<A: Answer>(&self, body: Vec<Bytes>) -> EventStream {
        let payload_bytes = body.iter().map(|piece| piece.len() as u64).sum();
        let attempt = Attempt {
            client: self.client.clone(),
            url: self.url.clone(),
            headers: self.headers.clone(),
            body,
            key: self.key.clone(),
            host: self.host.clone(),
            settings: self.settings.clone(),
            patience: self.patience,
        };
        let sent = stream::once(async move { Ok(StreamEvent::Sent { payload_bytes }) });
        Box::pin(sent.chain(stream::once(attempt.open::<A>()).try_flatten()))
    }
}

/// One request, not sent yet.
struct Attempt {
    client: Client,
    url: Url,
    headers: HeaderMap,
    body: Vec<Bytes>,
    key: Option<Arc<Authorization>>,
    host: String,
    settings: Settings,
    patience: Patience,
}

impl Attempt {
    /// Sends the request and gives the events of its answer.
    async fn open<A: Answer>(
        self,
    ) -> Result<impl Stream<Item = Result<StreamEvent, ProviderError>>, ProviderError> {
        let deadline = Instant::now() + self.patience.first_event;
        let response = match timeout_at(deadline, self.response()).await {
            Ok(response) => response?,
            Err(_) => return Err(stalled(self.patience.first_event)),
        };
        let Self {
            host,
            settings,
            patience,
            ..
        } = self;
        if !response.status().is_success() {
            return Err(refusal(response, &settings).await);
        }
        // Anything else may be an answer: not every server names what it sends as it should.
        let content_type = header(&response, "content-type").unwrap_or_default();
        if content_type.starts_with("text/html") {
            return Err(web_page(response, &settings).await);
        }
        let body = response.bytes_stream();
        let body = body.map_err(move |error| network(&error, &host, &settings));
        Ok(events::<A>(body, deadline, patience))
    }

    /// The response, of a second request where another key may be had after the first was refused.
    async fn response(&self) -> Result<Response, ProviderError> {
        let Some(key) = &self.key else {
            return self.send(None).await;
        };
        let header = key.header().await?;
        let value = header.1.clone();
        let response = self.send(Some(header)).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match key.renewed(&value).await? {
            Some(header) => self.send(Some(header)).await,
            None => Ok(response),
        }
    }

    async fn send(
        &self,
        key: Option<(HeaderName, HeaderValue)>,
    ) -> Result<Response, ProviderError> {
        let mut headers = self.headers.clone();
        headers.extend(key);
        let body = Body::wrap(Pieces::new(self.body.clone()));
        let request = self.client.post(self.url.clone()).headers(headers);
        let response = request.body(body).send().await;
        response.map_err(|error| network(&error, &self.host, &self.settings))
    }
}

/// The events of an answer whose bytes are `body`. The first has to come by `deadline`.
fn events<A: Answer>(
    body: impl Stream<Item = Result<Bytes, ProviderError>>,
    deadline: Instant,
    patience: Patience,
) -> impl Stream<Item = Result<StreamEvent, ProviderError>> {
    let reader = Reader {
        body: Box::pin(body),
        decoder: Decoder::<A>::default(),
        events: VecDeque::new(),
        end: None,
        deadline,
        limit: patience.first_event,
        patience,
    };
    stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((event, reader))
    })
}

struct Reader<B, A> {
    body: Pin<Box<B>>,
    decoder: Decoder<A>,
    events: VecDeque<StreamEvent>,
    /// Set once nothing more is read: what comes after the events, an error or nothing.
    end: Option<Option<ProviderError>>,
    deadline: Instant,
    /// The limit that `deadline` was set by.
    limit: Duration,
    patience: Patience,
}

impl<B: Stream<Item = Result<Bytes, ProviderError>>, A: Answer> Reader<B, A> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                if event == StreamEvent::Ended {
                    self.let_connection_end().await;
                    self.end = Some(None);
                }
                return Some(Ok(event));
            }
            if let Some(end) = &mut self.end {
                return end.take().map(Err);
            }
            if let Err(error) = self.read().await {
                self.end = Some(Some(error));
            }
        }
    }

    async fn read(&mut self) -> Result<(), ProviderError> {
        let before = self.decoder.signs_of_life();
        match timeout_at(self.deadline, self.body.next()).await {
            Ok(Some(bytes)) => self.decoder.feed(&bytes?, &mut self.events)?,
            Ok(None) => self.decoder.finish(&mut self.events)?,
            Err(_) => return Err(stalled(self.limit)),
        }
        if self.decoder.signs_of_life() > before {
            self.limit = self.patience.next_event;
            self.deadline = Instant::now() + self.limit;
        }
        Ok(())
    }

    /// Reads to the end of the body, so that the connection can carry the next request. It is usually here already.
    async fn let_connection_end(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.body.next().await {} };
        // A connection that is not done by then is given up; the answer is whole anyway.
        let _ = timeout(END_TIME, rest).await;
    }
}

/// A request body of known length, in pieces that are shared with later requests.
struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Pieces {
    fn new(pieces: Vec<Bytes>) -> Self {
        Self {
            left: pieces.iter().map(|piece| piece.len() as u64).sum(),
            pieces: pieces.into_iter(),
        }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = self.pieces.find(|piece| !piece.is_empty());
        if let Some(piece) = &piece {
            self.left -= piece.len() as u64;
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The error that `response`, whose status is not success, stands for.
async fn refusal(response: Response, settings: &Settings) -> ProviderError {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = start_of_body(response).await;
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let mut error = failure::in_response(status, header, &body, SystemTime::now());
    error.hint = match (error.class, status) {
        (ErrorClass::Authentication, _) => Some(format!("check {}", settings.credentials)),
        (ErrorClass::ModelNotFound, _) => Some("`ah models` lists the known models".to_owned()),
        (ErrorClass::Billing, _) => Some(format!("check the account of {}", settings.credentials)),
        (ErrorClass::ContextTooLong, _) => {
            Some("begin a new session with `--new`, or ask a model that holds more".to_owned())
        }
        (ErrorClass::InvalidRequest, 300..=399 | 404) => {
            Some(format!("check {}", settings.address))
        }
        _ => error.hint,
    };
    error
}

/// The error that a success stands for whose body is a web page.
async fn web_page(response: Response, settings: &Settings) -> ProviderError {
    let content_type = header(&response, "content-type").unwrap_or_default();
    let message = format!(
        "the answer is no event stream but {}",
        failure::excerpt(content_type, 100)
    );
    let body = start_of_body(response).await;
    let detail = failure::html_title(&body).unwrap_or_else(|| failure::excerpt(&body, 200));
    ProviderError {
        hint: Some(format!("check {} and the proxy", settings.address)),
        ..ProviderError::new(ErrorClass::Protocol, format!("{message}: {detail}"))
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// As much of a body as an error message can use.
async fn start_of_body(mut response: Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() >= LONGEST_REFUSAL {
                break;
            }
        }
    };
    // What has come by then has to do.
    let _ = timeout(REFUSAL_TIME, read).await;
    String::from_utf8_lossy(&body).into_owned()
}

fn stalled(limit: Duration) -> ProviderError {
    ProviderError::new(
        ErrorClass::Stalled,
        format!("the server fell silent for {} s", limit.as_secs_f64()),
    )
}

fn network(error: &reqwest::Error, host: &str, settings: &Settings) -> ProviderError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let (message, hint) = if error.is_connect() {
        let hint = format!(
            "check the network, the address in {} and the proxy; SSL_CERT_FILE names further \
             certificates",
            settings.address
        );
        (format!("cannot connect to {host}: {cause}"), Some(hint))
    } else {
        (format!("the connection to {host} broke: {cause}"), None)
    };
    ProviderError {
        hint,
        ..ProviderError::new(ErrorClass::Network, message)
    }
}
