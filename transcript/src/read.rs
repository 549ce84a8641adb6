//! Reading a transcript as a conversation: one copied from another machine, edited by an SDK, or written by the original
//! program. Pure.
//!
//! Rows are lines of JSON, each with the UUID of its parent; `tree` says which are the conversation.

use std::collections::HashMap;

use ah_conversation::{
    ContentBlock, Fields, Image, Message, MessageId, Opaque, Origin, Response, ResultBlock, Role,
    StopReason, Time, ToolResult, ToolUse, ToolUseId, Usage, json, said,
};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::{OWN, USUAL_SERVER, tree};

/// A conversation that was read.
#[derive(Debug, Default)]
pub struct ReadTranscript {
    /// Its messages.
    pub messages: Vec<Message>,
    /// Messages of the transcript that are no part of it, with the line of the first of each kind.
    pub left: Vec<String>,
}

/// Returns the conversation in a transcript. `id` converts a UUID to a message id; where it returns `None`, `fresh` gives one.
pub fn read_transcript(
    text: &str,
    id: impl Fn(&str) -> Option<MessageId>,
    fresh: impl Fn() -> MessageId,
) -> ReadTranscript {
    let rows: Vec<(usize, Value)> = text
        .lines()
        .zip(1..)
        .filter_map(|(line, number)| Some((number, json::from_str(line).ok()?)))
        .collect();
    let ordered = tree::order(&rows);
    let mut reader = Reader::default();
    for row in ordered.rows {
        let uuid = row["uuid"].as_str().unwrap_or_default();
        reader.take(row, id(uuid).unwrap_or_else(&fresh));
    }
    ReadTranscript {
        messages: reader.messages,
        left: ordered.left,
    }
}

/// State of reading.
#[derive(Default)]
struct Reader {
    messages: Vec<Message>,
    /// Id of the answer whose rows are being read.
    answer: Option<String>,
    /// Tool of each call.
    tools: HashMap<ToolUseId, String>,
}

impl Reader {
    fn take(&mut self, row: &Value, id: MessageId) {
        let said = &row["message"];
        let content: Vec<_> = match &said["content"] {
            Value::String(text) => vec![ContentBlock::text(text.clone())],
            Value::Array(blocks) => blocks.iter().map(|block| self.block(block)).collect(),
            _ => Vec::new(),
        };
        let answer = (row["type"] == "assistant").then(|| said["id"].as_str().unwrap_or_default());
        let is_more = match answer {
            Some(answer) => self.answer.as_deref() == Some(answer) && !answer.is_empty(),
            None => is_results(&content) && self.ends_with_results(),
        };
        self.answer = answer.map(str::to_owned);
        if is_more && let Some(last) = self.messages.last_mut() {
            let mut opaque = { last.response.take() }
                .and_then(|response| response.opaque)
                .map_or_else(Opaque::default, |opaque| *opaque);
            opaque
                .blocks
                .extend(given(said, &content, last.content.len()));
            last.content.extend(content);
            // The last row of an answer has its stop reason.
            last.response = answer.map(|_| response(row, opaque));
            return;
        }
        let last = self.messages.last();
        let origin = match answer {
            Some(_) => Origin::Model,
            None if is_results(&content) => Origin::Results,
            None if row["isCompactSummary"] == true => Origin::summary(None),
            None if row["isMeta"] == true => Origin::Reminder,
            None => Origin::Prompt,
        };
        let opaque = Opaque {
            blocks: given(said, &content, 0).collect(),
            ..Opaque::default()
        };
        let at = row["timestamp"]
            .as_str()
            .unwrap_or_default()
            .parse::<Timestamp>()
            .ok();
        let created_at = Time(at.map_or(0, Timestamp::as_millisecond));
        let role = match answer {
            Some(_) => Role::Assistant,
            None => Role::User,
        };
        let response = answer.map(|_| response(row, opaque));
        let behind = Message::behind(last, (id, created_at), role, origin, content);
        self.messages.push(Message { response, ..behind });
    }

    fn ends_with_results(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|last| is_results(&last.content))
    }

    /// Reads a block in the form of the Messages API.
    fn block(&mut self, raw: &Value) -> ContentBlock {
        let text = |field: &str| raw[field].as_str().map(str::to_owned);
        let known = match raw["type"].as_str() {
            Some("text") => text("text").map(ContentBlock::text),
            Some("thinking") => text("thinking").map(|thinking| ContentBlock::Thinking {
                thinking,
                signature: text("signature").filter(|seal| !seal.is_empty()),
            }),
            Some("redacted_thinking") => {
                text("data").map(|data| ContentBlock::RedactedThinking { data })
            }
            Some("image") => image(raw).map(ContentBlock::Image),
            Some("tool_use") => text("id").zip(text("name")).map(|(id, name)| {
                let id = ToolUseId::from(id);
                self.tools.insert(id.clone(), name.clone());
                let input = raw["input"].clone().into();
                ContentBlock::ToolUse(ToolUse { id, name, input })
            }),
            Some("tool_result") => text("tool_use_id").map(|id| {
                let id = ToolUseId::from(id);
                ContentBlock::ToolResult(ToolResult {
                    tool_name: self.tools.get(&id).cloned().unwrap_or_default(),
                    tool_use_id: id,
                    content: results(&raw["content"]),
                    is_error: raw["is_error"] == true,
                    duration_ms: 0,
                    details: None,
                    lines: None,
                })
            }),
            _ => None,
        };
        known.unwrap_or_else(|| ContentBlock::Other { raw: raw.clone() })
    }
}

fn is_results(content: &[ContentBlock]) -> bool {
    matches!(content.first(), Some(ContentBlock::ToolResult(_)))
}

fn image(raw: &Value) -> Option<Image> {
    let source = &raw["source"];
    let field = |name: &str| source[name].as_str().map(str::to_owned);
    (source["type"] == "base64").then_some(())?;
    Some(Image {
        media_type: field("media_type")?,
        data: field("data")?,
    })
}

fn results(content: &Value) -> Vec<ResultBlock> {
    match content {
        Value::String(text) => vec![ResultBlock::Text { text: text.clone() }],
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| match image(block) {
                Some(image) => Some(ResultBlock::Image(image)),
                None => block["text"].as_str().map(|text| ResultBlock::Text {
                    text: text.to_owned(),
                }),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the fields that a server gave with each block. `first` is the place of the first block in the answer.
fn given(
    said: &Value,
    content: &[ContentBlock],
    first: usize,
) -> impl Iterator<Item = (usize, Fields)> {
    let blocks = said["content"].as_array().into_iter().flatten();
    let blocks = blocks.zip(content).enumerate();
    blocks.filter_map(move |(place, (raw, block))| {
        let ours: &[&str] = match block {
            ContentBlock::Text { .. } => &["text"],
            ContentBlock::Thinking { .. } => &["thinking", "signature"],
            ContentBlock::RedactedThinking { .. } => &["data"],
            ContentBlock::ToolUse(_) => &["id", "name", "input"],
            ContentBlock::Image(_) | ContentBlock::ToolResult(_) | ContentBlock::Other { .. } => {
                return None;
            }
        };
        let mut fields = self::said(raw.as_object()?.clone());
        fields.retain(|name, _| {
            !(ours.contains(&&**name) || ["type", "cache_control"].contains(&&**name))
        });
        (!fields.is_empty()).then_some((first + place, fields))
    })
}

/// Returns what a row of an answer says of it. What only its server can use is `opaque`, unless the row has it.
fn response(row: &Value, opaque: Opaque) -> Response {
    let (said, own) = (&row["message"], &row[OWN]);
    let opaque = Opaque::deserialize(&own["opaque"]).unwrap_or(opaque);
    let count = |field: &str| said["usage"][field].as_u64().unwrap_or_default();
    let reason = said["stop_reason"].as_str();
    Response {
        stop_reason: reason.map_or(StopReason::EndTurn, StopReason::from),
        usage: Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cache_creation_input_tokens: count("cache_creation_input_tokens"),
            cache_read_input_tokens: count("cache_read_input_tokens"),
            ..Usage::default()
        },
        cost: None,
        model: said["model"].as_str().unwrap_or_default().to_owned(),
        provider: own["provider"].as_str().unwrap_or(USUAL_SERVER).to_owned(),
        latency_ms: 0,
        request_id: None,
        opaque: (!opaque.is_empty()).then(|| Box::new(opaque)),
    }
}
