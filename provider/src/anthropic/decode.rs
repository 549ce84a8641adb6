//! Reads the events of a message.
//!
//! It is strict where an incomplete answer could be taken for a complete one (order of events, early end) and lenient
//! elsewhere (unknown events, a missing or repeated end of a block).

use std::collections::{BTreeMap, VecDeque};

use ah_conversation::{
    BlockStart, Delta, Fields, ProviderError, StopReason, StreamEvent, Usage, json, said,
    says_nothing,
};
use ah_http::sse;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire;
use crate::call_name::unmarked;
use crate::decode::{AnswerReader, Phase};
use crate::failure::{self, protocol, unparsable};

/// State of the answer so far.
#[derive(Debug, Default)]
pub struct MessageReader {
    phase: Phase,
    usage: Usage,
    /// Tokens of summaries that the server wrote, which the totals leave out.
    summaries: Usage,
    stop_reason: Option<StopReason>,
    /// The blocks so far, by index; `true` while a block is open.
    blocks: BTreeMap<usize, bool>,
    pings: u64,
}

impl AnswerReader for MessageReader {
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
        let kind = match &*parsed.kind {
            "" => event.name,
            kind => kind,
        };
        match kind {
            "ping" => {
                self.pings += 1;
                Ok(())
            }
            "message_start" => self.start(parsed.message, events),
            "error" => Err(failure::in_stream(parsed.error.as_ref())),
            "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
                if self.phase == Phase::Waiting =>
            {
                Err(protocol(format!("{kind} came before message_start")))
            }
            "content_block_start" => self.start_block(parsed.index, parsed.content_block, events),
            "content_block_delta" => self.grow_block(&parsed, event.data, events),
            "content_block_stop" => self.stop_block(parsed.index, events),
            "message_delta" => self.note_stop(&parsed, event.data, events),
            "message_stop" => self.end(events),
            // Events that later versions of the protocol add.
            _ => Ok(()),
        }
    }

    fn read_whole(
        &mut self,
        json: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let message: wire::Message =
            json::from_str(json).map_err(|error| unparsable(&error, json))?;
        if message
            .error
            .as_ref()
            .is_some_and(|error| !says_nothing(error))
        {
            return Err(failure::in_stream(message.error.as_ref()));
        }
        let content = message.content;
        let content = content.ok_or_else(|| protocol("the server's JSON holds no answer"))?;
        self.start(message.start, events)?;
        for (index, block) in content.into_iter().enumerate() {
            self.start_block(Some(index), Some(block), events)?;
            self.stop_block(Some(index), events)?;
        }
        self.stop_reason = message.stop_reason;
        self.push_stop(events);
        self.end(events)
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn pings(&self) -> u64 {
        self.pings
    }
}

impl MessageReader {
    fn start(
        &mut self,
        message: Option<wire::MessageStart>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.phase == Phase::Started {
            return Ok(()); // A repeated event.
        }
        let message = message.ok_or_else(|| protocol("message_start without a message"))?;
        self.phase = Phase::Started;
        self.merge_usage(message.usage.as_ref());
        events.push_back(StreamEvent::Started {
            id: message.id.unwrap_or_default(),
            usage: self.usage,
        });
        Ok(())
    }

    /// The numbers of each event are totals so far, so later ones replace earlier ones.
    fn merge_usage(&mut self, usage: Option<&wire::Usage>) {
        let Some(usage) = usage else { return };
        let one_hour = one_hour(usage);
        let server = usage.server_tool_use.as_ref();
        let searches = server.and_then(|used| used.web_search_requests);
        for (total, latest) in [
            (&mut self.usage.input_tokens, usage.input_tokens),
            (&mut self.usage.output_tokens, usage.output_tokens),
            (
                &mut self.usage.cache_creation_input_tokens,
                usage.cache_creation_input_tokens,
            ),
            (
                &mut self.usage.cache_read_input_tokens,
                usage.cache_read_input_tokens,
            ),
            (&mut self.usage.cache_creation_1h_input_tokens, one_hour),
            (&mut self.usage.web_search_requests, searches),
        ] {
            *total = latest.unwrap_or(*total);
        }
        self.summaries = usage
            .iterations
            .iter()
            .filter(|part| part.kind == "compaction")
            .fold(Usage::default(), |sum, part| sum + tokens(&part.usage));
    }

    /// Returns the tokens of the answer. The totals leave out a summary, also where the answer is nothing else.
    fn whole_usage(&self) -> Usage {
        match &self.stop_reason {
            Some(StopReason::Other(reason))
                if reason == "compaction" && self.usage.effective_input() == 0 =>
            {
                self.summaries
            }
            _ => self.usage,
        }
    }

    fn start_block(
        &mut self,
        index: Option<usize>,
        block: Option<Value>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let (Some(index), Some(Value::Object(block))) = (index, block) else {
            return Err(protocol("content_block_start without index or block"));
        };
        if self.blocks.insert(index, true).is_some() {
            return Err(protocol(format!("content block {index} started twice")));
        }
        let (block, signature, fields) = block_start(block)?;
        let (block, first) = told_as_growth(block);
        events.push_back(StreamEvent::BlockStarted { index, block });
        events.extend(first.map(|delta| StreamEvent::Delta { index, delta }));
        if let Some(signature) = signature {
            let delta = Delta::Signature(signature);
            events.push_back(StreamEvent::Delta { index, delta });
        }
        if !fields.is_empty() {
            let index = Some(index);
            events.push_back(StreamEvent::Opaque { index, fields });
        }
        Ok(())
    }

    fn grow_block(
        &mut self,
        event: &wire::Event,
        data: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let (Some(index), Some(delta)) = (event.index, event.delta) else {
            return Err(protocol("content_block_delta without index or delta"));
        };
        if self.blocks.get(&index) != Some(&true) {
            return Err(protocol(format!(
                "content_block_delta for content block {index}, which is not open"
            )));
        }
        let delta = delta_of(delta).map_err(|error| unparsable(&error, data))?;
        events.push_back(StreamEvent::Delta { index, delta });
        Ok(())
    }

    fn stop_block(
        &mut self,
        index: Option<usize>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let index = index.ok_or_else(|| protocol("content_block_stop without an index"))?;
        if let Some(is_open @ true) = self.blocks.get_mut(&index) {
            *is_open = false;
            events.push_back(StreamEvent::BlockStopped { index });
        }
        Ok(())
    }

    fn note_stop(
        &mut self,
        event: &wire::Event,
        data: &str,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        self.merge_usage(event.usage.as_ref());
        if let Some(delta) = event.delta {
            let delta: wire::MessageDelta =
                json::part(delta).map_err(|error| unparsable(&error, data))?;
            self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
        }
        self.push_stop(events);
        Ok(())
    }

    fn push_stop(&self, events: &mut VecDeque<StreamEvent>) {
        if let Some(stop_reason) = self.stop_reason.clone() {
            let usage = self.whole_usage();
            events.push_back(StreamEvent::Stopping { stop_reason, usage });
        }
    }

    fn end(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.stop_reason.is_none() {
            return Err(protocol("the answer ended without a stop reason"));
        }
        self.phase = Phase::Ended;
        events.push_back(StreamEvent::Ended);
        Ok(())
    }
}

fn one_hour(usage: &wire::Usage) -> Option<u64> {
    let creation = usage.cache_creation.as_ref();
    creation.and_then(|creation| creation.ephemeral_1h_input_tokens)
}

fn tokens(usage: &wire::Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens.unwrap_or_default(),
        output_tokens: usage.output_tokens.unwrap_or_default(),
        cache_creation_input_tokens: usage.cache_creation_input_tokens.unwrap_or_default(),
        cache_read_input_tokens: usage.cache_read_input_tokens.unwrap_or_default(),
        cache_creation_1h_input_tokens: one_hour(usage).unwrap_or_default(),
        // The totals have those of all parts.
        web_search_requests: 0,
    }
}

/// Returns the start of a block without its text, and the text as growth: displays show what grows.
fn told_as_growth(block: BlockStart) -> (BlockStart, Option<Delta>) {
    match block {
        BlockStart::Text(text) if !text.is_empty() => {
            (BlockStart::Text(String::new()), Some(Delta::Text(text)))
        }
        BlockStart::Thinking(text) if !text.is_empty() => (
            BlockStart::Thinking(String::new()),
            Some(Delta::Thinking(text)),
        ),
        other => (other, None),
    }
}

/// The start of a block, the signature, which may already be there, and the fields that are not ours.
fn block_start(mut block: Fields) -> Result<(BlockStart, Option<String>, Fields), ProviderError> {
    let kind = block.get("type").and_then(Value::as_str).map(str::to_owned);
    let kind = kind.ok_or_else(|| protocol("a content block without a type"))?;
    let mut take = |field: &str| match block.shift_remove(field) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let mut signature = None;
    let start = match kind.as_str() {
        "text" => BlockStart::Text(take("text").unwrap_or_default()),
        "thinking" => {
            signature = take("signature").filter(|signature| !signature.is_empty());
            BlockStart::Thinking(take("thinking").unwrap_or_default())
        }
        "redacted_thinking" => {
            let data = take("data").ok_or_else(|| protocol("redacted thinking without data"))?;
            BlockStart::RedactedThinking(data)
        }
        "tool_use" => {
            let (Some(id), Some(name)) = (take("id"), take("name")) else {
                return Err(protocol("a tool use without id or name"));
            };
            BlockStart::ToolUse {
                id: id.into(),
                name: unmarked(&name).to_owned(),
                input: block.shift_remove("input").unwrap_or_default(),
            }
        }
        _ => BlockStart::Other(Value::Object(std::mem::take(&mut block))),
    };
    block.shift_remove("type");
    Ok((start, signature, said(block)))
}

fn delta_of(raw: &RawValue) -> Result<Delta, serde_json::Error> {
    // An unknown kind of delta may use the known names for other types, so a parse error is ignored.
    if let Ok(delta) = json::part::<wire::Delta>(raw) {
        let known = match &*delta.kind {
            "text_delta" => delta.text.map(Delta::Text),
            "thinking_delta" => delta.thinking.map(Delta::Thinking),
            "signature_delta" => delta.signature.map(Delta::Signature),
            "input_json_delta" => delta.partial_json.map(Delta::InputJson),
            _ => None,
        };
        if let Some(known) = known {
            return Ok(known);
        }
    }
    json::part(raw).map(Delta::Other)
}
