//! HTTP requests and the streams of their answers: sending, receiving and timeouts, the same for every API.
//!
//! Decoding is left to the decoder of each API, the meaning of error responses to [`failure`], and retries to
//! [`retry`](crate::retry).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ah_conversation::{Connecting, ErrorClass, EventStream, ProviderError, StreamEvent, json};
use ah_http::transport::Own;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Body, Client, Response, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use crate::auth::{Authorization, Proof};
use crate::decode::{AnswerReader, Decoder};
use crate::failure;
use crate::near::is_near;
use crate::pieces::{Pieces, len};
use crate::received::received;
use crate::refused;
use crate::unreached;

/// Limit of an answer, in bytes as they are decompressed: several times what the longest takes, of 128,000 tokens with an
/// event for each.
const LONGEST_ANSWER: usize = 256 << 20;
/// Limit of the body of an error response, in bytes.
const LONGEST_ERROR_BODY: usize = 64 << 10;
/// Timeout for reading it.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of a JSON document, in bytes.
const LONGEST_DOCUMENT: usize = 32 << 20;
/// Timeout for a JSON document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the numbers of an answer, which some servers send after its end.
const NUMBERS_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the end of the response body after the end of the model's answer.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// Timeouts of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time until the first event.
    pub first_event: Duration,
    /// Time until each further event. Pings do not count: a stalled server keeps sending them.
    pub next_event: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first_event: Duration::from_secs(300),
            next_event: Duration::from_secs(120),
        }
    }
}

/// An address that answers requests.
#[derive(Clone)]
pub struct Endpoint {
    client: Client,
    transport: Option<Own>,
    url: Url,
    /// Host and port for error messages: the address itself may hold a password.
    host: String,
    headers: HeaderMap,
    key: Option<Arc<Authorization>>,
    setting_names: SettingNames,
    timeouts: Timeouts,
}

/// Names of the variables or settings that a server was configured with, for hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingNames {
    /// Name of the setting with the address.
    pub address: String,
    /// Name of the setting with the credentials.
    pub credentials: String,
}

impl Endpoint {
    /// An endpoint at `url`. `headers` and `key` are sent with each request.
    pub(crate) fn new(
        (client, transport): (Client, Option<Own>),
        url: &str,
        mut headers: HeaderMap,
        key: Option<Authorization>,
        setting_names: SettingNames,
        timeouts: Timeouts,
    ) -> Result<Self, ProviderError> {
        let url = Url::parse(url).map_err(|error| ProviderError {
            hint: Some(format!("check {}", setting_names.address)),
            ..ProviderError::new(
                ErrorClass::InvalidRequest,
                format!("invalid server address: {error}"),
            )
        })?;
        headers.extend([
            (ACCEPT, HeaderValue::from_static("text/event-stream")),
            // Compression would delay events until a block is full.
            (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        Ok(Self {
            client,
            transport,
            host: match (url.host_str().unwrap_or_default(), url.port()) {
                (host, Some(port)) => format!("{host}:{port}"),
                (host, None) => host.to_owned(),
            },
            url,
            headers,
            key: key.map(Arc::new),
            setting_names,
            timeouts,
        })
    }

    /// The events of the answer, as `reader` reads them, to the request that `body` is. Nothing is sent until the stream
    /// is polled.
    pub fn ask<R: AnswerReader>(&self, body: Vec<Bytes>, reader: R) -> EventStream {
        let payload_bytes = len(&body);
        let attempt = Attempt {
            endpoint: self.clone(),
            body: Some(body),
        };
        let sent = stream::once(async move { Ok(sent(payload_bytes)) });
        Box::pin(sent.chain(stream::once(attempt.open(reader)).try_flatten()))
    }

    /// Opens a connection of `client` for the next request, if there is a key to send with it. Without TLS, it takes no time that
    /// would count, and some programs on the user's machine wait on an idle connection for its request.
    pub(crate) fn connect_early(&self, client: Client) -> Option<Connecting> {
        let url = self.url.clone();
        let is_worth = self.key.is_some() && url.scheme() == "https";
        is_worth.then(|| -> Connecting {
            Box::pin(async move { ah_http::early::open(&client, url).await })
        })
    }

    /// Whether a refusal with `status` may mean that the key has expired, and another may be had.
    pub(crate) fn may_have_expired(&self, status: u16) -> bool {
        let status = StatusCode::from_u16(status).ok();
        let key = self.key.as_ref().zip(status);
        key.is_some_and(|(key, status)| key.may_have_expired(status))
    }

    /// Returns the client of its requests.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the address.
    pub(crate) fn address(&self) -> &str {
        self.url.as_str()
    }

    /// Timeouts of its answers.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Returns the answer of the address to a `GET` that `client` sends with further headers.
    pub(crate) async fn get(
        &self,
        client: Client,
        headers: HeaderMap,
    ) -> Result<Response, ProviderError> {
        let mut endpoint = self.clone();
        endpoint.client = client;
        endpoint.headers.extend(headers);
        let attempt = Attempt {
            endpoint,
            body: None,
        };
        attempt.response().await
    }

    /// Returns the error of a lost connection.
    pub(crate) fn lost(&self, cause: &str) -> ProviderError {
        lost(&self.host, cause)
    }

    /// Returns the error that a status, headers and a body tell.
    pub(crate) fn refusal(&self, status: u16, headers: &HeaderMap, body: &str) -> ProviderError {
        refusal(status, headers, body, &self.setting_names)
    }

    /// The events of the answer in `body`. The first one has to arrive by `deadline`.
    pub(crate) fn events<R: AnswerReader, B: Stream<Item = Result<Bytes, ProviderError>>>(
        &self,
        body: B,
        deadline: Instant,
        reader: R,
    ) -> impl Stream<Item = Result<StreamEvent, ProviderError>> + use<R, B> {
        let is_near = is_near(self.url.as_str());
        events(body, deadline, self.timeouts, is_near, reader)
    }

    /// Returns the JSON document that is the answer to `body`, or to a request without a body (`GET`).
    pub(crate) async fn fetch(&self, body: Option<Vec<Bytes>>) -> Result<Value, ProviderError> {
        let mut endpoint = self.clone();
        let json = HeaderValue::from_static("application/json");
        endpoint.headers.insert(ACCEPT, json);
        let host = endpoint.host.clone();
        let setting_names = endpoint.setting_names.clone();
        let attempt = Attempt { endpoint, body };
        let answer = async {
            let mut response = attempt.response().await?;
            if !response.status().is_success() {
                return Err(error_response(response, &setting_names).await);
            }
            let mut bytes = Vec::new();
            let lost = |error| network(&error, &host, &setting_names);
            while let Some(piece) = response.chunk().await.map_err(lost)? {
                bytes.extend_from_slice(&piece);
                if bytes.len() > LONGEST_DOCUMENT {
                    return Err(failure::protocol("the answer is too long"));
                }
            }
            json::from_slice(&bytes).map_err(|error| {
                let text = String::from_utf8_lossy(&bytes);
                failure::unparsable(&error, &text)
            })
        };
        timeout(DOCUMENT_TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(stalled(DOCUMENT_TIMEOUT)))
    }
}

/// A request that is not sent yet.
struct Attempt {
    endpoint: Endpoint,
    /// `None` for a `GET`.
    body: Option<Vec<Bytes>>,
}

impl Attempt {
    /// Sends the request and returns the events of its answer.
    async fn open<R: AnswerReader>(
        self,
        reader: R,
    ) -> Result<impl Stream<Item = Result<StreamEvent, ProviderError>>, ProviderError> {
        let timeouts = self.endpoint.timeouts;
        let deadline = Instant::now() + timeouts.first_event;
        let response = match timeout_at(deadline, self.response()).await {
            Ok(response) => response?,
            Err(_) => return Err(stalled(timeouts.first_event)),
        };
        let endpoint = self.endpoint;
        let (host, setting_names) = (endpoint.host.clone(), endpoint.setting_names.clone());
        if !response.status().is_success() {
            return Err(error_response(response, &setting_names).await);
        }
        // Any other content type may be an answer: some servers declare a wrong one.
        let content_type = header(&response, "content-type").unwrap_or_default();
        if content_type.starts_with("text/html") {
            return Err(web_page(response, &setting_names).await);
        }
        let id = ["request-id", "x-request-id"]
            .into_iter()
            .find_map(|name| header(&response, name))
            .filter(|id| id.len() <= failure::LONGEST_REQUEST_ID)
            .map(str::to_owned);
        let accepted = id.map(|request_id| Ok(StreamEvent::Accepted { request_id }));
        let body = received(response.bytes_stream())
            .map_err(move |error| network(&error, &host, &setting_names));
        Ok(stream::iter(accepted).chain(endpoint.events(body, deadline, reader)))
    }

    /// Returns the response. If the server rejects the key and the source has another one, sends the request again with it.
    async fn response(&self) -> Result<Response, ProviderError> {
        let Some(key) = &self.endpoint.key else {
            return self.send(None).await;
        };
        let proof = key.proof().await?;
        let response = self.send(Some(&proof)).await?;
        if !proof.may_have_expired(response.status()) {
            return Ok(response);
        }
        match key.renewed(&proof).await? {
            Some(proof) => self.send(Some(&proof)).await,
            None => Ok(response),
        }
    }

    async fn send(&self, proof: Option<&Proof>) -> Result<Response, ProviderError> {
        let Endpoint {
            client,
            url,
            headers,
            host,
            setting_names,
            ..
        } = &self.endpoint;
        let mut headers = headers.clone();
        match proof {
            None => {}
            Some(Proof::Header(name, value)) => {
                headers.insert(name, value.clone());
            }
            Some(Proof::Signature(credentials)) => {
                let method = self.body.as_ref().map_or("GET", |_| "POST");
                let body = self.body.as_deref().unwrap_or_default();
                headers.extend(credentials.headers(method, url, body, SystemTime::now())?);
            }
        }
        if let Some(own) = &self.endpoint.transport {
            let sent = own.send(url, headers, &self.body);
            return sent.map_err(|error| lost(host, &error.to_string()));
        }
        let request = match &self.body {
            Some(body) => client
                .post(url.clone())
                .body(Body::wrap(Pieces::new(body.clone()))),
            None => client.get(url.clone()),
        };
        request
            .headers(headers)
            .send()
            .await
            .map_err(|error| network(&error, host, setting_names))
    }
}

/// The events of the answer in `body`. The first one has to arrive by `deadline`.
fn events<R: AnswerReader>(
    body: impl Stream<Item = Result<Bytes, ProviderError>>,
    deadline: Instant,
    timeouts: Timeouts,
    is_near: bool,
    reader: R,
) -> impl Stream<Item = Result<StreamEvent, ProviderError>> {
    // Boxed, as it is moved with each event.
    let reader = Box::new(AnswerStream {
        body: Box::pin(body),
        decoder: Decoder::reading(reader),
        events: VecDeque::new(),
        end: None,
        deadline,
        limit: timeouts.first_event,
        timeouts,
        is_near,
        left: LONGEST_ANSWER,
    });
    stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((event, reader))
    })
}

struct AnswerStream<B, R> {
    body: Pin<Box<B>>,
    decoder: Decoder<R>,
    events: VecDeque<StreamEvent>,
    /// Set once nothing more is read: the error that follows the events, or `None`.
    end: Option<Option<ProviderError>>,
    deadline: Instant,
    /// The timeout that `deadline` was computed from.
    limit: Duration,
    timeouts: Timeouts,
    /// Whether the server is a program on the user's machine, of which a comment says that it still reads.
    is_near: bool,
    /// How many bytes may still come.
    left: usize,
}

impl<B: Stream<Item = Result<Bytes, ProviderError>>, R: AnswerReader> AnswerStream<B, R> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                if event == StreamEvent::Ended {
                    self.drain_body().await;
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
        let before = self.decoder.content_events();
        let read_before = self.decoder.readings();
        let mut has_come = false;
        let read = timeout_at(self.deadline, self.body.next()).await;
        match read {
            Ok(Some(Ok(bytes))) => {
                has_come = true;
                self.left = self.left.checked_sub(bytes.len()).ok_or_else(too_long)?;
                self.decoder.feed(&bytes, &mut self.events)?;
            }
            Ok(None) => self.decoder.finish(&mut self.events)?,
            // The answer is whole, and was paid for.
            Err(_) | Ok(Some(Err(_))) if self.decoder.has_stopped() => {
                self.decoder.finish(&mut self.events)?;
            }
            Ok(Some(Err(error))) => return Err(error),
            Err(_) => return Err(stalled(self.limit)),
        }
        if self.decoder.content_events() > before {
            self.limit = match self.decoder.has_stopped() {
                true => self.timeouts.next_event.min(NUMBERS_TIMEOUT),
                false => self.timeouts.next_event,
            };
            self.deadline = Instant::now() + self.limit;
        } else if self.decoder.readings() > read_before
            || has_come && self.is_near && self.decoder.is_silent()
        {
            // It reads a long request slowly, and a second one would only wait behind it.
            self.limit = self.timeouts.first_event.max(self.limit);
            self.deadline = Instant::now() + self.limit;
        }
        Ok(())
    }

    /// Reads to the end of the body, so that the connection can be reused. The end has usually arrived already.
    async fn drain_body(&mut self) {
        let rest = async { while let Some(Ok(_)) = self.body.next().await {} };
        // After the timeout the connection is dropped; the answer is complete anyway.
        let _ = timeout(END_TIMEOUT, rest).await;
    }
}

/// The event of a request that is sent, with a body of so many bytes.
pub(crate) fn sent(payload_bytes: u64) -> StreamEvent {
    StreamEvent::Sent {
        payload_bytes,
        held_bytes: None,
    }
}

/// The error of a response with an error status.
async fn error_response(response: Response, setting_names: &SettingNames) -> ProviderError {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = start_of_body(response).await;
    refusal(status, &headers, &body, setting_names)
}

/// The error that a status, headers and a body tell.
fn refusal(
    status: u16,
    headers: &HeaderMap,
    body: &str,
    setting_names: &SettingNames,
) -> ProviderError {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let mut error = failure::in_response(status, header, body, SystemTime::now());
    let hint = match (error.class, status) {
        (ErrorClass::Authentication, _) => Some(format!("check {}", setting_names.credentials)),
        (ErrorClass::ModelNotFound, _) => {
            Some("`ah models --refresh` reads the server's list of models".to_owned())
        }
        (ErrorClass::Billing, _) => Some(format!(
            "check the account of {}",
            setting_names.credentials
        )),
        (ErrorClass::ContextTooLong, _) => Some(
            "`/compact` shortens the conversation, and `--new` starts another; `context_window` in models.json is the \
             model's window"
                .to_owned(),
        ),
        // It cannot be told.
        (ErrorClass::InvalidRequest, 400) if refused::says_nothing(&error.message) => Some(
            "if the conversation is too long for the model, `/compact` shortens it; `context_window` in models.json is \
             the model's window"
                .to_owned(),
        ),
        (ErrorClass::RateLimit, _) if exceeds_alone(&error.message) => Some(
            "one request needs more tokens than the account may use in a minute; `/compact` shortens the conversation"
                .to_owned(),
        ),
        (ErrorClass::InvalidRequest, 300..=399 | 404) => {
            Some(format!("check {}", setting_names.address))
        }
        _ => None,
    };
    error.hint = error.hint.or(hint);
    error
}

/// Whether a limit of the account refuses a request that exceeds it alone, so that waiting does not help: `Request too large …
/// on tokens per min (TPM): Limit 6000, Requested 9000`.
fn exceeds_alone(message: &str) -> bool {
    message.to_lowercase().contains("request too large")
}

/// The error of a web page in the place of an answer.
async fn web_page(response: Response, setting_names: &SettingNames) -> ProviderError {
    let content_type = header(&response, "content-type").unwrap_or_default();
    let message = format!(
        "the answer is not an event stream but {}",
        failure::excerpt(content_type, 100)
    );
    let body = start_of_body(response).await;
    let detail = failure::html_title(&body).unwrap_or_else(|| failure::excerpt(&body, 200));
    ProviderError {
        hint: Some(format!("check {} and the proxy", setting_names.address)),
        ..ProviderError::new(ErrorClass::Protocol, format!("{message}: {detail}"))
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// The start of a body, as much as an error message can use.
async fn start_of_body(mut response: Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() >= LONGEST_ERROR_BODY {
                break;
            }
        }
    };
    // After the timeout, the part that has arrived is used.
    let _ = timeout(ERROR_BODY_TIMEOUT, read).await;
    String::from_utf8_lossy(&body).into_owned()
}

fn too_long() -> ProviderError {
    let limit = LONGEST_ANSWER >> 20;
    let text = format!("the answer is longer than {limit} MiB");
    ProviderError::new(ErrorClass::Protocol, text)
}

fn stalled(limit: Duration) -> ProviderError {
    let limit = failure::span(limit);
    let hint = "`firstEventTimeout` and `nextEventTimeout` in the settings limit how many seconds a server may be silent";
    ProviderError {
        hint: Some(hint.to_owned()),
        ..ProviderError::new(
            ErrorClass::Stalled,
            format!("no data from the server for {limit}"),
        )
    }
}

fn network(error: &reqwest::Error, host: &str, setting_names: &SettingNames) -> ProviderError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if !error.is_connect() {
        return lost(host, &cause.to_string());
    }
    let hint = format!(
        "check the network, the address in {} and the proxy; for a certificate of your own, set \
         SSL_CERT_FILE",
        setting_names.address
    );
    let message = unreached::told(host, &cause.to_string());
    ProviderError {
        hint: Some(hint),
        ..ProviderError::new(ErrorClass::Network, message)
    }
}

fn lost(host: &str, cause: &str) -> ProviderError {
    let message = format!("the connection to {host} was lost: {cause}");
    ProviderError::new(ErrorClass::Network, message)
}
