//! Scripted events in the shape of the Interactions API: each block is a step with a beginning, pieces and an end. Block types
//! that the protocol does not have are left out.

use ah_conversation::{BlockStart, Delta, StopReason, StreamEvent, Usage};
use serde_json::{Value, json};

/// Interaction being streamed.
pub struct Stream {
    model: String,
    is_stored: bool,
    id: String,
    /// Steps so far.
    output: Vec<Value>,
    /// Arguments of the open call.
    arguments: String,
    /// Whether the last step is still open.
    is_open: bool,
}

impl Stream {
    /// Starts the answer to `body`.
    pub fn new(body: &Value) -> Self {
        Self {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            is_stored: body["store"] != false,
            id: String::new(),
            output: Vec::new(),
            arguments: String::new(),
            is_open: false,
        }
    }

    /// Returns its id and its steps; `None` if it is not to be stored.
    pub fn answer(&self) -> Option<(&str, &[Value])> {
        self.is_stored.then_some((&self.id, &self.output))
    }

    /// Returns the bytes of `event`; `None` if the protocol has no such event.
    pub fn event(&mut self, event: &StreamEvent) -> Option<Vec<u8>> {
        match event {
            StreamEvent::Started { id, .. } => {
                if self.is_stored {
                    self.id = id.replace("msg_", "v1_");
                }
                let interaction = self.interaction("in_progress");
                Some(frame(
                    "interaction.created",
                    json!({"interaction": interaction}),
                ))
            }
            StreamEvent::BlockStarted { block, .. } => self.begin(block),
            StreamEvent::Delta { delta, .. } => self.grow(delta),
            StreamEvent::BlockStopped { .. } => self.stop(),
            StreamEvent::Stopping { stop_reason, usage } => Some(self.end(stop_reason, usage)),
            StreamEvent::Ended => Some(b"event: done\ndata: [DONE]\n\n".to_vec()),
            StreamEvent::Sent { .. }
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

    /// Returns an error event during the interaction; `error` has the form of [`failure`](super::failure).
    pub fn failure(&mut self, error: &Value) -> Vec<u8> {
        let error = json!({"code": error["type"], "message": error["message"]});
        frame("error", json!({"error": error}))
    }

    fn begin(&mut self, block: &BlockStart) -> Option<Vec<u8>> {
        let step = match block {
            BlockStart::Text(_) => json!({"type": "model_output"}),
            BlockStart::Thinking(_) => json!({"type": "thought"}),
            BlockStart::RedactedThinking(data) => json!({"type": "thought", "signature": data}),
            BlockStart::ToolUse { id, name, .. } => json!({
                "type": "function_call", "id": id.as_str(), "name": name, "arguments": {},
            }),
            BlockStart::Other(_) => return None,
        };
        self.output.push(step.clone());
        self.arguments.clear();
        self.is_open = true;
        let index = self.output.len() - 1;
        Some(frame("step.start", json!({"index": index, "step": step})))
    }

    /// Returns the index of the open step; `None` if its block type is left out.
    fn open(&self) -> Option<usize> {
        self.is_open.then(|| self.output.len() - 1)
    }

    fn grow(&mut self, delta: &Delta) -> Option<Vec<u8>> {
        let index = self.open()?;
        let step = &mut self.output[index];
        let text = |text: &str| json!({"type": "text", "text": text});
        let piece = match delta {
            Delta::Text(words) => {
                add(step, "content", text(words));
                text(words)
            }
            Delta::Thinking(words) => {
                add(step, "summary", text(words));
                json!({"type": "thought_summary", "content": text(words)})
            }
            Delta::InputJson(json) => {
                self.arguments.push_str(json);
                json!({"type": "arguments_delta", "arguments": json})
            }
            Delta::Signature(signature) => {
                step["signature"] = signature.clone().into();
                json!({"type": "thought_signature", "signature": signature})
            }
            Delta::Other(_) => return None,
        };
        Some(frame("step.delta", json!({"index": index, "delta": piece})))
    }

    fn stop(&mut self) -> Option<Vec<u8>> {
        let index = self.open()?;
        self.is_open = false;
        if let Ok(arguments) = serde_json::from_str(&self.arguments) {
            self.output[index]["arguments"] = arguments;
        }
        Some(frame("step.stop", json!({"index": index})))
    }

    fn end(&mut self, stop_reason: &StopReason, usage: &Usage) -> Vec<u8> {
        let mut interaction = self.interaction(match stop_reason {
            StopReason::MaxTokens | StopReason::ContextWindowExceeded => "incomplete",
            StopReason::Refusal => "failed",
            StopReason::ToolUse => "requires_action",
            StopReason::EndTurn
            | StopReason::StopSequence
            | StopReason::PauseTurn
            | StopReason::Interrupted
            | StopReason::Repetition
            | StopReason::Other(_) => "completed",
        });
        let cached = usage.cache_read_input_tokens;
        let input = usage.input_tokens + usage.cache_creation_input_tokens + cached;
        interaction["usage"] = json!({
            "total_input_tokens": input,
            "total_cached_tokens": cached,
            "total_output_tokens": usage.output_tokens,
            "total_thought_tokens": 0,
            "total_tokens": input + usage.output_tokens,
        });
        frame("interaction.completed", json!({"interaction": interaction}))
    }

    fn interaction(&self, status: &str) -> Value {
        json!({"id": self.id, "status": status, "object": "interaction", "model": self.model})
    }
}

fn add(step: &mut Value, field: &str, part: Value) {
    match step[field].as_array_mut() {
        Some(parts) => parts.push(part),
        None => step[field] = json!([part]),
    }
}

/// Formats a server-sent event.
fn frame(kind: &str, mut data: Value) -> Vec<u8> {
    data["event_type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n").into_bytes()
}
