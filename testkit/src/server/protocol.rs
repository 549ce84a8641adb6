//! Protocols that the server speaks; the path of a request tells which.

use std::collections::BTreeMap;

use ah_conversation::{Delta, StreamEvent};
use ah_provider::script::format::{BlockContent, Turn};
use serde_json::{Value, json};

use super::messages::binding::Binding;
use super::messages::threads::Answer;
use super::new_input::NewInput;
use super::refusal::Refusal;
use super::vendor::{ANTHROPIC, Answers, Asked, Vendor};
use super::{chat, interactions, messages, responses};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The Messages API.
    Messages,
    /// Chat completions.
    Chat,
    /// The Responses API.
    Responses,
    /// The Interactions API.
    Interactions,
}

impl Protocol {
    /// Returns the protocol at `path`. Vendors have different beginnings before it, with a version.
    pub fn at(path: &str) -> Option<Self> {
        if Self::model_in(path).is_some() {
            return Some(Self::Messages);
        }
        let path = path.split('?').next().unwrap_or_default();
        let ends = [
            ("/messages", Self::Messages),
            ("/chat/completions", Self::Chat),
            ("/responses", Self::Responses),
            ("/interactions", Self::Interactions),
        ];
        let mut ends = ends.into_iter().filter_map(|(end, protocol)| {
            let beginning = path.strip_suffix(end)?;
            Some((beginning.rsplit('/').next()?, protocol))
        });
        let (version, protocol) = ends.next()?;
        let number = version.strip_prefix('v');
        let has_version = number.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        // Gemini's is further in front.
        (has_version || version == "openai").then_some(protocol)
    }

    /// Returns the model that `path` names, as Vertex has it for the Messages API.
    pub fn model_in(path: &str) -> Option<&str> {
        let model = path.strip_suffix(":streamRawPredict")?;
        let (_, model) = model.rsplit_once("/models/")?;
        Some(model)
    }

    /// Returns the refusal of a request by `vendor`, or by the strictest of the protocol; `None` if it is accepted.
    pub fn refusal(self, vendor: Option<&'static Vendor>, asked: &Asked<'_>) -> Option<Refusal> {
        let (headers, body) = (asked.headers, asked.body);
        if !self.has_key(headers) {
            return Some(Refusal {
                status: 401,
                kind: "authentication_error",
                message: "a key is required".to_owned(),
                code: None,
            });
        }
        if self == Self::Messages && !headers.contains_key("anthropic-version") {
            return Some(Refusal::invalid(
                "anthropic-version: header is required".to_owned(),
            ));
        }
        let revision = headers.get("api-revision").map(String::as_str);
        if self == Self::Interactions && revision != Some(interactions::REVISION) {
            return Some(Refusal::invalid(format!("Api-Revision: {revision:?}")));
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
        let vendor = vendor.or((self == Self::Messages).then_some(&ANTHROPIC));
        if let Some((_, refusal)) = vendor.and_then(|vendor| vendor.refusal(self, asked)) {
            return Some(refusal);
        }
        let checked = match self {
            Self::Messages => messages::history::check(body),
            Self::Chat => {
                let with = |vendor: &Vendor| {
                    chat::history::check_with(body, vendor.in_results, vendor.in_answers)
                };
                vendor.map_or_else(|| chat::history::check(body), with)
            }
            Self::Responses => responses::history::check(body),
            Self::Interactions => interactions::history::check(body),
        };
        checked.err().map(Refusal::invalid)
    }

    fn has_key(self, headers: &BTreeMap<String, String>) -> bool {
        let has = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
        if self == Self::Interactions {
            return has("x-goog-api-key");
        }
        // The first is Azure's.
        has("api-key") || has("authorization") || self == Self::Messages && has("x-api-key")
    }

    /// Returns the number of answers in the history that the request carries.
    pub fn answers(self, body: &Value) -> usize {
        match self {
            Self::Messages => messages::answers(body),
            Self::Chat => chat::answers(body),
            Self::Responses => responses::answers(body),
            Self::Interactions => interactions::answers(body),
        }
    }

    /// Returns the input since the last answer.
    pub fn new_input(self, body: &Value) -> NewInput {
        match self {
            Self::Messages => messages::new_input(body),
            Self::Chat => chat::new_input(body),
            Self::Responses => responses::new_input(body),
            Self::Interactions => interactions::new_input(body),
        }
    }

    /// Returns the body of an error response with `status`; `error` is in the form of the Messages API.
    pub fn failure(self, answers: Answers, status: u16, error: &Value, id: &str) -> Value {
        let of_api = match self {
            Self::Messages => json!({"type": "error", "error": error, "request_id": id}),
            Self::Chat | Self::Responses => json!({"error": openai_error(error)}),
            Self::Interactions => interactions::failure(status, error),
        };
        answers.error(status, of_api)
    }
}

/// Answer being streamed, in the form of its protocol.
pub enum Stream {
    /// Messages API, with the requested model, what its thinking is bound to, and the answer so far.
    Messages(String, Option<Binding>, Answer),
    /// Chat completions.
    Chat(chat::stream::Stream),
    /// The Responses API.
    Responses(responses::stream::Stream),
    /// The Interactions API.
    Interactions(interactions::stream::Stream),
}

impl Stream {
    /// Starts the answer that `turn` is to `body`.
    pub fn new(protocol: Protocol, answers: Answers, body: &Value, turn: &Turn) -> Self {
        let is_call = |part: &BlockContent<'_>| matches!(part, BlockContent::Tool(_));
        let has_calls = turn.parts().iter().any(is_call);
        match protocol {
            Protocol::Messages => {
                let model = body["model"].as_str().unwrap_or_default();
                Self::Messages(model.to_owned(), Binding::of(body), Answer::to(body))
            }
            Protocol::Chat => Self::Chat(chat::stream::Stream::new(body, answers)),
            Protocol::Responses => Self::Responses(responses::stream::Stream::new(body, has_calls)),
            Protocol::Interactions => Self::Interactions(interactions::stream::Stream::new(body)),
        }
    }

    /// Returns the bytes of `event`; `None` if the protocol has no such event.
    pub fn event(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        match self {
            Self::Messages(model, binding, answer) => {
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
                let data = messages::stream::event(signed.as_ref().unwrap_or(event), model)?;
                answer.note(&data);
                Some(messages::stream::frame(&data))
            }
            Self::Chat(stream) => stream.event(event),
            Self::Responses(stream) => stream.event(event),
            Self::Interactions(stream) => stream.event(event),
        }
    }

    /// Returns the bytes of an error during the stream; `error` is in the form of the Messages API.
    pub fn failure(&mut self, error: &Value) -> Vec<u8> {
        match self {
            Self::Messages(..) => messages::stream::failure(error),
            Self::Chat(_) => chat::stream::failure(&openai_error(error)),
            Self::Responses(stream) => stream.failure(&openai_error(error)),
            Self::Interactions(stream) => stream.failure(error),
        }
    }

    /// Returns the bytes of a keep-alive.
    pub fn ping(&self) -> Vec<u8> {
        match self {
            Self::Messages(..) => messages::stream::ping(),
            Self::Chat(_) | Self::Responses(_) | Self::Interactions(_) => b": ping\n\n".to_vec(),
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
    let code = error["details"]["error_code"].as_str().or(code);
    json!({"message": message, "type": kind, "param": null, "code": code})
}
