//! The protocols that the server speaks. Which one it is asked by is told by the path of a request.

use std::collections::BTreeMap;

use ah_conversation::StreamEvent;
use serde_json::{Value, json};

use super::{chat, messages, responses};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// The Messages API.
    Messages,
    /// Chat completions.
    Chat,
    /// The Responses API.
    Responses,
}

/// What a request says that was not said before.
#[derive(Debug, Default)]
pub struct News {
    /// The user's words.
    pub said: Vec<String>,
    /// What the last tool answered.
    pub result: String,
}

/// Why a request is refused.
pub struct Refusal {
    pub status: u16,
    pub kind: &'static str,
    pub message: String,
}

impl Refusal {
    /// One for a request to where nothing is.
    pub fn unknown_place() -> Self {
        Self {
            status: 404,
            kind: "not_found_error",
            message: "Not found".to_owned(),
        }
    }

    /// One for what the request says.
    pub fn invalid(message: String) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            message,
        }
    }
}

impl Face {
    /// The protocol that is spoken at `path`.
    pub fn at(path: &str) -> Option<Self> {
        match path.split('?').next().unwrap_or_default() {
            "/v1/messages" => Some(Self::Messages),
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/responses" => Some(Self::Responses),
            _ => None,
        }
    }

    /// Why a request with these `headers` and this `body` is refused, if it is.
    pub fn refusal(self, headers: &BTreeMap<String, String>, body: &Value) -> Option<Refusal> {
        if !self.has_key(headers) {
            return Some(Refusal {
                status: 401,
                kind: "authentication_error",
                message: "a key is required".to_owned(),
            });
        }
        if self == Self::Messages && !headers.contains_key("anthropic-version") {
            return Some(Refusal::invalid(
                "anthropic-version: header is required".to_owned(),
            ));
        }
        if body["stream"] != true {
            return Some(Refusal::invalid(
                "this server only answers with `stream: true`".to_owned(),
            ));
        }
        let checked = match self {
            Self::Messages => messages::history::check(body),
            Self::Chat => chat::history::check(body),
            Self::Responses => responses::history::check(body),
        };
        checked.err().map(Refusal::invalid)
    }

    fn has_key(self, headers: &BTreeMap<String, String>) -> bool {
        let has = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
        has("authorization") || self == Self::Messages && has("x-api-key")
    }

    /// How many answers the request carries.
    pub fn answers(self, body: &Value) -> usize {
        match self {
            Self::Messages => messages::answers(body),
            Self::Chat => chat::answers(body),
            Self::Responses => responses::answers(body),
        }
    }

    /// What was said since the last of them.
    pub fn news(self, body: &Value) -> News {
        match self {
            Self::Messages => messages::news(body),
            Self::Chat => chat::news(body),
            Self::Responses => responses::news(body),
        }
    }

    /// The body of an answer that tells of a failure, in `words` of the Messages API.
    pub fn failure(self, words: &Value, id: &str) -> Value {
        match self {
            Self::Messages => json!({"type": "error", "error": words, "request_id": id}),
            Self::Chat | Self::Responses => json!({"error": in_words_of_openai(words)}),
        }
    }
}

/// An answer on its way, in the form of its protocol.
pub enum Stream {
    /// The Messages API, and the model that was asked.
    Messages(String),
    /// Chat completions.
    Chat(chat::stream::Stream),
    /// The Responses API.
    Responses(responses::stream::Stream),
}

impl Stream {
    /// The answer to `body`.
    pub fn new(face: Face, body: &Value) -> Self {
        match face {
            Face::Messages => Self::Messages(body["model"].as_str().unwrap_or_default().to_owned()),
            Face::Chat => Self::Chat(chat::stream::Stream::new(body)),
            Face::Responses => Self::Responses(responses::stream::Stream::new(body)),
        }
    }

    /// `event` as it is written, if it is.
    pub fn event(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        match self {
            Self::Messages(model) => messages::stream::event(event, model),
            Self::Chat(stream) => stream.event(event),
            Self::Responses(stream) => stream.event(event),
        }
    }

    /// A failure in the midst of the answer, in `words` of the Messages API.
    pub fn failure(&mut self, words: &Value) -> Vec<u8> {
        match self {
            Self::Messages(_) => messages::stream::failure(words),
            Self::Chat(_) => chat::stream::failure(&in_words_of_openai(words)),
            Self::Responses(stream) => stream.failure(&in_words_of_openai(words)),
        }
    }

    /// A sign of life.
    pub fn ping(&self) -> Vec<u8> {
        match self {
            Self::Messages(_) => messages::stream::ping(),
            Self::Chat(_) | Self::Responses(_) => b": ping\n\n".to_vec(),
        }
    }
}

/// A failure in the words of the Messages API, as OpenAI says it.
fn in_words_of_openai(words: &Value) -> Value {
    let message = words["message"].as_str().unwrap_or_default();
    let (kind, code) = match words["type"].as_str().unwrap_or_default() {
        "rate_limit_error" => ("requests", Some("rate_limit_exceeded")),
        "authentication_error" => ("invalid_request_error", Some("invalid_api_key")),
        "not_found_error" => ("invalid_request_error", Some("model_not_found")),
        "overloaded_error" | "api_error" => ("server_error", Some("server_error")),
        kind if message.contains("too long") => (kind, Some("context_length_exceeded")),
        kind => (kind, None),
    };
    json!({"message": message, "type": kind, "param": null, "code": code})
}
