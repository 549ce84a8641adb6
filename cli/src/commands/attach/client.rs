//! A client of a server of this user, for one session: requests, and its stream of events.

use std::collections::BTreeMap;
use std::time::Duration;

use ah_config::Error;
use ah_config::server_file::KnownServer;
use ah_conversation::{MailKind, MessageId, json};
use ah_http::sse::Decoder;
use ah_store::{Paths, Queue};
use ah_terminal::repl::remote::{RemoteEvent, RemoteSession};
use async_trait::async_trait;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::event::{place, read};
use super::unanswered::{Unanswered, answered};

/// Longest event, in bytes: a message with its outputs.
const LONGEST: usize = 256 * 1024 * 1024;
/// Number of times that a lost stream is asked for again, and the time between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time to wait for an answer. A server on the same machine takes milliseconds; one that is stopped (Ctrl+Z,
/// a debugger) takes connections and never answers.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time until a run has begun: the servers of its tools start first.
const BEGINNING: Duration = Duration::from_secs(120);

/// A server of this user.
#[derive(Clone)]
pub struct Door {
    client: Client,
    server: KnownServer,
}

impl Door {
    /// Returns the way to a server.
    ///
    /// # Errors
    ///
    /// If there can be no client.
    pub fn to(server: KnownServer) -> Result<Self, Error> {
        let client = ah_http::client(&ah_http::Options::default(), &server.url)
            .map_err(|error| Error::failure(error.to_string()))?;
        Ok(Self { client, server })
    }

    /// Returns the sessions that are run by the server, each with its state; an error names its process. One that was killed
    /// runs none, though another process may have its number by now, or nobody may have waited for its end.
    pub async fn sessions(&self) -> Result<Vec<Value>, String> {
        let listed = self.ask(Method::GET, "/v1/sessions", &Value::Null, PATIENCE);
        let mut listed = match listed.await {
            Ok(listed) => listed,
            Err(Unanswered::Gone) => return Ok(Vec::new()),
            Err(Unanswered::Because(reason)) => {
                return Err(format!(
                    "process {} does not say which sessions it runs: {reason}",
                    self.server.pid
                ));
            }
        };
        match listed["sessions"].take() {
            Value::Array(sessions) => Ok(sessions),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the model that the run of a session asks, if the server says so.
    pub async fn model(&self, session: &str) -> Option<String> {
        let place = format!("/v1/sessions/{session}");
        let shown = self.ask(Method::GET, &place, &Value::Null, PATIENCE).await;
        shown.ok()?["state"]["model"].as_str().map(str::to_owned)
    }

    async fn ask(
        &self,
        method: Method,
        place: &str,
        body: &Value,
        patience: Duration,
    ) -> Result<Value, Unanswered> {
        let mut request = self
            .client
            .request(method, format!("{}{place}", self.server.url))
            .bearer_auth(&self.server.token);
        if !body.is_null() {
            request = request.body(body.to_string());
        }
        let response = answered(request, patience).await?;
        let status = response.status();
        let text = response.bytes().await.map_err(Unanswered::from)?;
        let said: Value = json::from_slice(&text).unwrap_or_default();
        let reason = match (status.is_success(), said["error"].as_str()) {
            (true, _) => return Ok(said),
            (false, Some(reason)) => reason.to_owned(),
            (false, None) => format!("the server answered with {status}"),
        };
        Err(Unanswered::Because(reason))
    }

    async fn stream(&self, session: &str, last: Option<&str>) -> Result<Response, Unanswered> {
        let mut request = self
            .client
            .get(format!("{}/v1/sessions/{session}/events", self.server.url))
            .bearer_auth(&self.server.token);
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = answered(request, PATIENCE).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(Unanswered::Because(format!(
                "the server answered with {}",
                response.status()
            ))),
        }
    }
}

/// A session of a server.
pub struct ServedSession {
    /// The way to the server.
    pub door: Door,
    /// The session's id.
    pub id: String,
    /// Its files, in which messages are queued.
    pub paths: Paths,
}

impl ServedSession {
    async fn post(&self, place: &str, body: &Value, patience: Duration) -> Result<(), String> {
        let place = format!("/v1/sessions/{}{place}", self.id);
        let said = self.door.ask(Method::POST, &place, body, patience).await;
        said.map(drop).map_err(Unanswered::reason)
    }
}

#[async_trait]
impl RemoteSession for ServedSession {
    async fn prompt(&self, text: &str) -> Result<(), String> {
        let body = json!({ "prompt": text });
        self.post("/prompt", &body, BEGINNING).await
    }

    async fn send(&self, kind: MailKind, text: &str) -> Result<MessageId, String> {
        let sent = Queue::open(&self.paths).and_then(|queue| queue.send(kind, text));
        sent.map_err(|error| error.to_string())
    }

    async fn interrupt(&self) -> Result<(), String> {
        self.post("/interrupt", &json!({}), PATIENCE).await
    }

    async fn answer(&self, question: u64, answers: BTreeMap<String, String>) -> Result<(), String> {
        let place = format!("/questions/{question}");
        let body = json!({ "answers": answers });
        self.post(&place, &body, PATIENCE).await
    }
}

/// Passes on what comes from a session after the message `last`, until the server is gone or nobody listens.
pub async fn follow(
    door: Door,
    session: String,
    mut last: Option<String>,
    events: UnboundedSender<RemoteEvent>,
) {
    let mut tries = 0;
    loop {
        let reason = match door.stream(&session, last.as_deref()).await {
            Ok(stream) => {
                let before = last.clone();
                let reason = match pass_on(stream, &mut last, &events).await {
                    Ok(()) => "its process has ended".to_owned(),
                    Err(reason) => reason,
                };
                if last != before {
                    tries = 0;
                }
                reason
            }
            Err(unanswered) => unanswered.reason(),
        };
        tries += 1;
        if tries > TRIES {
            // Nobody listens if the person has left.
            let _ = events.send(RemoteEvent::Lost(reason));
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn pass_on(
    mut stream: Response,
    last: &mut Option<String>,
    events: &UnboundedSender<RemoteEvent>,
) -> Result<(), String> {
    let mut decoder = Decoder::new(LONGEST);
    while let Some(bytes) = stream.chunk().await.map_err(|error| error.to_string())? {
        decoder.feed(&bytes);
        while let Some(event) = decoder.next_event().map_err(|error| error.to_string())? {
            let Some(event) = read(&event) else {
                continue;
            };
            match &event {
                RemoteEvent::Message(message) => *last = Some(place(message)),
                RemoteEvent::Reset => *last = None,
                _ => {}
            }
            if events.send(event).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
