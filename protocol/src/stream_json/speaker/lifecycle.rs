//! What becomes of each prompt that the host gave a UUID. Hosts with a queue of their own, such as editors, follow it, so
//! that a prompt that is cancelled before its answer is not waited for.

use ah_conversation::ToolUseId;
use serde_json::{Value, json};

use super::Speaker;

/// What this program does of what hosts look for in the `init` message, in the terms of the SDKs: an interrupt is answered
/// with the prompts that wait, it can withdraw them, and prompts are followed.
pub(crate) const CAPABILITIES: [&str; 3] = [
    "interrupt_receipt_v1",
    "interrupt_cancel_queued_v1",
    "msg_lifecycle_v1",
];

/// State of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptState {
    Queued,
    Started,
    Completed,
    /// Interrupted, or withdrawn before it began.
    Cancelled,
}

impl PromptState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Speaker {
    /// Reports the state of a prompt with this UUID; before the session has its id, the message waits.
    pub(crate) fn follow(&self, uuid: Option<&str>, state: PromptState) {
        let Some(uuid) = uuid else { return };
        let line = json!({
            "type": "command_lifecycle",
            "command_uuid": uuid,
            "state": state.as_str(),
        });
        {
            let mut speaker = self.state.lock();
            if speaker.session_id.is_empty() {
                speaker.early.push(line);
                return;
            }
        }
        self.say(line);
    }

    /// Notes calls whose results an earlier run has told.
    pub(crate) fn has_told(&self, calls: impl Iterator<Item = ToolUseId>) {
        self.state.lock().answered.extend(calls);
    }

    /// Sets the prompt that the next messages belong to.
    pub(crate) fn set_prompt(&self, uuid: Option<String>) {
        let mut state = self.state.lock();
        state.prompt = uuid;
        state.has_answered = false;
        state.has_streamed = false;
    }

    /// Names the prompt that a message belongs to, if the host gave it a UUID: in `init`, the result, and the first
    /// message and the first piece of the answer. Requests to the model are named too.
    pub(super) fn attribute(&self, line: &mut Value) {
        let is_ours = line["parent_tool_use_id"].is_null();
        let mut state = self.state.lock();
        let is_first = match line["type"].as_str() {
            Some("assistant") if is_ours => !std::mem::replace(&mut state.has_answered, true),
            Some("stream_event") if is_ours => !std::mem::replace(&mut state.has_streamed, true),
            Some("result") => true,
            _ => false,
        };
        let Some(uuid) = &state.prompt else { return };
        if is_first {
            line["user_message_uuid"] = json!(uuid);
        }
        if is_first || line["subtype"] == "init" || line["status"] == "requesting" {
            line["user_message_uuids"] = json!([uuid]);
        }
    }
}
