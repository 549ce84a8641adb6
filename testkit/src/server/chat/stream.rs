//! Scripted events as chunks of chat completions. Signatures, and block types that the protocol does not have, are left
//! out.

use ah_conversation::{BlockStart, Delta, StopReason, StreamEvent, Usage};
use serde_json::{Value, json};

use super::super::vendor::{Answers, CallSignature, Ids, Reasoning, chat::signature, digest};

/// 2026-01-01T00:00:00Z in seconds since the epoch.
const CREATED: u64 = 1_767_225_600;

/// Answer being streamed.
pub struct Stream {
    model: String,
    id: String,
    /// Whether the client asked for the token usage.
    tells_usage: bool,
    /// Number of calls so far.
    calls: usize,
    /// Shape of the vendor's answers.
    answers: Answers,
}

impl Stream {
    /// Starts the answer to `body`.
    pub fn new(body: &Value, answers: Answers) -> Self {
        Self {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            id: String::new(),
            tells_usage: body["stream_options"]["include_usage"] == true,
            calls: 0,
            answers,
        }
    }

    /// Returns the bytes of `event`; `None` if the protocol has no such event.
    pub fn event(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        match event {
            StreamEvent::Started { id, .. } => {
                self.id = format!("chatcmpl-{id}");
                Some(self.delta(&json!({"role": "assistant", "content": ""})))
            }
            StreamEvent::BlockStarted { block, .. } => {
                let delta = self.start(block)?;
                Some(self.delta(&delta))
            }
            StreamEvent::Delta { delta, .. } => {
                let delta = self.piece(delta)?;
                Some(self.delta(&delta))
            }
            StreamEvent::Stopping { stop_reason, usage } => {
                let mut bytes = self.chunk(&json!({}), Some(finish_reason(stop_reason)));
                if self.tells_usage {
                    bytes.extend(self.usage(usage));
                }
                Some(bytes)
            }
            StreamEvent::Ended => Some(b"data: [DONE]\n\n".to_vec()),
            StreamEvent::BlockStopped { .. }
            | StreamEvent::Sent { .. }
            | StreamEvent::Fallback(_)
            | StreamEvent::Opaque { .. }
            | StreamEvent::Billed { .. }
            | StreamEvent::Accepted { .. }
            | StreamEvent::CacheMissed(_)
            | StreamEvent::ThinkingDropped(_)
            | StreamEvent::Reading { .. }
            | StreamEvent::LeftOut { .. }
            | StreamEvent::Retry(_) => None,
        }
    }

    fn start(&mut self, block: &BlockStart) -> Option<Value> {
        match block {
            BlockStart::ToolUse { id, name, .. } => {
                self.calls += 1;
                Some(self.call(id.as_str(), name))
            }
            BlockStart::Text(_)
            | BlockStart::Thinking(_)
            | BlockStart::RedactedThinking(_)
            | BlockStart::Other(_) => None,
        }
    }

    /// Returns the beginning of the latest call.
    fn call(&self, id: &str, name: &str) -> Value {
        let id = match self.answers.ids {
            Ids::Scripted => id.to_owned(),
            Ids::Nine => digest(id),
        };
        let mut call = json!({
            "index": self.calls - 1,
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        });
        let mut delta = json!({});
        match self.answers.call_signature {
            CallSignature::ExtraContent if self.calls == 1 => {
                call["extra_content"] = json!({"google": {"thought_signature": signature(name)}});
            }
            CallSignature::Details if self.calls == 1 => {
                delta["reasoning_details"] = json!([{
                    "type": "reasoning.encrypted",
                    "data": signature(name),
                    "id": id,
                    "format": "google-gemini-v1",
                    "index": 1,
                }]);
            }
            CallSignature::ExtraContent | CallSignature::Details | CallSignature::None => {}
        }
        delta["tool_calls"] = json!([call]);
        delta
    }

    fn reasoning(&self, text: &str) -> Option<Value> {
        Some(match self.answers.reasoning {
            Reasoning::Content => json!({"reasoning_content": text}),
            Reasoning::Plain => json!({"reasoning": text}),
            Reasoning::Details => json!({
                "reasoning": text,
                "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}],
            }),
            Reasoning::Parts => json!({"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": text}]},
            ]}),
            Reasoning::Hidden => return None,
        })
    }

    fn piece(&self, delta: &Delta) -> Option<Value> {
        match delta {
            Delta::Text(text) => Some(json!({"content": text})),
            Delta::Thinking(thinking) => self.reasoning(thinking),
            Delta::InputJson(json) => Some(json!({"tool_calls": [{
                "index": self.calls.saturating_sub(1),
                "function": {"arguments": json},
            }]})),
            Delta::Signature(signature)
                if self.answers.call_signature == CallSignature::Details =>
            {
                Some(json!({"reasoning_details": [
                    {"type": "reasoning.text", "signature": signature, "index": 0},
                ]}))
            }
            Delta::Signature(_) | Delta::Other(_) => None,
        }
    }

    fn delta(&self, delta: &Value) -> Vec<u8> {
        self.chunk(delta, None)
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> Vec<u8> {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        frame(&self.with(&json!([choice])))
    }

    fn usage(&self, usage: &Usage) -> Vec<u8> {
        let mut chunk = self.with(&json!([]));
        let cached = usage.cache_read_input_tokens;
        let input = usage.input_tokens + usage.cache_creation_input_tokens + cached;
        chunk["usage"] = json!({
            "prompt_tokens": input,
            "completion_tokens": usage.output_tokens,
            "total_tokens": input + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        });
        frame(&chunk)
    }

    fn with(&self, choices: &Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// Returns an error event during an answer.
pub fn failure(error: &Value) -> Vec<u8> {
    frame(&json!({"error": error}))
}

/// Formats a server-sent event.
fn frame(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn finish_reason(stop_reason: &StopReason) -> &str {
    match stop_reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::Refusal => "content_filter",
        StopReason::PauseTurn
        | StopReason::Interrupted
        | StopReason::Repetition
        | StopReason::Other(_) => stop_reason.as_str(),
    }
}
