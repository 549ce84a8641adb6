//! Reads the events of a chat completion.
//!
//! Servers differ in how they speak this protocol, so every known variant is accepted. It is strict where an incomplete
//! answer could be taken for a complete one: a stream without an end, and one that ends within the arguments of a tool
//! call, as when a gateway closes a stream after losing its own connection.

use std::collections::VecDeque;

use ah_conversation::{
    Cost, ErrorClass, Fields, ProviderError, StopReason, StreamEvent, Usage, json, says_nothing,
};
use ah_http::sse;
use serde_json::Value;

use super::calls::Calls;
use super::reasoning;
use super::tags::{Tags, TextPart, TextTags};
use super::usage::{cost, usage};
use super::wire;
use crate::blocks::Blocks;
use crate::decode::{AnswerReader, Phase};
use crate::failure::{self, protocol, unparsable};
use crate::opaque::{extend, merge};

/// Index of the first tool call that is found in the text; no server counts so far.
const FIRST_TEXT_CALL: i64 = 1 << 32;

/// State of the answer so far.
#[derive(Debug, Default)]
pub struct ChatReader {
    phase: Phase,
    /// Identifies the answer: its id, or else its creation time.
    stamp: String,
    usage: Usage,
    cost: Option<Cost>,
    finish_reason: Option<String>,
    is_refused: bool,
    blocks: Blocks,
    calls: Calls,
    /// Reasoning that is shown, as far as it has come.
    reasoning: String,
    /// What the server gives with the message.
    opaque: Fields,
    /// The content as it came, if it begins with other parts than text.
    parts: Vec<Value>,
    /// Whether the tokens of the whole answer were counted after everything else.
    is_counted: bool,
    tags: Tags,
    /// Number of tool calls that were found in the text.
    text_calls: i64,
    /// Number of events that say how far the server has read.
    readings: u64,
}

impl AnswerReader for ChatReader {
    fn read(
        &mut self,
        event: sse::Event<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return match self.phase {
                Phase::Waiting => Err(protocol("the stream ended before an answer began")),
                Phase::Started | Phase::Ended => self.end(events),
            };
        }
        let chunk = chunk(data)?;
        // A server may send the whole message so far beside the delta.
        self.take(
            chunk,
            |choice| choice.delta.or(choice.message.map(|message| *message)),
            events,
        );
        Ok(())
    }

    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let answer = chunk(json)?;
        self.take(
            answer,
            |choice| choice.message.map(|message| *message).or(choice.delta),
            events,
        );
        match self.phase {
            Phase::Waiting => Err(protocol("the server's JSON holds no answer")),
            Phase::Started | Phase::Ended => self.end(events),
        }
    }

    fn close(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        // Some servers send no end marker, and some no reason either. A call that is there, with nothing begun behind it,
        // lacks nothing; neither does an answer whose tokens have been counted.
        let is_there = self.calls.are_there() && self.blocks.open().is_none();
        let is_counted = self.is_counted && !self.blocks.is_empty() && self.usage.output_tokens > 0;
        match self.finish_reason {
            None if !is_there && !is_counted => Ok(()),
            None | Some(_) => self.end(events),
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn readings(&self) -> u64 {
        self.readings
    }

    fn has_stopped(&self) -> bool {
        self.phase == Phase::Started && self.finish_reason.is_some()
    }
}

impl ChatReader {
    /// A reader of the answers of a server that leaves `tags` in their text.
    pub fn reading(tags: TextTags) -> Self {
        Self {
            tags: Tags::new(tags),
            ..Self::default()
        }
    }

    fn take(
        &mut self,
        chunk: wire::Chunk,
        delta: impl Fn(wire::Choice) -> Option<wire::Delta>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        self.is_counted = match &chunk.choices {
            Some(choices) if !choices.is_empty() => false,
            _ => self.is_counted || chunk.usage.as_ref().is_some_and(Value::is_object),
        };
        if let Some(progress) = chunk.prompt_progress {
            self.readings += 1;
            let (read, total) = (progress.processed, progress.total);
            events.push_back(StreamEvent::Reading { read, total });
        }
        self.note_usage(chunk.usage);
        self.note_usage(chunk.x_groq.and_then(|extension| extension.usage));
        // More than one answer was not asked for.
        let choices = chunk.choices.into_iter().flatten();
        for mut choice in choices.filter(|choice| choice.index.is_none_or(|index| index == 0)) {
            if self.phase == Phase::Waiting {
                self.phase = Phase::Started;
                let id = chunk.id.clone().unwrap_or_default();
                self.stamp = match (&*id, &chunk.created) {
                    ("", Some(created)) => created.clone(),
                    _ => id.clone(),
                };
                let usage = self.usage;
                events.push_back(StreamEvent::Started { id, usage });
            }
            self.note_usage(choice.usage.take());
            self.finish_reason = choice
                .finish_reason
                .take()
                .filter(|reason| !reason.is_empty())
                .or(self.finish_reason.take());
            self.add(delta(choice).unwrap_or_default(), events);
        }
    }

    /// The numbers are totals so far, so later ones replace earlier ones.
    fn note_usage(&mut self, latest: Option<Value>) {
        if let Some(latest @ Value::Object(_)) = latest {
            self.usage = usage(&latest);
            self.cost = cost(&latest).or(self.cost);
        }
    }

    fn add(&mut self, delta: wire::Delta, events: &mut VecDeque<StreamEvent>) {
        let reasoning = reasoning::text(&delta.opaque);
        merge(&mut self.opaque, delta.opaque);
        match delta.thinking_blocks {
            blocks if !blocks.is_empty() => self.add_thinking(blocks, events),
            _ => self.think(reasoning, events),
        }
        self.keep_parts(delta.parts, delta.content.as_ref());
        match delta.content {
            Some(wire::Content::Text(text)) => self.add_text(text, events),
            Some(wire::Content::Parts(parts)) => self.add_parts(parts, events),
            None => {}
        }
        if let Some(refusal) = delta.refusal.filter(|words| !words.is_empty()) {
            self.is_refused = true;
            self.blocks.text(refusal, events);
        }
        for piece in delta.tool_calls {
            self.calls
                .read(piece, &self.stamp, &mut self.blocks, events);
        }
    }

    /// Keeps content that is not text alone, such as thinking, which its server takes back in its place.
    fn keep_parts(&mut self, parts: Vec<Value>, content: Option<&wire::Content>) {
        let is_first = self.blocks.is_empty() && self.calls.is_empty();
        if !parts.is_empty() && (is_first || !self.parts.is_empty()) {
            extend(&mut self.parts, parts);
        } else if let (Some(content), false) = (content, self.parts.is_empty()) {
            let text = serde_json::json!({"type": "text", "text": content.text()});
            extend(&mut self.parts, vec![text]);
        }
    }

    fn think(&mut self, text: String, events: &mut VecDeque<StreamEvent>) {
        self.reasoning.push_str(&text);
        self.blocks.thinking(text, events);
    }

    fn add_text(&mut self, text: String, events: &mut VecDeque<StreamEvent>) {
        let parts = self.tags.feed(text);
        self.add_text_parts(parts, events);
    }

    fn add_text_parts(&mut self, parts: Vec<TextPart>, events: &mut VecDeque<StreamEvent>) {
        for part in parts {
            match part {
                TextPart::Text(text) => self.blocks.text(text, events),
                TextPart::Thinking(text) => self.think(text, events),
                TextPart::Call { name, arguments } => {
                    let piece = wire::ToolCallDelta {
                        // Apart from the calls that the server has found itself.
                        index: Some(FIRST_TEXT_CALL + self.text_calls),
                        name: Some(name),
                        arguments: Some(arguments),
                        ..wire::ToolCallDelta::default()
                    };
                    self.text_calls += 1;
                    self.calls
                        .read(piece, &self.stamp, &mut self.blocks, events);
                }
            }
        }
    }

    fn add_thinking(
        &mut self,
        blocks: Vec<wire::ThinkingBlock>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        for block in blocks {
            if let Some(data) = block.data {
                self.blocks.redacted(data, events);
            }
            self.think(block.thinking.unwrap_or_default(), events);
            self.blocks
                .signature(block.signature.unwrap_or_default(), events);
        }
    }

    fn add_parts(&mut self, parts: Vec<wire::ContentPart>, events: &mut VecDeque<StreamEvent>) {
        for part in parts {
            match part {
                wire::ContentPart::Text { text } => self.add_text(text, events),
                wire::ContentPart::Thinking { thinking } => {
                    self.think(thinking.text(), events);
                }
                wire::ContentPart::Other => {}
            }
        }
    }

    fn end(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        let rest = self.tags.finish();
        self.add_text_parts(rest, events);
        self.blocks.close(events);
        self.calls.finish(&self.stamp, &mut self.blocks, events)?;
        let stop_reason = self.stop_reason()?;
        if !self.parts.is_empty() {
            let parts = std::mem::take(&mut self.parts);
            self.opaque.insert("content".to_owned(), parts.into());
        }
        let fields = reasoning::shown_once(std::mem::take(&mut self.opaque), &self.reasoning);
        self.blocks.opaque(None, fields, events);
        self.phase = Phase::Ended;
        let usage = self.usage;
        events.extend(self.cost.map(|cost| StreamEvent::Billed { cost }));
        events.push_back(StreamEvent::Stopping { stop_reason, usage });
        events.push_back(StreamEvent::Ended);
        Ok(())
    }

    fn stop_reason(&self) -> Result<StopReason, ProviderError> {
        if self.is_refused {
            return Ok(StopReason::Refusal);
        }
        Ok(match self.finish_reason.as_deref().unwrap_or_default() {
            "" | "stop" | "eos" | "end_turn" => return self.stop(),
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" => StopReason::MaxTokens,
            "model_length" => StopReason::ContextWindowExceeded,
            "content_filter" => StopReason::Refusal,
            "error" => {
                let message = "the server ended the answer with an error and gave no reason";
                return Err(ProviderError::new(ErrorClass::Server, message));
            }
            word => StopReason::from(word),
        })
    }

    /// The meaning of a plain stop. Gateways also send it after losing their own connection, and some servers send it
    /// when they wait for tool results.
    fn stop(&self) -> Result<StopReason, ProviderError> {
        if !self.calls.are_whole() {
            return Err(protocol("the answer ended within a tool call"));
        }
        if self.calls.has_ours() {
            return Ok(StopReason::ToolUse);
        }
        if self.blocks.is_empty() && self.calls.is_empty() && self.usage.output_tokens == 0 {
            return Err(protocol("the answer is empty"));
        }
        Ok(StopReason::EndTurn)
    }
}

impl wire::Content {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    wire::ContentPart::Text { text } => Some(text.as_str()),
                    wire::ContentPart::Thinking { .. } | wire::ContentPart::Other => None,
                });
                texts.collect()
            }
        }
    }
}

/// Parses `data` as a chunk, or returns the error that it holds.
fn chunk(data: &str) -> Result<wire::Chunk, ProviderError> {
    let chunk: wire::Chunk = match json::from_str(data) {
        Ok(chunk) => chunk,
        Err(error) => return Err(listed_error(data).unwrap_or_else(|| unparsable(&error, data))),
    };
    let extension = chunk.x_groq.as_ref().and_then(|it| it.error.as_ref());
    let errors = [chunk.error.as_ref(), extension].into_iter().flatten();
    if let Some(error) = errors.into_iter().find(|error| !says_nothing(error)) {
        return Err(failure::in_stream(Some(error)));
    }
    if chunk.object.as_deref() == Some("error") {
        let error: Option<Value> = json::from_str(data).ok();
        return Err(failure::in_stream(error.as_ref()));
    }
    Ok(chunk)
}

/// Returns the error that is sent in a list, in the place of a chunk.
fn listed_error(data: &str) -> Option<ProviderError> {
    let list: Vec<Value> = json::from_str(data).ok()?;
    let error = list.first()?.get("error")?;
    Some(failure::in_stream(Some(error)))
}
