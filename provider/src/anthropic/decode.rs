//! A streamed answer, from bytes to [`StreamEvent`]s: a plain value without I/O, which gives the same events however
//! the bytes are cut.
//!
//! A server that does not stream, whatever it was asked, sends the whole message as one JSON object; that is an answer
//! as well, and told apart by its first byte.
//!
//! It is strict where leniency would pass off half an answer as a whole one (order of events, early end) and lenient
//! where nothing can go wrong (unknown events, a block's end missing or told twice). How the pieces make a message is
//! left to the reader of the events; the time between them to whoever feeds the bytes.

use std::collections::{BTreeMap, VecDeque};

use ah_conversation::{
    BlockStart, Delta, ErrorClass, ProviderError, StopReason, StreamEvent, Usage,
};
use ah_http::sse;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire;
use crate::failure;

/// How much of an event that is not understood an error repeats.
const EXCERPT: usize = 200;

/// Turns the bytes of a streamed answer into events.
#[derive(Debug, Default)]
pub struct Decoder {
    form: Form,
    framing: sse::Decoder,
    answer: Answer,
}

/// What the bytes are.
#[derive(Debug, Default)]
enum Form {
    #[default]
    Unknown,
    Events,
    /// One JSON object, as far as it has come.
    Object(Vec<u8>),
}

/// What was said of the answer so far.
#[derive(Debug, Default)]
struct Answer {
    phase: Phase,
    usage: Usage,
    stop_reason: Option<StopReason>,
    /// The blocks that have begun, and whether they still grow.
    blocks: BTreeMap<usize, bool>,
    signs_of_life: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Waiting,
    Started,
    Ended,
}

impl Decoder {
    /// Takes the next bytes and adds the events they complete to `events`. After an error the answer is lost.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.has_ended() {
            return Ok(());
        }
        if let (Form::Unknown, Some(first)) = (&self.form, bytes.trim_ascii_start().first()) {
            self.form = match first {
                b'{' => Form::Object(Vec::new()),
                _ => Form::Events,
            };
        }
        if let Form::Object(object) = &mut self.form {
            self.answer.signs_of_life += 1;
            object.extend_from_slice(bytes);
            return match object.len() > sse::DEFAULT_LIMIT {
                true => Err(protocol("the answer is too long")),
                false => Ok(()),
            };
        }
        self.framing.feed(bytes);
        while let Some(event) = self
            .framing
            .next_event()
            .map_err(|error| protocol(error.to_string()))?
        {
            self.answer.read(event, events)?;
        }
        Ok(())
    }

    /// Notes that no more bytes will come: an error unless the answer is whole.
    pub fn finish(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if let Form::Object(object) = &self.form {
            self.answer.read_whole(object, events)?;
        } else if let Ok(Some(event)) = self.framing.finish() {
            // What a cut stream ends with may be half an event: then the cut is the error, not the half.
            match self.answer.read(event, events) {
                Err(error) if error.class != ErrorClass::Protocol => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        match self.answer.phase {
            Phase::Ended => Ok(()),
            Phase::Started => Err(protocol("the answer ended early")),
            Phase::Waiting => Err(protocol("the stream ended before an answer began")),
        }
    }

    /// Whether the answer is whole.
    pub fn has_ended(&self) -> bool {
        self.answer.phase == Phase::Ended
    }

    /// How many events there were, not counting those that only keep the connection open.
    pub fn signs_of_life(&self) -> u64 {
        self.answer.signs_of_life
    }
}

impl Answer {
    fn read(
        &mut self,
        event: sse::Event<'_>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        // Some gateways end with the word of the other protocol.
        if self.phase == Phase::Ended || event.data.trim_ascii() == "[DONE]" {
            return Ok(());
        }
        let parsed: wire::Event =
            serde_json::from_str(event.data).map_err(|error| not_understood(&error, event.data))?;
        let kind = match &*parsed.kind {
            "" => event.name,
            kind => kind,
        };
        if kind != "ping" {
            self.signs_of_life += 1;
        }
        match kind {
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
            // Pings, and what later versions of the protocol add.
            _ => Ok(()),
        }
    }

    fn start(
        &mut self,
        message: Option<wire::MessageStart>,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.phase == Phase::Started {
            return Ok(()); // Told twice.
        }
        let message = message.ok_or_else(|| protocol("message_start without a message"))?;
        self.phase = Phase::Started;
        self.merge_usage(message.usage.as_ref());
        events.push_back(StreamEvent::Started {
            id: message.id,
            usage: self.usage,
        });
        Ok(())
    }

    /// Reads a message that came in one piece.
    fn read_whole(
        &mut self,
        object: &[u8],
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let message: wire::Message = serde_json::from_slice(object)
            .map_err(|error| not_understood(&error, &String::from_utf8_lossy(object)))?;
        if message.error.is_some() {
            return Err(failure::in_stream(message.error.as_ref()));
        }
        self.start(message.start, events)?;
        for (index, block) in message.content.into_iter().enumerate() {
            self.start_block(Some(index), Some(block), events)?;
            self.stop_block(Some(index), events)?;
        }
        self.stop_reason = message.stop_reason;
        self.tell_stop(events);
        self.end(events)
    }

    /// The numbers of each event are totals so far, so a later one takes the place of an earlier one.
    fn merge_usage(&mut self, usage: Option<&wire::Usage>) {
        let Some(usage) = usage else { return };
        let one_hour = usage.cache_creation.as_ref();
        let one_hour = one_hour.and_then(|creation| creation.ephemeral_1h_input_tokens);
        for (total, told) in [
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
        ] {
            *total = told.unwrap_or(*total);
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
            return Err(protocol(format!("content block {index} began twice")));
        }
        let (block, signature) = block_start(block)?;
        events.push_back(StreamEvent::BlockStarted { index, block });
        if let Some(signature) = signature {
            let delta = Delta::Signature(signature);
            events.push_back(StreamEvent::Delta { index, delta });
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
                "a piece of content block {index}, which is not open"
            )));
        }
        let delta = delta_of(delta).map_err(|error| not_understood(&error, data))?;
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
                serde_json::from_str(delta.get()).map_err(|error| not_understood(&error, data))?;
            self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
        }
        self.tell_stop(events);
        Ok(())
    }

    fn tell_stop(&self, events: &mut VecDeque<StreamEvent>) {
        if let Some(stop_reason) = self.stop_reason.clone() {
            let usage = self.usage;
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

/// A block at its start, and the signature that may stand there already.
fn block_start(
    mut block: serde_json::Map<String, Value>,
) -> Result<(BlockStart, Option<String>), ProviderError> {
    let mut take = |field: &str| match block.get_mut(field).map(Value::take) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let kind = take("type").ok_or_else(|| protocol("a content block without a type"))?;
    let start = match kind.as_str() {
        "text" => BlockStart::Text(take("text").unwrap_or_default()),
        "thinking" => {
            let signature = take("signature").filter(|signature| !signature.is_empty());
            let thinking = take("thinking").unwrap_or_default();
            return Ok((BlockStart::Thinking(thinking), signature));
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
                name,
                input: block.remove("input").unwrap_or_default(),
            }
        }
        _ => {
            block.insert("type".to_owned(), Value::String(kind));
            BlockStart::Other(Value::Object(block))
        }
    };
    Ok((start, None))
}

fn delta_of(raw: &RawValue) -> Result<Delta, serde_json::Error> {
    // An unknown kind of delta may use the known names for other things, so failing to read it means nothing.
    if let Ok(delta) = serde_json::from_str::<wire::Delta>(raw.get()) {
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
    serde_json::from_str(raw.get()).map(Delta::Other)
}

fn protocol(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorClass::Protocol, message)
}

fn not_understood(error: &serde_json::Error, data: &str) -> ProviderError {
    let excerpt = failure::excerpt(data, EXCERPT);
    protocol(format!(
        "an event of the answer is not understood ({error}): {excerpt}"
    ))
}
