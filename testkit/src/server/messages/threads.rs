//! Conversations that the server holds, as the vendor does since 2 November 2026
//! (`https://platform.claude.com/docs/en/build-with-claude/message-threads`, npm `@anthropic-ai/sdk` 1.14.0).

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::super::json::list;
use super::super::refusal::Refusal;

/// Beta feature with which a request may have a thread.
pub const BETA: &str = "message-threads-2026-08-12";
/// Fields that need not stay as they were.
const FREE: [&str; 6] = [
    "max_tokens",
    "messages",
    "stream",
    "system",
    "thread",
    "tools",
];

/// What the server holds.
#[derive(Debug, Default)]
pub struct Threads {
    /// Requests with their answers by the ids of the answers; `None` once continued.
    held: HashMap<String, Option<Held>>,
}

#[derive(Debug)]
struct Held {
    body: Value,
    betas: String,
}

impl Threads {
    /// Returns a request with what is held put before it; `None` if it continues nothing.
    ///
    /// # Errors
    /// If nothing is held for it, or it differs in what has to stay the same.
    pub fn whole(
        &self,
        headers: &BTreeMap<String, String>,
        body: &Value,
    ) -> Result<Option<Value>, Refusal> {
        let thread = &body["thread"];
        if thread["type"] != "continue" {
            return Ok(None);
        }
        for field in ["system", "tools"] {
            if !body[field].is_null() {
                let message =
                    format!("{field}: cannot be set on a request that continues a thread");
                return Err(Refusal::invalid(message));
            }
        }
        let id = thread["previous_message_id"].as_str().unwrap_or_default();
        let (status, code, message) = match self.held.get(id) {
            None => (404, "thread_not_found", "no thread state was found"),
            Some(None) => (409, "thread_already_continued", "it was continued already"),
            Some(Some(held)) if held.fits(headers, body) => return Ok(Some(held.with(body))),
            Some(Some(_)) => (400, "thread_fingerprint_mismatch", "a field differs"),
        };
        Err(Refusal {
            status,
            kind: if status == 404 {
                "not_found_error"
            } else {
                "invalid_request_error"
            },
            message: format!("{message} for `{id}`"),
            code: Some(code),
        })
    }

    /// Holds an answer and its request.
    pub fn keep(&mut self, headers: &BTreeMap<String, String>, answer: &Answer) {
        let Some(mut body) = answer.request.clone().filter(|_| answer.has_ended) else {
            return;
        };
        let message = json!({"role": "assistant", "content": answer.content()});
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(message);
        }
        let betas = betas(headers);
        self.held
            .insert(answer.id.clone(), Some(Held { body, betas }));
    }

    /// Notes that a request is answered, so that what it continues cannot be continued once more.
    pub fn answer(&mut self, body: &Value) {
        let id = body["thread"]["previous_message_id"].as_str();
        if let Some(held) = id.and_then(|id| self.held.get_mut(id)) {
            *held = None;
        }
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.held.clear();
    }
}

impl Held {
    /// Whether a request has what has to stay the same.
    fn fits(&self, headers: &BTreeMap<String, String>, body: &Value) -> bool {
        let fixed = |body: &Value| -> Map<String, Value> {
            let fields = body.as_object().into_iter().flatten();
            let fixed = fields.filter(|(name, _)| !FREE.contains(&name.as_str()));
            fixed
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        fixed(&self.body) == fixed(body) && self.betas == betas(headers)
    }

    /// Returns a request with the messages before it, whose breakpoints have been served, the system prompt and the tools.
    fn with(&self, body: &Value) -> Value {
        let mut whole: Map<_, _> = body.as_object().cloned().unwrap_or_default();
        let mut held = list(&self.body, "messages").to_vec();
        for message in &mut held {
            let blocks = message["content"].as_array_mut().into_iter().flatten();
            for block in blocks.filter_map(Value::as_object_mut) {
                block.shift_remove("cache_control");
            }
        }
        let messages = [held.as_slice(), list(body, "messages")].concat();
        whole.insert("messages".to_owned(), messages.into());
        for field in ["system", "tools"] {
            if !self.body[field].is_null() {
                whole.insert(field.to_owned(), self.body[field].clone());
            }
        }
        whole.into()
    }
}

/// Returns the beta features of a request.
fn betas(headers: &BTreeMap<String, String>) -> String {
    headers.get("anthropic-beta").cloned().unwrap_or_default()
}

/// An answer as it was streamed.
#[derive(Debug, Default)]
pub struct Answer {
    /// The request with all messages, if the conversation is to be held.
    request: Option<Value>,
    id: String,
    blocks: Vec<Value>,
    /// The input of each call as text.
    inputs: HashMap<usize, String>,
    has_ended: bool,
}

impl Answer {
    /// Returns the answer to a request with all messages, of which nothing is known yet.
    pub fn to(body: &Value) -> Self {
        Self {
            request: (!body["thread"].is_null()).then(|| body.clone()),
            ..Self::default()
        }
    }

    /// Takes note of what was sent.
    pub fn note(&mut self, data: &Value) {
        let index = || {
            data["index"]
                .as_u64()
                .and_then(|at| usize::try_from(at).ok())
        };
        match data["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let id = data["message"]["id"].as_str().unwrap_or_default();
                id.clone_into(&mut self.id);
            }
            "content_block_start" => self.blocks.push(data["content_block"].clone()),
            "content_block_delta" => {
                let Some((index, delta)) = index().zip(data["delta"].as_object()) else {
                    return;
                };
                for (name, piece) in delta.iter().filter(|(name, _)| *name != "type") {
                    let piece = piece.as_str().unwrap_or_default();
                    if name == "partial_json" {
                        self.inputs.entry(index).or_default().push_str(piece);
                    } else if let Some(block) = self.blocks.get_mut(index) {
                        let before = block[name].as_str().unwrap_or_default();
                        block[name] = format!("{before}{piece}").into();
                    }
                }
            }
            "message_stop" => self.has_ended = true,
            _ => {}
        }
    }

    fn content(&self) -> Vec<Value> {
        let mut blocks = self.blocks.clone();
        for (index, input) in &self.inputs {
            if let (Some(block), Ok(input)) = (blocks.get_mut(*index), serde_json::from_str(input))
            {
                block["input"] = input;
            }
        }
        blocks
    }
}
