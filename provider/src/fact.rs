//! What a server has shown of a model by an answer or a refusal, to be kept for later sessions as part of the catalogue.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::named_server::Api;

/// Something about a model that only its server could say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Its context window, in tokens.
    Window(u64),
    /// The protocol that it is asked by.
    Api(Api),
    /// The fields of a request that it refuses.
    RefusedFields(Vec<String>),
}

/// Keeps a fact for later sessions: the name of the server, the model's name there, and the fact.
pub type KeepFact = Arc<dyn Fn(&str, &str, Fact) + Send + Sync>;

impl Fact {
    /// Returns the field of a catalogue's entry, and its value.
    pub fn field(self) -> (&'static str, Value) {
        match self {
            Self::Window(tokens) => ("context_window", tokens.into()),
            Self::Api(api) => ("api", json!(api)),
            Self::RefusedFields(names) => ("refused_fields", names.into()),
        }
    }
}
