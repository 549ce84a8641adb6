//! Scenarios for the scripted model in a line each, and the requests that it was asked.
//!
//! A turn is the plain value that a scenario file holds: whatever has no word here is set by its field, as in
//! `Turn { usage: Some(usage), ..says("Done.") }`.

use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{EventStream, Model, Provider, Request};
use ah_provider::script::Script;
use ah_provider::script::failure::Failure;
pub use ah_provider::script::format::{PricePerMillion, Scenario, Turn};
use ah_provider::script::format::{ScriptedCall, ScriptedText};
use serde_json::{Map, Value};

/// The model says `text` and ends.
pub fn says(text: &str) -> Turn {
    Turn {
        text: Some(text.into()),
        ..Turn::default()
    }
}

/// The model thinks, then says `text` and ends.
pub fn thinks(thinking: &str, text: &str) -> Turn {
    Turn {
        thinking: Some(thinking.into()),
        ..says(text)
    }
}

/// The model asks for one tool.
pub fn uses(tool: &str, input: Value) -> Turn {
    uses_all([(tool, input)])
}

/// The model asks for several tools at once.
pub fn uses_all<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Turn {
    Turn {
        tools: calls
            .into_iter()
            .map(|(name, input)| call(name, input))
            .collect(),
        ..Turn::default()
    }
}

/// The request fails with the HTTP `status` and the vendor's word for it.
pub fn fails(status: u16, kind: &str) -> Turn {
    Turn {
        error: Some(Failure {
            status: Some(status),
            kind: Some(kind.to_owned()),
            ..Failure::default()
        }),
        ..Turn::default()
    }
}

/// The model says `text` and then nothing more, nor does it end.
pub fn hangs(text: &str) -> Turn {
    Turn {
        text: Some(ScriptedText::from(text)),
        hang: true,
        ..Turn::default()
    }
}

/// A scenario of `turns`.
pub fn scenario(turns: impl IntoIterator<Item = Turn>) -> Scenario {
    Scenario {
        turns: turns.into_iter().collect(),
        ..Scenario::default()
    }
}

fn call(name: &str, input: Value) -> ScriptedCall {
    let (input, input_json) = match input {
        Value::Object(map) => (map, None),
        other => (Map::new(), Some(other.to_string())),
    };
    ScriptedCall {
        name: name.to_owned(),
        input,
        input_json,
        ..ScriptedCall::default()
    }
}

/// The scripted model `test` of a test, which keeps the requests that it was asked. Clones are the same model.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Script,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    /// A model that says `turns`.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::playing(scenario(turns))
    }

    /// A model that plays `scenario`.
    pub fn playing(scenario: Scenario) -> Self {
        let script = Script::new("test", scenario).unwrap_or_else(|error| panic!("{error}"));
        Self {
            script,
            requests: Arc::default(),
        }
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Provider for Scripted {
    fn model(&self) -> &Model {
        self.script.model()
    }

    fn stream(&self, request: Request) -> EventStream {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request.clone());
        self.script.stream(request)
    }
}
