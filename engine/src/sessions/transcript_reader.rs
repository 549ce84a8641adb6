//! A transcript of Claude Code or an SDK as a conversation of ours, to go on with a session of another machine. What is broken is
//! left out and noted. The readers of other programs' files build on the same.

mod conversation;

use ah_conversation::{Clock as _, Message, Origin, Role, json};
use ah_ids::{SystemClock, message_of};
use ah_transcript::read_transcript;
use serde_json::Value;

pub use conversation::{Conversation, call, response, text};

/// Most places that are named as left out; the rest is counted.
const MAX_LEFT: usize = 20;

/// Returns the conversation in a transcript of Claude Code or an SDK, whose last calls may still be open, and what was left
/// out of it.
pub fn transcript(content: &str) -> (Vec<Message>, Vec<String>) {
    let mut conversation = Conversation::default();
    let lines = json_lines(content, &mut conversation);
    take(content, &lines, &mut conversation);
    conversation.end_open()
}

/// Adds the conversation of a transcript, whose lines these are.
pub fn take(content: &str, lines: &[(String, Value)], conversation: &mut Conversation) {
    for (place, line) in lines {
        let is_message = line["type"] == "user" || line["type"] == "assistant";
        if is_message && !is_whole(line) {
            conversation.leave(place, "a message without an id or content");
        }
    }
    let clock = SystemClock::default();
    let transcript = read_transcript(content, message_of, || clock.message_id());
    conversation.left.extend(transcript.left);
    for message in transcript.messages {
        let at = message.created_at;
        let place = format!("message {}", message.id);
        match (message.role, message.response) {
            (Role::Assistant, Some(response)) => {
                conversation.said(message.id, message.content, response, at);
            }
            _ if message.origin == Origin::Results => {
                conversation.results(message.id, &place, message.content, at);
            }
            _ => conversation.told(message.id, message.origin, message.content, at),
        }
    }
}

fn is_whole(line: &Value) -> bool {
    line["uuid"].is_string()
        && (line["message"]["content"].is_string() || line["message"]["content"].is_array())
}

/// Returns what was left out, of many only the first places.
pub fn losses(left: &[String]) -> Vec<String> {
    let mut losses: Vec<_> = left.iter().take(MAX_LEFT).cloned().collect();
    let more = left.len().saturating_sub(MAX_LEFT);
    if more > 0 {
        losses.push(format!("and {more} more"));
    }
    losses
}

/// Returns the lines with JSON objects, each with its place; the others are noted.
pub fn json_lines(content: &str, conversation: &mut Conversation) -> Vec<(String, Value)> {
    let mut lines = Vec::new();
    for (at, line) in content.lines().enumerate() {
        let place = format!("line {}", at + 1);
        match json::from_str::<Value>(line) {
            Ok(line) if line.is_object() => lines.push((place, line)),
            Ok(_) => conversation.leave(&place, "not an object"),
            Err(_) if line.trim().is_empty() => {}
            Err(_) => conversation.leave(&place, "not JSON, or cut off"),
        }
    }
    lines
}
