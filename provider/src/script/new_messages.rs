//! The part of a request that a turn answers: the messages after the model's last answer.

use std::sync::Arc;

use ah_conversation::{Message, Request, Role};

/// Returns the messages after the model's last answer.
pub fn new_messages(request: &Request) -> &[Arc<Message>] {
    let answer = request
        .messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    &request.messages[answer.map_or(0, |at| at + 1)..]
}

/// Returns the text of the new messages, without tool results, joined by newlines.
pub fn user_text(request: &Request) -> String {
    let texts: Vec<_> = new_messages(request)
        .iter()
        .map(|message| message.text())
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n")
}
