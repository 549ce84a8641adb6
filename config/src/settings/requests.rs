//! Settings of requests to the model: how hard it tries, how much it may write, and how much of the conversation it sees.

use std::num::NonZero;

use ah_conversation::Effort;
use serde_json::value::RawValue;

use super::file::File;
use super::group::{Setter, first, group, in_force, put_in_force};
use crate::entry::{SettingEntry, entry};
use crate::error::Error;
use crate::origin::{Origin, Sourced};

group! {
    /// What a request to the model asks for.
    RequestSettings => RequestConfig {
        /// Name of the output style: `default`, `Concise`, `Explanatory`, `Learning`, `Proactive`, or that of a file in
        /// `output-styles`.
        // Files of a project that is not trusted are no styles, so it only chooses among the user's.
        output_style: String = "outputStyle", Anyone, {"type": "string"};
        /// How many tokens of the model's window a conversation may use: it is summarised at 80 % of them. Absent: the whole
        /// window.
        auto_compact_window: u64 = "autoCompactWindow", Anyone, {"type": "integer", "minimum": 1};
        /// How many messages the model sees at most; 0 or absent: as many as its window holds.
        max_conversation_messages: usize = "maxConversationMessages", Anyone, {"type": "integer", "minimum": 0};
        /// How hard the model tries, told to each vendor in its own way; of a word that a model does not know, the next lower
        /// one. `effortLevel` is read as well.
        effort: Effort = "effort" or "effortLevel", Anyone, {"enum": ["low", "medium", "high", "xhigh", "max"]};
        /// How many tokens the model may think; 0 turns thinking off.
        max_thinking_tokens: u32 = "maxThinkingTokens", Anyone, {"type": "integer", "minimum": 0};
        /// How many tokens the model may write in one answer; never more than it is known to be able to.
        max_output_tokens: NonZero<u64> = "maxOutputTokens", Anyone, {"type": "integer", "minimum": 1, "default": 16384};
        /// The sampling temperature; absent: the server's own.
        temperature: f64 = "temperature", Anyone, {"type": "number", "minimum": 0};
        /// Nucleus sampling: the cumulative probability of the tokens that the model samples from; absent: the server's own.
        top_p: f64 = "topP", Anyone, {"type": "number", "minimum": 0, "maximum": 1};
        /// Words at which the model stops.
        stop: Vec<String> = "stop", Anyone, {"type": "array", "items": {"type": "string"}};
    }
}
