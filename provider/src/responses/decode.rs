//! Reads the events of a response.
//!
//! Each item is sent in pieces and once more as a whole, which is used if a server leaves the pieces out.

use std::collections::{BTreeMap, VecDeque};

use ah_conversation::{
    Cost, Delta, ErrorClass, Fields, PrefixBreak, ProviderError, StopReason, StreamEvent, Usage,
    json, said, says_nothing,
};
use ah_http::sse;
use serde_json::value::RawValue;

use super::wire;
use crate::blocks::Blocks;
use crate::call_name::unmarked;
use crate::decode::{AnswerReader, Phase};
use crate::failure::{self, protocol, unparsable};
use crate::openai::calls::{is_of_server, unique_id};
use crate::openai::usage::{cost, usage};

/// State of the response so far.
#[derive(Debug, Default)]
pub struct ResponseReader {
    phase: Phase,
    id: String,
    usage: Usage,
    cost: Option<Cost>,
    is_refused: bool,
    blocks: Blocks,
    /// Items by their index in the output.
    items: BTreeMap<usize, ItemState>,
}

/// State of an item.
#[derive(Debug, Default)]
struct ItemState {
    /// Whether its content has been sent in pieces.
    has_deltas: bool,
    /// The latest part of its reasoning, by kind and index.
    part: Option<(Kind, usize)>,
    /// Index of its block, if it is a call to be run here.
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
        // Some gateways send the end marker of chat completions.
        if event.data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let data = json::whole(event.data);
        let parsed: wire::Event = data
            .read()
            .map_err(|error| unparsable(&error, event.data))?;
        let index = parsed.output_index;
        let kind = match &*parsed.kind {
            "" => event.name,
            kind => kind,
        };
        match kind {
            "error" => return Err(error_in(event.data)),
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = parsed.response;
                let response =
                    response.ok_or_else(|| protocol("an end event without a response"))?;
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
            // Events that repeat others, calls of the server's own tools, and later extensions.
            _ => Ok(()),
        }
    }

    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let text = json::whole(json);
        let response: wire::Response = text.read().map_err(|error| unparsable(&error, json))?;
        if let Some(error) = response.error.as_ref().filter(|error| !says_nothing(error)) {
            return Err(failure::in_stream(Some(error)));
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

    /// Starts an item. Only a call starts its block with it.
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
                item.call = Some(self.blocks.tool_use(&id, unmarked(&name), events));
            }
        }
    }

    /// Adds a delta to an item.
    fn grow(
        &mut self,
        kind: &str,
        index: usize,
        summary_index: usize,
        delta: &RawValue,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let Ok(delta) = json::part::<String>(delta) else {
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
                let words = item.next_text((Kind::Summary, summary_index), delta);
                self.blocks.thinking(words, events);
            }
            "response.reasoning_text.delta" => {
                let words = item.next_text((Kind::Reasoning, 0), delta);
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
        item.has_deltas = true;
    }

    /// Completes an item.
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
        let has_deltas = item.has_deltas;
        match parse(raw)? {
            wire::Item::Message { content } => {
                let words = self.text_of_message(content.unwrap_or_default());
                if !has_deltas {
                    self.blocks.text(words, events);
                }
                if let Some(block) = self.blocks.open() {
                    let fields = given(raw, &["id", "type", "status", "role", "content"]);
                    self.blocks.opaque(Some(block), fields, events);
                }
                self.blocks.close(events);
            }
            wire::Item::Reasoning {
                summary,
                content,
                encrypted_content,
            } => {
                let content = content.unwrap_or_default();
                // Without either it is of no use to the server.
                let is_signed = encrypted_content.is_some() || !content.is_empty();
                if !has_deltas {
                    let text = [text_of(summary.unwrap_or_default()), text_of(content)]
                        .into_iter()
                        .find(|text| !text.is_empty());
                    self.blocks.thinking(text.unwrap_or_default(), events);
                }
                if is_signed {
                    self.blocks.signature(raw.get().to_owned(), events);
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
                    let arguments = arguments.filter(|json| !has_deltas && !json.is_empty());
                    if let Some(delta) = arguments.map(Delta::InputJson) {
                        events.push_back(StreamEvent::Delta { index, delta });
                    }
                    let ours = ["id", "type", "status", "call_id", "name", "arguments"];
                    self.blocks.opaque(Some(index), given(raw, &ours), events);
                    events.push_back(StreamEvent::BlockStopped { index });
                }
            }
            wire::Item::Other => {
                let item = json::part(raw).map_err(|error| unparsable(&error, raw.get()))?;
                self.blocks.other(item, events);
            }
        }
        Ok(())
    }

    fn text_of_message(&mut self, content: Vec<wire::Content>) -> String {
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
        if let Some(latest) = &response.usage {
            self.usage = usage(latest);
            self.cost = cost(latest);
        }
        let output = response.output.clone().unwrap_or_default();
        let reason = response
            .incomplete_details
            .as_ref()
            .and_then(|details| details.reason.clone());
        let is_incomplete = status == "incomplete";
        let dropped = dropped(&response.input_transformations);
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
            _ if is_cut => return Err(protocol("the answer ended within a tool call")),
            _ if calls.clone().next().is_some() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        let open = calls.filter(|call| !call.is_done);
        let ends = open.filter_map(|call| call.call);
        events.extend(ends.map(|index| StreamEvent::BlockStopped { index }));
        self.phase = Phase::Ended;
        let usage = self.usage;
        events.extend(dropped.into_iter().map(StreamEvent::ThinkingDropped));
        events.extend(self.cost.map(|cost| StreamEvent::Billed { cost }));
        events.push_back(StreamEvent::Stopping { stop_reason, usage });
        events.push_back(StreamEvent::Ended);
        Ok(())
    }
}

impl ItemState {
    /// Returns the text of a delta of this part of the reasoning: with a blank line before a new part, and empty if the
    /// same reasoning is already sent in the other kind.
    fn next_text(&mut self, part: (Kind, usize), words: String) -> String {
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

/// Returns why the model has not read reasoning that the request sent: each reason once.
fn dropped(transformations: &[wire::InputTransformation]) -> Vec<PrefixBreak> {
    let mut reasons = Vec::new();
    for removal in transformations.iter().filter_map(|it| it.reason) {
        let reason = match removal {
            wire::Removal::PrefixMismatch => PrefixBreak::PrefixMismatch,
            wire::Removal::ModelMismatch => PrefixBreak::ModelMismatch,
            wire::Removal::EndUserMismatch => PrefixBreak::EndUserMismatch,
            wire::Removal::OrganizationMismatch => PrefixBreak::OrganizationMismatch,
            wire::Removal::TurnBoundary | wire::Removal::Other => continue,
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

fn text_of(parts: Vec<wire::Content>) -> String {
    let texts: Vec<_> = parts
        .into_iter()
        .filter_map(|part| match part {
            wire::Content::SummaryText { text } | wire::Content::ReasoningText { text } => {
                Some(text)
            }
            wire::Content::OutputText { .. }
            | wire::Content::Refusal { .. }
            | wire::Content::Other => None,
        })
        .collect();
    texts.join("\n\n")
}

/// Returns the fields of an item that are not ours.
fn given(item: &RawValue, ours: &[&str]) -> Fields {
    let mut fields = said(json::part(item).unwrap_or_default());
    fields.retain(|name, _| !ours.contains(&&**name));
    fields
}

fn parse(item: &RawValue) -> Result<wire::Item, ProviderError> {
    json::part(item).map_err(|error| unparsable(&error, item.get()))
}

/// The error in an event, in a field of its own or not.
fn error_in(data: &str) -> ProviderError {
    match json::from_str::<serde_json::Value>(data) {
        Ok(event) => failure::in_stream(Some(event.get("error").unwrap_or(&event))),
        Err(_) => ProviderError::new(ErrorClass::Server, failure::excerpt(data, 200)),
    }
}
