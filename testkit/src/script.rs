//! Scenarios for the scripted model, one line each, and the recorded requests.
//!
//! A turn is the plain value of a scenario file: fields without a function here are set directly, as in
//! `Turn { usage: Some(usage), ..says("Done.") }`.

use std::sync::Arc;

use ah_conversation::{EventStream, Model, Provider, ProviderExtras, Request};
use ah_provider::script::Script;
use ah_provider::script::failure::Failure;
pub use ah_provider::script::format::{PricePerMillion, Scenario, Turn};
use ah_provider::script::format::{ScriptedCall, ScriptedText};
use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Turn with `text` as the final answer.
pub fn says(text: &str) -> Turn {
    Turn {
        text: Some(text.into()),
        ..Turn::default()
    }
}

/// Turn with thinking and `text` as the final answer.
pub fn thinks(thinking: &str, text: &str) -> Turn {
    Turn {
        thinking: Some(thinking.into()),
        ..says(text)
    }
}

/// Turn with one tool call.
pub fn uses(tool: &str, input: Value) -> Turn {
    uses_all([(tool, input)])
}

/// Turn with several tool calls.
pub fn uses_all<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Turn {
    Turn {
        tools: calls
            .into_iter()
            .map(|(name, input)| call(name, input))
            .collect(),
        ..Turn::default()
    }
}

/// Turn that fails with the HTTP `status` and the vendor's error type.
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

/// Turn that says `text` and then never ends.
pub fn hangs(text: &str) -> Turn {
    Turn {
        text: Some(ScriptedText::from(text)),
        hang: true,
        ..Turn::default()
    }
}

/// Scenario of `turns`.
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

/// Scripted model `test`, which records its requests. Clones share the script and the record.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Script,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    /// Creates a model that plays `turns`.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::playing(scenario(turns))
    }

    /// Creates a model that plays `scenario`; panics if it is invalid.
    pub fn playing(scenario: Scenario) -> Self {
        let script = Script::new("test", scenario).unwrap_or_else(|error| panic!("{error}"));
        Self {
            script,
            requests: Arc::default(),
        }
    }

    /// Returns the requests so far, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }
}

impl Provider for Scripted {
    fn model(&self) -> &Model {
        self.script.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.script.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        self.requests.lock().push(request.clone());
        self.script.stream(request)
    }
}
