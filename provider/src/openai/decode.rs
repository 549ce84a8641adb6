//! Reads the events of a chat completion.
//!
//! Servers differ in how they speak this protocol, so every known variant is accepted. It is strict where an incomplete
//! answer could be taken for a complete one: a stream without an end, and one that ends within the arguments of a tool
//! call, as when a gateway closes a stream after losing its own connection.

use std::collections::VecDeque;

use ah_conversation::{Cost, ErrorClass, ProviderError, StopReason, StreamEvent, Usage, json};
use ah_http::sse;
use serde_json::Value;

use super::calls::Calls;
use super::reasoning::Details;
use super::tags::{Tags, TextPart, TextTags};
use super::usage::{cost, usage};
use super::wire;
use crate::blocks::Blocks;
use crate::decode::{AnswerReader, Phase};
use crate::failure::{self, protocol, unparsable};

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
    details: Details,
    tags: Tags,
    /// Number of tool calls that were found in the text.
    text_calls: i64,
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
        match self.finish_reason {
            // Some servers send no end marker.
            Some(_) => self.end(events),
            None => Ok(()),
        }
    }

    fn phase(&self) -> Phase {
        self.phase
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
        self.note_usage(chunk.usage);
        self.note_usage(chunk.x_groq.and_then(|extension| extension.usage));
        // More than one answer was not asked for.
        let choices = chunk.choices.into_iter().flatten();
        for mut choice in choices.filter(|choice| choice.index.is_none_or(|index| index == 0)) {
            if self.phase == Phase::Waiting {
                self.phase = Phase::Started;
                let id = chunk.id.clone().unwrap_or_default();
                self.stamp = match (&*id, &chunk.created) {
                    ("", Some(created)) => created.to_string(),
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
        let details = delta.reasoning_details.into_iter().flatten();
        let detailed: String = details
            .filter_map(|detail| self.details.read(detail))
            .collect();
        // Some servers send the same reasoning in several fields.
        let names = [delta.reasoning_content, delta.reasoning, Some(detailed)];
        let reasoning = names.into_iter().flatten().find(|words| !words.is_empty());
        match delta.thinking_blocks {
            Some(blocks) if !blocks.is_empty() => self.add_thinking(blocks, events),
            _ => self.blocks.thinking(reasoning.unwrap_or_default(), events),
        }
        match delta.content {
            Some(wire::Content::Text(text)) => self.add_text(text, events),
            Some(wire::Content::Parts(parts)) => self.add_parts(parts, events),
            None => {}
        }
        if let Some(refusal) = delta.refusal.filter(|words| !words.is_empty()) {
            self.is_refused = true;
            self.blocks.text(refusal, events);
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.calls
                .read(piece, &self.stamp, &mut self.blocks, events);
        }
    }

    fn add_text(&mut self, text: String, events: &mut VecDeque<StreamEvent>) {
        let parts = self.tags.feed(text);
        self.add_text_parts(parts, events);
    }

    fn add_text_parts(&mut self, parts: Vec<TextPart>, events: &mut VecDeque<StreamEvent>) {
        for part in parts {
            match part {
                TextPart::Text(text) => self.blocks.text(text, events),
                TextPart::Thinking(text) => self.blocks.thinking(text, events),
                TextPart::Call { name, arguments } => {
                    let piece = wire::ToolCallDelta {
                        // Apart from the calls that the server has found itself.
                        index: Some(FIRST_TEXT_CALL + self.text_calls),
                        id: None,
                        function: Some(wire::FunctionDelta {
                            name: Some(name),
                            arguments: Some(arguments),
                        }),
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
            self.blocks
                .thinking(block.thinking.unwrap_or_default(), events);
            self.blocks
                .signature(block.signature.unwrap_or_default(), events);
        }
    }

    fn add_parts(&mut self, parts: Vec<wire::ContentPart>, events: &mut VecDeque<StreamEvent>) {
        for part in parts {
            match part {
                wire::ContentPart::Text { text } => self.add_text(text, events),
                wire::ContentPart::Thinking { thinking } => {
                    self.blocks.thinking(thinking.into_text(), events);
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
        if let (StopReason::EndTurn | StopReason::ToolUse, Some(details)) =
            (&stop_reason, self.details.signed())
        {
            self.blocks.redacted(details, events);
        }
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
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => {
                let texts = parts.into_iter().filter_map(|part| match part {
                    wire::ContentPart::Text { text } => Some(text),
                    wire::ContentPart::Thinking { .. } | wire::ContentPart::Other => None,
                });
                texts.collect()
            }
        }
    }
}

/// Parses `data` as a chunk, or returns the error that it holds.
fn chunk(data: &str) -> Result<wire::Chunk, ProviderError> {
    let chunk: wire::Chunk = json::from_str(data).map_err(|error| unparsable(&error, data))?;
    let extension = chunk.x_groq.as_ref().and_then(|it| it.error.as_ref());
    if let Some(error) = chunk.error.as_ref().or(extension) {
        return Err(failure::in_stream(Some(error)));
    }
    if chunk.object.as_deref() == Some("error") {
        let error: Option<Value> = json::from_str(data).ok();
        return Err(failure::in_stream(error.as_ref()));
    }
    Ok(chunk)
}
