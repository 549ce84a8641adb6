//! What is known of a model before it is asked.

use crate::{Cost, Price, Usage};

/// A model as a provider serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The provider's name: `anthropic`, `litellm`, `script` …; what signed a thinking block is found again by it.
    pub provider: String,
    /// The name sent on the wire.
    pub name: String,
    /// How many tokens it can read and write in all.
    pub context_window: u64,
    /// How many tokens it may write in one response.
    pub max_output: u64,
    /// What its tokens cost, if known.
    pub price: Option<Price>,
}

impl Model {
    /// What `usage` costs, or `None` where no price is known: never a guess, never 0.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        self.price.map(|price| price.of(usage))
    }
}
