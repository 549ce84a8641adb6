//! The part of a request that a turn answers: the messages after the model's last answer.

use std::sync::Arc;

use ah_conversation::{Message, Origin, Request, Role};

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
        .filter(|message| !is_update(message))
        .map(|message| message.text())
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n")
}

/// Returns the number of messages, without updates.
pub fn count(request: &Request) -> usize {
    let said = request
        .messages
        .iter()
        .filter(|message| !is_update(message));
    said.count()
}

/// Whether a message tells what has changed around the session: a date, a commit. That differs from run to run.
pub fn is_update(message: &Message) -> bool {
    matches!(message.origin, Origin::Update(_))
}
