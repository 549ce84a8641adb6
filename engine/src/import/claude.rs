//! Sessions of Claude Code: transcripts, as the readers of the protocol read them. Here only what is broken is noted. The
//! same reader goes on with a session of another machine or an SDK (`place.rs`).

use ah_conversation::{Clock as _, Origin, Role};
use ah_protocol::read_transcript;
use ah_store::{SystemClock, message_of};
use serde_json::Value;

use super::build::Conversation;
use super::session::{Imported, Program, json_lines};

/// Reads a session; `stem` is the name of its file, which is the session's id.
pub fn read(content: &str, stem: &str) -> Imported {
    let mut conversation = Conversation::default();
    let lines = json_lines(content, &mut conversation);
    let last = |key: &str| {
        let mut values = lines
            .iter()
            .rev()
            .filter_map(|(_, line)| line[key].as_str());
        values.next().map(str::to_owned)
    };
    let id = if crate::plan::is_uuid(stem) {
        Some(stem.to_owned())
    } else {
        last("sessionId")
    };
    let (cwd, name) = (last("cwd"), last("customTitle"));
    take(content, &lines, &mut conversation);
    Imported::new(Program::Claude, id, cwd, name, conversation)
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
