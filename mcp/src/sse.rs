//! HTTP with an event stream, as the protocol was in 2024: the server answers on a stream that stays open, and its
//! first event names the address that messages are posted to. The SDK has left it behind; servers have not.

use std::io;
use std::time::Duration;

use ah_http::sse::Decoder;
use futures_util::{Sink, Stream, sink, stream};
use reqwest::header::{ACCEPT, HeaderMap};
use reqwest::{Client, Response, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};

use crate::fault::{Fault, LastWords};

/// No message is longer.
const LONGEST_EVENT: usize = 32 << 20;
/// How long the server may take to accept a message; its answer comes by the stream.
const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// Messages to and from the server at `url`.
pub(crate) async fn messages(
    client: Client,
    url: Url,
    headers: HeaderMap,
    last_words: &LastWords,
) -> Result<
    (
        impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + use<>,
        impl Stream<Item = ServerJsonRpcMessage> + Send + use<>,
    ),
    Fault,
> {
    let request = client
        .get(url.clone())
        .headers(headers.clone())
        .header(ACCEPT, "text/event-stream");
    let response = request.send().await.map_err(|fault| Fault::of(&fault))?;
    let mut events = Events {
        response: accepted(response)?,
        decoder: Decoder::new(LONGEST_EVENT),
        last_words: last_words.clone(),
    };
    let endpoint = endpoint(&url, &mut events).await?;
    let post = move |(), message: ClientJsonRpcMessage| {
        let request = client
            .post(endpoint.clone())
            .headers(headers.clone())
            .timeout(POST_TIMEOUT)
            .header(reqwest::header::CONTENT_TYPE, "application/json");
        async move {
            let body = serde_json::to_vec(&message)?;
            let response = request.body(body).send().await.map_err(io::Error::other)?;
            accepted(response).map_err(|fault| io::Error::other(fault.to_string()))?;
            Ok(())
        }
    };
    let stream = stream::unfold(events, |mut events| async move {
        let message = events.message().await?;
        Some((message, events))
    });
    Ok((sink::unfold((), post), stream))
}

/// Where messages are posted to: never at another host, which would get the headers.
async fn endpoint(url: &Url, events: &mut Events) -> Result<Url, Fault> {
    let event = events.next().await;
    let Some((_, path)) = event.filter(|(name, _)| name == "endpoint") else {
        return Err(Fault::failed("it did not say where messages go"));
    };
    match url.join(path.trim()) {
        Ok(endpoint) if endpoint.origin() == url.origin() => Ok(endpoint),
        Ok(_) => Err(Fault::failed("it wants messages to go to another host")),
        Err(_) => Err(Fault::failed("it did not say where messages go")),
    }
}

fn accepted(response: Response) -> Result<Response, Fault> {
    match response.status() {
        status if status.is_success() => Ok(response),
        status if status == 401 || status == 403 => Err(Fault::NeedsAuth),
        status => Err(Fault::failed(format!("it answered {status}"))),
    }
}

struct Events {
    response: Response,
    decoder: Decoder,
    last_words: LastWords,
}

impl Events {
    async fn message(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let (name, data) = self.next().await?;
            if !matches!(name.as_str(), "" | "message") {
                continue;
            }
            match serde_json::from_str(&data) {
                Ok(message) => return Some(message),
                Err(fault) => tracing::debug!(%fault, "no message in an event"),
            }
        }
    }

    /// The next event, by name and data; `None` at the end, and why is among the last words.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(event)) => return Some((event.name.to_owned(), event.data.to_owned())),
                Ok(None) => {}
                Err(fault) => {
                    self.last_words.add(fault.to_string());
                    return None;
                }
            }
            match self.response.chunk().await {
                Ok(bytes) => self.decoder.feed(&bytes?),
                Err(fault) => {
                    self.last_words.add(Fault::of(&fault).to_string());
                    return None;
                }
            }
        }
    }
}
