//! What the events of a served session say.

use ah_conversation::{Choice, ChoiceOption, Message, json};
use ah_http::sse::Event;
use ah_terminal::repl::remote::{RemoteEnd, RemoteEvent, RemoteQuestion, RemoteState};
use serde_json::Value;

/// Returns the id of a message's event.
pub fn place(message: &Message) -> String {
    format!("{}-{}", message.seq, message.id)
}

/// Returns what an event says; `None` if it says nothing to this version.
pub fn read(event: &Event<'_>) -> Option<RemoteEvent> {
    if event.name == "message" {
        let message = json::from_str(event.data).ok()?;
        return Some(RemoteEvent::Message(Box::new(message)));
    }
    let said: Value = json::from_str(event.data).ok()?;
    Some(match event.name {
        "reset" => RemoteEvent::Reset,
        "piece" if said["reset"] == true => RemoteEvent::Void,
        "piece" if said["kind"] == "text" => RemoteEvent::Text(said["text"].as_str()?.to_owned()),
        "state" => RemoteEvent::State(state(&said)),
        _ => return None,
    })
}

fn state(said: &Value) -> RemoteState {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let choice = |pick: &Value| Choice {
        question: text(&pick["question"]),
        header: text(&pick["header"]),
        is_multiple: pick["is_multiple"] == true,
        options: { list(&pick["options"]).into_iter() }
            .map(|option| ChoiceOption {
                label: text(&option["label"]),
                description: text(&option["description"]),
            })
            .collect(),
    };
    let question = |asked: &Value| {
        Some(RemoteQuestion {
            id: asked["id"].as_u64()?,
            about: text(&asked["about"]),
            choices: list(&asked["picks"]).iter().map(choice).collect(),
        })
    };
    RemoteState {
        is_running: said["running"] == true,
        questions: list(&said["questions"])
            .iter()
            .filter_map(question)
            .collect(),
        ended: said["ended"].is_object().then(|| RemoteEnd {
            is_stopped: said["ended"]["is_stopped"] == true,
            is_error: said["ended"]["is_error"] == true,
            text: text(&said["ended"]["text"]),
        }),
    }
}
