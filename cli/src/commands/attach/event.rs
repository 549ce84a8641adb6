//! What the events of a served session say.

use ah_conversation::{Message, json};
use ah_desk::{BlockKind, Piece};
use ah_http::sse::Event;
use ah_terminal::repl::remote::RemoteEvent;
use serde::Deserialize;

/// Returns the id of a message's event.
pub fn place(message: &Message) -> String {
    format!("{}-{}", message.seq, message.id)
}

/// Returns what an event says; `None` if it says nothing to this version.
pub fn read(event: &Event<'_>) -> Option<RemoteEvent> {
    let data = event.data;
    Some(match event.name {
        "message" => RemoteEvent::Message(Box::new(json::from_str(data).ok()?)),
        "reset" => RemoteEvent::Reset,
        "state" => RemoteEvent::State(json::from_str(data).ok()?),
        "piece" => match json::from_str(data).ok()? {
            Growth::Piece(Piece {
                kind: BlockKind::Text,
                text,
                ..
            }) => RemoteEvent::Text(text),
            // What it thinks and calls is shown with its message.
            Growth::Piece(_) => return None,
            Growth::Void { .. } => RemoteEvent::Void,
        },
        _ => return None,
    })
}

/// What is new of an answer in progress.
#[derive(Deserialize)]
#[serde(untagged)]
enum Growth {
    Piece(Piece),
    /// All pieces so far are void.
    Void {
        #[serde(rename = "reset")]
        _reset: bool,
    },
}
