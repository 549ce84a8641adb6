//! Conversations that a server stores: each answer with what it was to, behind an earlier one.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// Answers by id.
#[derive(Debug, Default)]
pub struct Stored(HashMap<String, Arc<Part>>);

/// What a request has added to a conversation, with its answer.
#[derive(Debug)]
struct Part {
    items: Vec<Value>,
    before: Option<Arc<Part>>,
}

impl Stored {
    /// Returns the conversation up to the answer `id`.
    pub fn up_to(&self, id: &str) -> Option<Vec<Value>> {
        let parts = std::iter::successors(self.0.get(id), |part| part.before.as_ref());
        let mut parts: Vec<_> = parts.collect();
        parts.reverse();
        let found = !parts.is_empty();
        let items = parts.iter().flat_map(|part| &part.items).cloned();
        found.then(|| items.collect())
    }

    /// Stores the answer `id` with `items`, behind the answer `previous`.
    pub fn keep(&mut self, id: &str, previous: Option<&str>, items: Vec<Value>) {
        let before = previous.and_then(|id| self.0.get(id)).cloned();
        let part = Part { items, before };
        self.0.insert(id.to_owned(), Arc::new(part));
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
