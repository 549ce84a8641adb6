//! The session's transcripts, and the messages about a conversation that another one follows.

use ah_conversation::Usage;
use serde_json::json;

use super::{SessionFiles, Speaker};
use ah_transcript::parts::of_block;
use ah_transcript::unwritten;

impl Speaker {
    /// Sets the transcripts of the open session.
    pub(crate) fn keep_files(&self, files: Option<SessionFiles>) {
        *self.files.lock() = files;
    }

    /// Names the session in its transcript.
    pub(crate) fn write_title(&self, title: &str) {
        if let Some(files) = &*self.files.lock()
            && let Err(error) = files.main.write_title(title)
        {
            self.notice(&unwritten(files.main.path(), &error));
        }
    }

    /// Reports that the conversation ends here and another begins, at the host's prompt with this UUID.
    pub(crate) fn reset(&self, prompt_uuid: Option<&str>) {
        let id = self.link.ids.fresh();
        self.say(json!({
            "type": "conversation_reset",
            "new_conversation_id": id,
            "uuid": id,
            "trigger": "clear",
            "user_message_uuid": prompt_uuid.map_or_else(|| self.link.ids.fresh(), str::to_owned),
            "timestamp": self.now(),
        }));
        let mut state = self.state.lock();
        state.context_tokens = 0;
        state.named.clear();
    }

    /// Sends the answer to a command that the model does not see.
    pub(crate) fn say_locally(&self, text: &str) {
        let block = json!({"type": "text", "text": text});
        let id = self.link.ids.fresh();
        let mut message = of_block(&id, "<synthetic>", &Usage::default(), &block);
        message["stop_reason"] = json!("end_turn");
        self.say(json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": null,
            "timestamp": self.now(),
        }));
    }
}
