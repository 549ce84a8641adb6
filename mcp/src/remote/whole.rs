//! The SDK's HTTP client for servers that write half of a character ([`json`]): the SDK would skip an event with one, and its
//! call would wait until it is given up. An answer that is one JSON document is read and parsed within the SDK; there the call
//! fails at once.

use std::collections::HashMap;
use std::sync::Arc;

use ah_conversation::json;
use futures_util::TryStreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

type Events = BoxStream<'static, Result<Sse, SseError>>;
type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client whose events have no halves of characters.
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
        let response = client
            .post_message_with_response_limits(uri, message, session_id, token, headers, limits)
            .await?;
        Ok(match response {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(whole(events), session)
            }
            other => other,
        })
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

fn whole(events: Events) -> Events {
    Box::pin(events.map_ok(|mut event| {
        event.data = event
            .data
            .map(|data| json::whole(&data).into_text().into_owned());
        event
    }))
}
