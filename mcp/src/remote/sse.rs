//! HTTP with server-sent events, the transport of protocol revision 2024-11-05: the server responds on a stream that
//! stays open, whose first event names the URL that messages are posted to. The SDK has dropped it; servers still use
//! it.

use std::io;
use std::time::Duration;

use ah_conversation::json;
use ah_http::sse::Decoder;
use futures_util::{Sink, Stream, sink, stream};
use reqwest::header::{ACCEPT, HeaderMap};
use reqwest::{Client, Response, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};

use crate::remote::error::{ErrorTail, ServerError};

/// Maximum length of a message in bytes.
const LONGEST_EVENT: usize = 32 << 20;
/// Time the server has to accept a message; the response comes on the stream.
const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to the server at `url` and opens the streams of messages to and from it.
pub(crate) async fn messages(
    client: Client,
    url: Url,
    headers: HeaderMap,
    error_tail: &ErrorTail,
) -> Result<
    (
        impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + use<>,
        impl Stream<Item = ServerJsonRpcMessage> + Send + use<>,
    ),
    ServerError,
> {
    let request = client
        .get(url.clone())
        .headers(headers.clone())
        .header(ACCEPT, "text/event-stream");
    let response = request
        .send()
        .await
        .map_err(|error| ServerError::of(&error))?;
    let mut events = Events {
        response: accepted(response)?,
        decoder: Decoder::new(LONGEST_EVENT),
        error_tail: error_tail.clone(),
    };
    let endpoint = endpoint(&url, &mut events).await?;
    let post = move |(), message: ClientJsonRpcMessage| {
        let request = client
            .post(endpoint.clone())
            .headers(headers.clone())
            .timeout(POST_TIMEOUT)
            .header(reqwest::header::CONTENT_TYPE, "application/json");
        async move {
            let body = json::line(&message);
            let response = request.body(body).send().await.map_err(io::Error::other)?;
            accepted(response).map_err(|error| io::Error::other(error.to_string()))?;
            Ok(())
        }
    };
    let stream = stream::unfold(events, |mut events| async move {
        let message = events.message().await?;
        Some((message, events))
    });
    Ok((sink::unfold((), post), stream))
}

/// Reads the URL that messages are posted to. Another origin is refused, since it would receive the headers.
async fn endpoint(url: &Url, events: &mut Events) -> Result<Url, ServerError> {
    let event = events.next().await;
    let Some((_, path)) = event.filter(|(name, _)| name == "endpoint") else {
        return Err(ServerError::transient("it sent no endpoint for messages"));
    };
    match url.join(path.trim()) {
        Ok(endpoint) if endpoint.origin() == url.origin() => Ok(endpoint),
        Ok(_) => Err(ServerError::transient("its endpoint is on another host")),
        Err(_) => Err(ServerError::transient("its endpoint is not a valid URL")),
    }
}

fn accepted(response: Response) -> Result<Response, ServerError> {
    match response.status() {
        status if status.is_success() => Ok(response),
        status if status == 401 || status == 403 => Err(ServerError::NeedsAuth { scope: None }),
        status => Err(ServerError::transient(format!(
            "it responded with {status}"
        ))),
    }
}

struct Events {
    response: Response,
    decoder: Decoder,
    error_tail: ErrorTail,
}

impl Events {
    async fn message(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let (name, data) = self.next().await?;
            if !matches!(name.as_str(), "" | "message") {
                continue;
            }
            match json::from_str(&data) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "an event is not a JSON-RPC message"),
            }
        }
    }

    /// Returns name and data of the next event; `None` at the end, with an error recorded in the error tail.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => return Some((event.name.to_owned(), event.data.to_owned())),
                Ok(None) => {}
                Err(error) => {
                    self.error_tail.end(error.to_string());
                    return None;
                }
            }
            match self.response.chunk().await {
                Ok(bytes) => self.decoder.feed(&bytes?),
                Err(error) => {
                    self.error_tail.add(ServerError::of(&error).to_string());
                    return None;
                }
            }
        }
    }
}
