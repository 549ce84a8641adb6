//! What the events of a served session say.

use ah_conversation::{Message, json};
use ah_http::sse::Event;
use ah_terminal::repl::remote::RemoteEvent;

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
        "calls" => RemoteEvent::Calls(json::from_str(data).ok()?),
        "piece" => RemoteEvent::Answer(json::from_str(data).ok()?),
        _ => return None,
    })
}
