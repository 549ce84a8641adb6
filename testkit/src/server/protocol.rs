//! Protocols that the server speaks; the path of a request tells which.

use std::collections::BTreeMap;

use ah_conversation::{Delta, StreamEvent};
use serde_json::{Value, json};

use super::messages::binding::Binding;
use super::new_input::NewInput;
use super::{chat, messages, responses};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The Messages API.
    Messages,
    /// Chat completions.
    Chat,
    /// The Responses API.
    Responses,
}

/// Error response to an invalid request.
pub struct Refusal {
    pub status: u16,
    pub kind: &'static str,
    pub message: String,
}

impl Refusal {
    /// Returns the error for a path that does not exist.
    pub fn unknown_path() -> Self {
        Self {
            status: 404,
            kind: "not_found_error",
            message: "Not found".to_owned(),
        }
    }

    /// Returns the error for an invalid body or header.
    pub fn invalid(message: String) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            message,
        }
    }
}

impl Protocol {
    /// Returns the protocol at `path`.
    pub fn at(path: &str) -> Option<Self> {
        match path.split('?').next().unwrap_or_default() {
            "/v1/messages" => Some(Self::Messages),
            "/v1/chat/completions" => Some(Self::Chat),
            "/v1/responses" => Some(Self::Responses),
            _ => None,
        }
    }

    /// Returns the refusal of a request with these `headers` and this `body`; `None` if it is accepted.
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
        let betas = headers.get("anthropic-beta").map_or("", String::as_str);
        if self == Self::Messages
            && let Some(beta) = messages::missing_beta(body, betas)
        {
            return Some(Refusal::invalid(format!(
                "this request needs the `{beta}` value in the `anthropic-beta` header"
            )));
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

    /// Returns the number of answers in the history that the request carries.
    pub fn answers(self, body: &Value) -> usize {
        match self {
            Self::Messages => messages::answers(body),
            Self::Chat => chat::answers(body),
            Self::Responses => responses::answers(body),
        }
    }

    /// Returns the input since the last answer.
    pub fn new_input(self, body: &Value) -> NewInput {
        match self {
            Self::Messages => messages::new_input(body),
            Self::Chat => chat::new_input(body),
            Self::Responses => responses::new_input(body),
        }
    }

    /// Returns the body of an error response; `error` is in the form of the Messages API.
    pub fn failure(self, error: &Value, id: &str) -> Value {
        match self {
            Self::Messages => json!({"type": "error", "error": error, "request_id": id}),
            Self::Chat | Self::Responses => json!({"error": openai_error(error)}),
        }
    }
}

/// Answer being streamed, in the form of its protocol.
pub enum Stream {
    /// Messages API, with the requested model and what its thinking is bound to.
    Messages(String, Option<Binding>),
    /// Chat completions.
    Chat(chat::stream::Stream),
    /// The Responses API.
    Responses(responses::stream::Stream),
}

impl Stream {
    /// Starts the answer to `body`.
    pub fn new(protocol: Protocol, body: &Value) -> Self {
        match protocol {
            Protocol::Messages => {
                let model = body["model"].as_str().unwrap_or_default();
                Self::Messages(model.to_owned(), Binding::of(body))
            }
            Protocol::Chat => Self::Chat(chat::stream::Stream::new(body)),
            Protocol::Responses => Self::Responses(responses::stream::Stream::new(body)),
        }
    }

    /// Returns the bytes of `event`; `None` if the protocol has no such event.
    pub fn event(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        match self {
            Self::Messages(model, binding) => {
                let signed = match (event, binding) {
                    (
                        StreamEvent::Delta {
                            index,
                            delta: Delta::Signature(_),
                        },
                        Some(binding),
                    ) => Some(StreamEvent::Delta {
                        index: *index,
                        delta: Delta::Signature(binding.sign()),
                    }),
                    _ => None,
                };
                messages::stream::event(signed.as_ref().unwrap_or(event), model)
            }
            Self::Chat(stream) => stream.event(event),
            Self::Responses(stream) => stream.event(event),
        }
    }

    /// Returns the bytes of an error during the stream; `error` is in the form of the Messages API.
    pub fn failure(&mut self, error: &Value) -> Vec<u8> {
        match self {
            Self::Messages(..) => messages::stream::failure(error),
            Self::Chat(_) => chat::stream::failure(&openai_error(error)),
            Self::Responses(stream) => stream.failure(&openai_error(error)),
        }
    }

    /// Returns the bytes of a keep-alive.
    pub fn ping(&self) -> Vec<u8> {
        match self {
            Self::Messages(..) => messages::stream::ping(),
            Self::Chat(_) | Self::Responses(_) => b": ping\n\n".to_vec(),
        }
    }
}

/// Converts an error of the Messages API to the form of OpenAI.
fn openai_error(error: &Value) -> Value {
    let message = error["message"].as_str().unwrap_or_default();
    let (kind, code) = match error["type"].as_str().unwrap_or_default() {
        "rate_limit_error" => ("requests", Some("rate_limit_exceeded")),
        "authentication_error" => ("invalid_request_error", Some("invalid_api_key")),
        "not_found_error" => ("invalid_request_error", Some("model_not_found")),
        "overloaded_error" | "api_error" => ("server_error", Some("server_error")),
        kind if message.contains("too long") => (kind, Some("context_length_exceeded")),
        kind => (kind, None),
    };
    json!({"message": message, "type": kind, "param": null, "code": code})
}
