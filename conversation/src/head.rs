//! What lists and trees say of a message: all but its content, of which they have the beginning.

use crate::message::{Message, ToolUse};

/// Summary of a message for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The message, without content.
    pub message: Message,
    /// Start of its text, with line breaks.
    pub preview: String,
    /// Tool calls of the message.
    pub tool_uses: Vec<ToolUse>,
    /// Id of the subagent whose conversation it belongs to; `None` for the main conversation.
    pub agent_id: Option<String>,
}
