//! The SDK's HTTP client for servers that write half of a character ([`json`]): the SDK would skip an event with one, and its
//! call would wait until it is given up. An answer in one JSON document is parsed within the SDK, where the call would fail, so
//! requests are sent and answered here once a session has begun; how one begins is left to the SDK.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_conversation::json;
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{Response, Url};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::{Sse, SseStream};

type Events = BoxStream<'static, Result<Sse, SseError>>;
type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client whose events and documents have no halves of characters.
#[derive(Clone)]
pub(crate) struct WholeClient(pub(crate) reqwest::Client);

impl StreamableHttpClient for WholeClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let Self(client) = self;
        if !is_of_session(&message) {
            let response = client
                .post_message_with_response_limits(uri, message, session_id, token, headers, limits)
                .await?;
            return Ok(match response {
                StreamableHttpPostResponse::Sse(events, session) => {
                    StreamableHttpPostResponse::Sse(whole(events), session)
                }
                other => other,
            });
        }
        let accepted = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let mut request = client
            .post(&*uri)
            .header(ACCEPT, accepted)
            .headers(headers.into_iter().collect())
            .json(&message);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(id) = &session_id {
            request = request.header(HEADER_SESSION_ID, &**id);
        }
        answer(request.send().await?, session_id.is_some(), limits).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.0.delete_session(uri, session_id, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let stream = self
            .0
            .get_stream(uri, session_id, last_event_id, token, headers);
        stream.await.map(whole)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
        longest: usize,
    ) -> Result<Events, Failure> {
        let Self(client) = self;
        let stream = client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            token,
            headers,
            longest,
        );
        stream.await.map(whole)
    }
}

/// Whether a message is a request within a session, which waits for its answer.
fn is_of_session(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else {
        return false;
    };
    !matches!(
        request.request,
        ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
    )
}

/// Reads the answer to a request.
async fn answer(
    response: Response,
    has_session: bool,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let header = |name| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let challenge = header(WWW_AUTHENTICATE);
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            let error = AuthRequiredError::new(challenge);
            return Err(StreamableHttpError::AuthRequired(error));
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let address = Url::parse(response.url().as_str()).ok();
            let scope = address.and_then(|it| WWWAuthenticateParams::parse(&challenge, &it).scope);
            let error = InsufficientScopeError::new(challenge, scope);
            return Err(StreamableHttpError::InsufficientScope(error));
        }
        (StatusCode::NOT_FOUND, _) if has_session => {
            return Err(StreamableHttpError::SessionExpired);
        }
        (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        _ => {}
    }
    let session = header(HeaderName::from_static("mcp-session-id"));
    let retry_after = header(RETRY_AFTER);
    let content_type = header(CONTENT_TYPE);
    let is_of = |wanted: &str| {
        let kind = content_type.as_deref().and_then(|it| it.split(';').next());
        kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
    };
    if status.is_success() && is_of(EVENT_STREAM_MIME_TYPE) {
        let events = events(response, limits.max_sse_event_size);
        return Ok(StreamableHttpPostResponse::Sse(events, session));
    }
    if status.is_success() && !is_of(JSON_MIME_TYPE) {
        return Err(StreamableHttpError::UnexpectedContentType(content_type));
    }
    // To wait helps, whatever the body says.
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    if is_busy || status.is_server_error() && !is_of(JSON_MIME_TYPE) {
        return Err(HttpStatusError::new(status.as_u16(), retry_after).into());
    }
    let body = body(response, limits.max_json_response_size).await?;
    match json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(message @ ServerJsonRpcMessage::Error(_)) => {
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        Ok(message) if status.is_success() => {
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        Ok(_) | Err(_) if status.is_server_error() => {
            Err(HttpStatusError::new(status.as_u16(), retry_after).into())
        }
        read => {
            let reason = match (read, status.is_success()) {
                (Err(error), true) => format!("it is not a message of the protocol ({error}): "),
                _ => format!("HTTP {status}: "),
            };
            let shown = &body[..body.len().min(limits.max_error_response_size)];
            let text = reason + &String::from_utf8_lossy(shown);
            Err(StreamableHttpError::UnexpectedServerResponse(text.into()))
        }
    }
}

/// The events of an answer, each of at most `longest` bytes.
fn events(response: Response, longest: usize) -> Events {
    // Since the last event.
    let read = Arc::new(AtomicUsize::new(0));
    let ended = read.clone();
    let bytes = response.bytes_stream().map_err(io::Error::other);
    let bytes = bytes.and_then(move |bytes| {
        let before = read.fetch_add(bytes.len(), Ordering::Relaxed);
        let is_short = before + bytes.len() <= longest;
        let too_long = || io::Error::other(format!("an event is longer than {longest} bytes"));
        std::future::ready(is_short.then_some(bytes).ok_or_else(too_long))
    });
    let events = SseStream::from_bytes_stream(bytes);
    let events = events.inspect_ok(move |_| ended.store(0, Ordering::Relaxed));
    whole(Box::pin(events))
}

/// Returns a body of at most `longest` bytes.
async fn body(mut response: Response, longest: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        body.extend_from_slice(&bytes);
        if body.len() > longest {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: longest });
        }
    }
    Ok(body)
}

fn whole(events: Events) -> Events {
    Box::pin(events.map_ok(|mut event| {
        event.data = event
            .data
            .map(|data| json::whole(&data).into_text().into_owned());
        event
    }))
}
