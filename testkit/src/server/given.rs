//! What a server has given in its answers, as far as a later request has to bring it back.

use std::collections::HashMap;

use ah_provider::script::format::{BlockContent, Turn};

use super::vendor::has_phases;

/// What was given so far.
#[derive(Debug, Default)]
pub struct Given {
    /// Phases of answers by their text, of models that have them.
    phases: HashMap<String, &'static str>,
    /// Models that made calls with reasoning before them, by the ids of the calls.
    reasoned: HashMap<String, String>,
}

impl Given {
    /// Takes note of the answer that `turn` is to a request for `model`. `id` is the part of its ids that makes them
    /// unique.
    pub fn note(&mut self, turn: &Turn, id: &str, model: &str) {
        let parts = turn.parts();
        let thinks = parts
            .iter()
            .any(|it| matches!(it, BlockContent::Thinking(..)));
        let calls = parts.iter().any(|it| matches!(it, BlockContent::Tool(_)));
        // What comes with a block comes at its end.
        let ends = !(turn.hang || turn.cut || turn.stream_error.is_some());
        for (index, part) in parts.into_iter().enumerate() {
            match part {
                BlockContent::Text(text) if ends && has_phases(model) => {
                    self.phases.insert(text.whole(), phase(calls));
                }
                BlockContent::Tool(call) if thinks => {
                    let made = || format!("toolu_{id}_{index}");
                    let id = call.id.clone().unwrap_or_else(made);
                    self.reasoned.insert(id, model.to_owned());
                }
                _ => {}
            }
        }
    }

    /// Returns the phase of the answer with this text; `None` if it is not of this server.
    pub fn phase(&self, text: &str) -> Option<&'static str> {
        self.phases.get(text).copied()
    }

    /// Whether `model` of this server made the call `id` and reasoned before.
    pub fn has_reasoned(&self, id: &str, model: &str) -> bool {
        self.reasoned.get(id).is_some_and(|by| by == model)
    }
}

/// Returns the phase of a text, by whether calls come after it.
pub fn phase(has_calls: bool) -> &'static str {
    if has_calls {
        "commentary"
    } else {
        "final_answer"
    }
}
