//! A response of the Responses API, from its events to [`StreamEvent`]s.
//!
//! Each item is told in pieces and once more as a whole; the whole counts where a server leaves the pieces out.

use std::collections::{BTreeMap, VecDeque};

use ah_conversation::{Cost, Delta, ErrorClass, ProviderError, StopReason, StreamEvent, Usage};
use ah_http::sse;
use serde_json::value::RawValue;

use super::wire;
use crate::blocks::Blocks;
use crate::decode::{AnswerReader, Phase};
use crate::failure::{self, protocol, unparsable};
use crate::openai::calls::{is_of_server, unique_id};
use crate::openai::usage::{cost, usage};

/// What was said of the response so far.
#[derive(Debug, Default)]
pub struct ResponseReader {
    phase: Phase,
    id: String,
    usage: Usage,
    cost: Option<Cost>,
    is_refused: bool,
    blocks: Blocks,
    /// By their places in the output.
    items: BTreeMap<usize, Item>,
}

/// What is known of an item.
#[derive(Debug, Default)]
struct Item {
    /// Whether its content has come in pieces.
    is_told: bool,
    /// Which part of its reasoning is told, by kind and number.
    part: Option<(Kind, usize)>,
    /// The number of its block, if it is a call for us.
    call: Option<usize>,
    is_done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Summary,
    Reasoning,
}

impl AnswerReader for ResponseReader {
    fn read(
        &mut self,
        event: sse::Event<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        // Some gateways end with the word of the other protocol.
        if event.data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let parsed: wire::Event =
            serde_json::from_str(event.data).map_err(|error| unparsable(&error, event.data))?;
        let index = parsed.output_index;
        let kind = match &*parsed.kind {
            "" => event.name,
            kind => kind,
        };
        match kind {
            "error" => return Err(error_in(event.data)),
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = parsed.response;
                let response = response.ok_or_else(|| protocol("an end without a response"))?;
                return self.end(response, events);
            }
            _ => {}
        }
        self.start(parsed.response, events);
        match (kind, parsed.item, parsed.delta) {
            ("response.output_item.added", Some(item), _) => self.begin(index, item, events),
            ("response.output_item.done", Some(item), _) => self.complete(index, item, events),
            (_, _, Some(delta)) => {
                self.grow(kind, index, parsed.summary_index, delta, events);
                Ok(())
            }
            // What is told otherwise as well, what the server does by its own tools, and what is to come.
            _ => Ok(()),
        }
    }

    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let response: wire::Response =
            serde_json::from_str(json).map_err(|error| unparsable(&error, json))?;
        if response.error.is_some() {
            return Err(failure::in_stream(response.error.as_ref()));
        }
        if response.output.is_none() {
            return Err(protocol("the server's JSON holds no answer"));
        }
        self.end(response, events)
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl ResponseReader {
    fn start(&mut self, response: Option<wire::Response<'_>>, events: &mut VecDeque<StreamEvent>) {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Started;
            let id = response.and_then(|response| response.id);
            self.id = id.unwrap_or_default();
            events.push_back(StreamEvent::Started {
                id: self.id.clone(),
                usage: self.usage,
            });
        }
    }

    /// An item begins. Only calls have something to show then.
    fn begin(
        &mut self,
        index: usize,
        item: &RawValue,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.items.entry(index).or_default();
        match parse(item)? {
            wire::Item::FunctionCall { call_id, name, .. } => {
                self.begin_call(index, call_id, name, events);
            }
            wire::Item::Message { .. } | wire::Item::Reasoning { .. } | wire::Item::Other => {}
        }
        Ok(())
    }

    fn begin_call(
        &mut self,
        index: usize,
        call_id: Option<String>,
        name: Option<String>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let item = self.items.entry(index).or_default();
        if let (None, Some(id), Some(name)) = (item.call, call_id, name) {
            if is_of_server(&id) {
                self.blocks.close(events);
            } else {
                let id = unique_id(&id, false, index, &self.id);
                item.call = Some(self.blocks.tool_use(&id, &name, events));
            }
        }
    }

    /// An item grows.
    fn grow(
        &mut self,
        kind: &str,
        index: usize,
        summary_index: usize,
        delta: &RawValue,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let Ok(delta) = serde_json::from_str::<String>(delta.get()) else {
            return;
        };
        let item = self.items.entry(index).or_default();
        match kind {
            "response.output_text.delta" => self.blocks.text(delta, events),
            "response.refusal.delta" => {
                self.is_refused = true;
                self.blocks.text(delta, events);
            }
            "response.reasoning_summary_text.delta" => {
                let words = item.next_words((Kind::Summary, summary_index), delta);
                self.blocks.thinking(words, events);
            }
            "response.reasoning_text.delta" => {
                let words = item.next_words((Kind::Reasoning, 0), delta);
                self.blocks.thinking(words, events);
            }
            "response.function_call_arguments.delta" => {
                if let Some(index) = item.call {
                    let delta = Delta::InputJson(delta);
                    events.push_back(StreamEvent::Delta { index, delta });
                }
            }
            _ => return,
        }
        item.is_told = true;
    }

    /// An item is whole.
    fn complete(
        &mut self,
        index: usize,
        raw: &RawValue,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let item = self.items.entry(index).or_default();
        if std::mem::replace(&mut item.is_done, true) {
            return Ok(());
        }
        let is_told = item.is_told;
        match parse(raw)? {
            wire::Item::Message { content } => {
                let words = self.words_of_message(content.unwrap_or_default());
                if !is_told {
                    self.blocks.text(words, events);
                }
                self.blocks.close(events);
            }
            wire::Item::Reasoning {
                summary,
                content,
                encrypted_content,
            } => {
                let content = content.unwrap_or_default();
                // Without either the server could not make anything of it.
                let is_sealed = encrypted_content.is_some() || !content.is_empty();
                if !is_told {
                    let words = [words_of(summary.unwrap_or_default()), words_of(content)];
                    let words = words.into_iter().find(|words| !words.is_empty());
                    self.blocks.thinking(words.unwrap_or_default(), events);
                }
                if is_sealed {
                    self.blocks.seal(raw.get().to_owned(), events);
                }
                self.blocks.close(events);
            }
            wire::Item::FunctionCall {
                call_id,
                name,
                arguments,
            } => {
                self.begin_call(index, call_id, name, events);
                let call = self.items.get(&index).and_then(|item| item.call);
                if let Some(index) = call {
                    let arguments = arguments.filter(|json| !is_told && !json.is_empty());
                    if let Some(delta) = arguments.map(Delta::InputJson) {
                        events.push_back(StreamEvent::Delta { index, delta });
                    }
                    events.push_back(StreamEvent::BlockStopped { index });
                }
            }
            wire::Item::Other => self.blocks.close(events),
        }
        Ok(())
    }

    fn words_of_message(&mut self, content: Vec<wire::Content>) -> String {
        let words = content.into_iter().filter_map(|part| match part {
            wire::Content::OutputText { text } => Some(text),
            wire::Content::Refusal { refusal } => {
                self.is_refused = true;
                Some(refusal)
            }
            wire::Content::SummaryText { .. }
            | wire::Content::ReasoningText { .. }
            | wire::Content::Other => None,
        });
        words.collect()
    }

    fn end(
        &mut self,
        response: wire::Response<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let status = response.status.as_deref().unwrap_or("completed");
        if let "failed" | "cancelled" = status {
            return Err(failure::in_stream(response.error.as_ref()));
        }
        if let "queued" | "in_progress" = status {
            return Err(protocol(format!("the answer is only {status}")));
        }
        if let Some(told) = &response.usage {
            self.usage = usage(told);
            self.cost = cost(told);
        }
        let output = response.output.clone().unwrap_or_default();
        let reason = response.incomplete_details.as_ref();
        let reason = reason.and_then(|details| details.reason.clone());
        let is_incomplete = status == "incomplete";
        self.start(Some(response), events);
        if self.items.is_empty() {
            for (index, item) in output.into_iter().enumerate() {
                self.complete(index, item, events)?;
            }
        }
        self.blocks.close(events);
        let calls = self.items.values().filter(|item| item.call.is_some());
        let is_cut = calls.clone().any(|call| !call.is_done);
        let stop_reason = match reason.as_deref() {
            _ if self.is_refused => StopReason::Refusal,
            Some("content_filter") => StopReason::Refusal,
            _ if is_incomplete => StopReason::MaxTokens,
            _ if is_cut => return Err(protocol("the answer ended in the midst of a tool call")),
            _ if calls.clone().next().is_some() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        let open = calls.filter(|call| !call.is_done);
        let ends = open.filter_map(|call| call.call);
        events.extend(ends.map(|index| StreamEvent::BlockStopped { index }));
        self.phase = Phase::Ended;
        let usage = self.usage;
        events.extend(self.cost.map(|cost| StreamEvent::Billed { cost }));
        events.push_back(StreamEvent::Stopping { stop_reason, usage });
        events.push_back(StreamEvent::Ended);
        Ok(())
    }
}

impl Item {
    /// The words of a delta of this part of the reasoning: with a blank line before a new part, and none at all if
    /// the same is told in another way already.
    fn next_words(&mut self, part: (Kind, usize), words: String) -> String {
        match self.part.replace(part) {
            None => words,
            Some(last) if last == part => words,
            Some((kind, _)) if kind == part.0 => format!("\n\n{words}"),
            Some(last) => {
                self.part = Some(last);
                String::new()
            }
        }
    }
}

fn words_of(parts: Vec<wire::Content>) -> String {
    let words = parts.into_iter().filter_map(|part| match part {
        wire::Content::SummaryText { text } | wire::Content::ReasoningText { text } => Some(text),
        wire::Content::OutputText { .. } | wire::Content::Refusal { .. } | wire::Content::Other => {
            None
        }
    });
    words.collect::<Vec<_>>().join("\n\n")
}

fn parse(item: &RawValue) -> Result<wire::Item, ProviderError> {
    serde_json::from_str(item.get()).map_err(|error| unparsable(&error, item.get()))
}

/// The error that an event tells, under a name of its own or not.
fn error_in(data: &str) -> ProviderError {
    match serde_json::from_str::<serde_json::Value>(data) {
        Ok(event) => failure::in_stream(Some(event.get("error").unwrap_or(&event))),
        Err(_) => ProviderError::new(ErrorClass::Server, failure::excerpt(data, 200)),
    }
}
