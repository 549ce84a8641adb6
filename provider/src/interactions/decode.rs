//! Reads the events of an interaction: each step of the answer has a beginning, pieces and an end.

use std::collections::{BTreeMap, VecDeque};

use ah_conversation::{Delta, ProviderError, StopReason, StreamEvent, Usage, json, says_nothing};
use ah_http::sse;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::wire;
use crate::blocks::Blocks;
use crate::call_name::unmarked;
use crate::decode::{AnswerReader, Phase};
use crate::failure::{self, protocol, unparsable};
use crate::openai::calls::unique_id;

/// State of the interaction so far.
#[derive(Debug, Default)]
pub struct InteractionReader {
    phase: Phase,
    id: String,
    usage: Usage,
    blocks: Blocks,
    /// Calls by the index of their step.
    calls: BTreeMap<usize, Call>,
    /// The signature of the open thought. A later one takes its place.
    signature: String,
    has_steps: bool,
}

/// State of a call.
#[derive(Debug)]
struct Call {
    block: usize,
    /// The arguments of its beginning, which count if no pieces follow.
    arguments: Option<Value>,
    /// The signature of the thoughts before it, if the server gives it with the call.
    signature: String,
    is_done: bool,
}

impl AnswerReader for InteractionReader {
    fn read(
        &mut self,
        event: sse::Event<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if event.data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let data = json::whole(event.data);
        let parsed: wire::Event = data
            .read()
            .map_err(|error| unparsable(&error, event.data))?;
        let kind = match &*parsed.kind {
            "" => event.name,
            kind => kind,
        };
        let index = parsed.index;
        // What stands between may pass an error on without a type.
        let has_failed = parsed.error.as_ref().is_some_and(|it| !says_nothing(it));
        if kind == "error" || has_failed {
            return Err(failure::in_stream(parsed.error.as_ref()));
        }
        if kind == "interaction.completed" {
            let interaction = parsed.interaction;
            let interaction =
                interaction.ok_or_else(|| protocol("an end event without an interaction"))?;
            return self.end(interaction, events);
        }
        self.start(parsed.interaction.as_ref(), events);
        match (kind, parsed.step, parsed.delta) {
            ("step.start", Some(step), _) => self.begin(index, step, events),
            ("step.delta", _, Some(piece)) => self.grow(index, piece, events),
            ("step.stop", ..) => {
                self.stop(index, events);
                Ok(())
            }
            // Changes of the state, and later extensions.
            _ => Ok(()),
        }
    }

    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let text = json::whole(json);
        let interaction: wire::Interaction =
            text.read().map_err(|error| unparsable(&error, json))?;
        if let Some(error) = { interaction.error.as_ref() }.filter(|error| !says_nothing(error)) {
            return Err(failure::in_stream(Some(error)));
        }
        if interaction.steps.is_none() {
            return Err(match interaction.failure() {
                Some(error) => failure::in_stream(Some(error)),
                None => protocol("the server's JSON holds no answer"),
            });
        }
        self.end(interaction, events)
    }

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl InteractionReader {
    fn start(
        &mut self,
        interaction: Option<&wire::Interaction<'_>>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Started;
            let id = interaction.and_then(|interaction| interaction.id.clone());
            self.id = id.unwrap_or_default();
            events.push_back(StreamEvent::Started {
                id: self.id.clone(),
                usage: self.usage,
            });
        }
    }

    /// Starts a step, with what its beginning has already.
    fn begin(
        &mut self,
        index: usize,
        step: &RawValue,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.has_steps = true;
        if self.calls.get(&index).is_some_and(|call| !call.is_done) {
            self.stop(index, events);
        }
        match json::part(step).map_err(|error| unparsable(&error, step.get()))? {
            wire::Step::Thought { signature, summary } => {
                self.close(events);
                for words in summary.into_iter().flatten().filter_map(text_of) {
                    self.blocks.thinking(words, events);
                }
                self.signature = signature.unwrap_or_default();
            }
            wire::Step::ModelOutput { content, error } => {
                if let Some(error) = error.filter(|error| !says_nothing(error)) {
                    return Err(failure::in_stream(Some(&error)));
                }
                self.close(events);
                for words in content.into_iter().flatten().filter_map(text_of) {
                    self.blocks.text(words, events);
                }
            }
            wire::Step::FunctionCall {
                id,
                name,
                arguments,
                signature,
            } => {
                self.close(events);
                let name = name.filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| protocol("a tool call without a name"))?;
                // Others are unique, and the server knows its calls by them.
                let id = id.filter(|id| !id.is_empty());
                let id = id.unwrap_or_else(|| unique_id("", false, index, &self.id));
                let block = self.blocks.tool_use(&id, unmarked(&name), events);
                let call = Call {
                    block,
                    arguments,
                    signature: signature.unwrap_or_default(),
                    is_done: false,
                };
                self.calls.insert(index, call);
            }
            wire::Step::Other => {}
        }
        Ok(())
    }

    /// Adds a piece to a step.
    fn grow(
        &mut self,
        index: usize,
        piece: &RawValue,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        match json::part(piece).map_err(|error| unparsable(&error, piece.get()))? {
            wire::Piece::Text { text } => self.blocks.text(text, events),
            wire::Piece::ThoughtSummary { content } => {
                let words = content.and_then(text_of).unwrap_or_default();
                self.blocks.thinking(words, events);
            }
            wire::Piece::ThoughtSignature { signature } => {
                replace(&mut self.signature, signature);
            }
            wire::Piece::ArgumentsDelta {
                arguments,
                signature,
            } => {
                let calls = self.calls.get_mut(&index);
                let Some(call) = calls.filter(|call| !call.is_done) else {
                    return Ok(());
                };
                replace(&mut call.signature, signature);
                if let Some(json) = arguments.filter(|json| !json.is_empty()) {
                    call.arguments = None;
                    let (index, delta) = (call.block, Delta::InputJson(json));
                    events.push_back(StreamEvent::Delta { index, delta });
                }
            }
            wire::Piece::Other => {}
        }
        Ok(())
    }

    /// Ends a step.
    fn stop(&mut self, index: usize, events: &mut VecDeque<StreamEvent>) {
        let calls = self.calls.get_mut(&index);
        let Some(call) = calls.filter(|call| !call.is_done) else {
            return self.close(events);
        };
        call.is_done = true;
        let says_something =
            |it: &Value| !matches!(it, Value::Null) && *it != Value::Object(Map::new());
        let arguments = call.arguments.take().filter(says_something);
        let (index, signature) = (call.block, std::mem::take(&mut call.signature));
        if let Some(delta) = arguments.map(|it| Delta::InputJson(it.to_string())) {
            events.push_back(StreamEvent::Delta { index, delta });
        }
        let given = (!signature.is_empty()).then(|| ("signature".to_owned(), signature.into()));
        self.blocks
            .opaque(Some(index), given.into_iter().collect(), events);
        events.push_back(StreamEvent::BlockStopped { index });
    }

    /// Ends the open text or thought, which gets its signature.
    fn close(&mut self, events: &mut VecDeque<StreamEvent>) {
        let signature = std::mem::take(&mut self.signature);
        self.blocks.signature(signature, events);
        self.blocks.close(events);
    }

    fn end(
        &mut self,
        interaction: wire::Interaction<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let status = interaction.status.as_deref().unwrap_or("completed");
        let is_cut = match status {
            "completed" | "requires_action" => false,
            "incomplete" | "requires_continuation" | "budget_exceeded" => true,
            "failed" | "cancelled" => {
                return Err(failure::in_stream(interaction.failure()));
            }
            status => return Err(protocol(format!("the answer is only {status}"))),
        };
        self.start(Some(&interaction), events);
        if !self.has_steps {
            let steps = interaction.steps.into_iter().flatten().enumerate();
            for (index, step) in steps {
                self.begin(index, step, events)?;
                self.stop(index, events);
            }
        }
        self.close(events);
        let mut calls = self.calls.iter();
        let open: Vec<_> = { calls.clone() }
            .filter_map(|(index, call)| (!call.is_done).then_some(*index))
            .collect();
        let stop_reason = match calls.next() {
            _ if is_cut => StopReason::MaxTokens,
            Some(_) if !open.is_empty() => {
                return Err(protocol("the answer ended within a tool call"));
            }
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        for index in open {
            self.stop(index, events);
        }
        self.usage = interaction.usage.map(usage).unwrap_or_default();
        self.phase = Phase::Ended;
        let usage = self.usage;
        events.push_back(StreamEvent::Stopping { stop_reason, usage });
        events.push_back(StreamEvent::Ended);
        Ok(())
    }
}

/// Takes a signature that is given, which is whole each time.
fn replace(signature: &mut String, given: Option<String>) {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        *signature = given;
    }
}

fn usage(tokens: wire::Tokens) -> Usage {
    let cached = tokens.total_cached_tokens;
    let input = tokens.total_input_tokens.saturating_sub(cached);
    let output = tokens.total_output_tokens;
    Usage {
        input_tokens: input.saturating_add(tokens.total_tool_use_tokens),
        output_tokens: output.saturating_add(tokens.total_thought_tokens),
        cache_read_input_tokens: cached,
        ..Usage::default()
    }
}

fn text_of(content: wire::Content) -> Option<String> {
    match content {
        wire::Content::Text { text } => Some(text),
        wire::Content::Other => None,
    }
}
