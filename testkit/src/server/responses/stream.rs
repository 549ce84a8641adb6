//! Scripted events in the shape of the Responses API: each block is an item, sent in pieces and once more as a whole.
//! Block types that the protocol does not have are left out.

use ah_conversation::{BlockStart, Delta, StopReason, StreamEvent, Usage};
use serde_json::{Value, json};

use super::super::given::phase;
use super::super::vendor::has_phases;
use super::binding;

/// 2026-01-01T00:00:00Z in seconds since the epoch.
const CREATED: u64 = 1_767_225_600;

/// Response being streamed.
pub struct Stream {
    model: String,
    id: String,
    /// Items so far.
    output: Vec<Value>,
    /// Whether the last item is still open.
    is_open: bool,
    /// Sequence number of the next event.
    sequence: u64,
    /// Phase of its texts; `None` for a model that has none.
    phase: Option<&'static str>,
    /// What encrypted reasoning holds, in the place of what the scenario says.
    seal: Option<String>,
}

impl Stream {
    /// Starts the response to `body`, with calls or without.
    pub fn new(body: &Value, has_calls: bool) -> Self {
        let model = body["model"].as_str().unwrap_or_default();
        Self {
            phase: has_phases(model).then(|| phase(has_calls)),
            seal: binding::seal(body),
            model: model.to_owned(),
            id: String::new(),
            output: Vec::new(),
            is_open: false,
            sequence: 0,
        }
    }

    /// Returns its id and its items.
    pub fn answer(&self) -> (&str, &[Value]) {
        (&self.id, &self.output)
    }

    /// Returns the bytes of `event`; `None` if the protocol has no such event.
    pub fn event(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        match event {
            StreamEvent::Started { id, .. } => {
                self.id = id.replace("msg_", "resp_");
                let response = self.response("in_progress");
                Some(self.frame("response.created", json!({"response": response})))
            }
            StreamEvent::BlockStarted { index, block } => {
                let item = self.item(*index, block)?;
                self.output.push(item);
                self.is_open = true;
                Some(self.added())
            }
            StreamEvent::Delta { delta, .. } => self.grow(delta),
            StreamEvent::BlockStopped { .. } => self.done(),
            StreamEvent::Stopping { stop_reason, usage } => Some(self.end(stop_reason, usage)),
            StreamEvent::Ended
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

    /// Returns an error event during the response.
    pub fn failure(&mut self, error: &Value) -> Vec<u8> {
        let mut response = self.response("failed");
        response["error"] = json!({"code": error["code"], "message": error["message"]});
        self.frame("response.failed", json!({"response": response}))
    }

    fn item(&self, index: usize, block: &BlockStart) -> Option<Value> {
        let id = |kind: &str| format!("{kind}_{}_{index}", self.id);
        let mut item = match block {
            BlockStart::Text(_) => json!({
                "type": "message", "id": id("msg"), "status": "in_progress", "role": "assistant",
                "content": [{"type": "output_text", "text": "", "annotations": []}],
            }),
            BlockStart::Thinking(_) => json!({
                "type": "reasoning", "id": id("rs"), "summary": [{"type": "summary_text", "text": ""}],
            }),
            BlockStart::RedactedThinking(data) => json!({
                "type": "reasoning", "id": id("rs"), "summary": [], "encrypted_content": data,
            }),
            BlockStart::ToolUse { id: call, name, .. } => json!({
                "type": "function_call", "id": id("fc"), "status": "in_progress",
                "call_id": call.as_str(), "name": name, "arguments": "",
            }),
            BlockStart::Other(_) => return None,
        };
        if let (BlockStart::Text(_), Some(phase)) = (block, self.phase) {
            item["phase"] = phase.into();
        }
        Some(item)
    }

    /// Returns the start of the last item, without content.
    fn added(&mut self) -> Vec<u8> {
        let index = self.output.len() - 1;
        let mut item = self.output[index].clone();
        for content in ["content", "summary"] {
            if item.get(content).is_some() {
                item[content] = json!([]);
            }
        }
        self.frame(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
        )
    }

    /// Returns the index of the open item; `None` if its block type is left out.
    fn open(&self) -> Option<usize> {
        self.is_open.then(|| self.output.len() - 1)
    }

    fn grow(&mut self, delta: &Delta) -> Option<Vec<u8>> {
        let index = self.open()?;
        let item = &mut self.output[index];
        let (place, kind, text) = match delta {
            Delta::Text(text) => ("/content/0/text", "output_text", text),
            Delta::Thinking(text) => ("/summary/0/text", "reasoning_summary_text", text),
            Delta::InputJson(text) => ("/arguments", "function_call_arguments", text),
            Delta::Signature(scripted) => {
                let seal = self.seal.as_ref().unwrap_or(scripted);
                item["encrypted_content"] = seal.clone().into();
                return None;
            }
            Delta::Other(_) => return None,
        };
        if let Some(Value::String(whole)) = item.pointer_mut(place) {
            whole.push_str(text);
        }
        let mut data = json!({"item_id": item["id"], "output_index": index, "delta": text});
        match delta {
            Delta::Text(_) => data["content_index"] = 0.into(),
            Delta::Thinking(_) => data["summary_index"] = 0.into(),
            Delta::InputJson(_) | Delta::Signature(_) | Delta::Other(_) => {}
        }
        Some(self.frame(&format!("response.{kind}.delta"), data))
    }

    /// Returns the end of the last item.
    fn done(&mut self) -> Option<Vec<u8>> {
        let index = self.open()?;
        self.is_open = false;
        let item = &mut self.output[index];
        if item["status"] == "in_progress" {
            item["status"] = "completed".into();
        }
        let item = item.clone();
        Some(self.frame(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        ))
    }

    fn end(&mut self, stop_reason: &StopReason, usage: &Usage) -> Vec<u8> {
        let reason = match stop_reason {
            StopReason::MaxTokens | StopReason::ContextWindowExceeded => Some("max_output_tokens"),
            StopReason::Refusal => Some("content_filter"),
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::StopSequence
            | StopReason::PauseTurn
            | StopReason::Interrupted
            | StopReason::Repetition
            | StopReason::Other(_) => None,
        };
        let status = if reason.is_some() {
            "incomplete"
        } else {
            "completed"
        };
        let mut response = self.response(status);
        response["incomplete_details"] = reason.map_or(Value::Null, |it| json!({"reason": it}));
        let cached = usage.cache_read_input_tokens;
        let input = usage.input_tokens + usage.cache_creation_input_tokens + cached;
        response["usage"] = json!({
            "input_tokens": input,
            "input_tokens_details": {
                "cached_tokens": cached,
                "cache_write_tokens": usage.cache_creation_input_tokens,
            },
            "output_tokens": usage.output_tokens,
            "total_tokens": input + usage.output_tokens,
        });
        self.frame(&format!("response.{status}"), json!({"response": response}))
    }

    fn response(&self, status: &str) -> Value {
        let is_over = status != "in_progress";
        json!({
            "id": self.id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "model": self.model,
            "output": if is_over { self.output.clone() } else { Vec::new() },
        })
    }

    /// Formats a server-sent event.
    fn frame(&mut self, kind: &str, mut data: Value) -> Vec<u8> {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        format!("event: {kind}\ndata: {data}\n\n").into_bytes()
    }
}
