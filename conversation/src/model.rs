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
    /// What they cost instead in a call that reads more than so many tokens.
    pub long_price: Option<(u64, Price)>,
}

impl Model {
    /// What `usage` costs, or `None` where no price is known: never a guess, never 0.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        let long = self
            .long_price
            .filter(|(above, _)| usage.effective_input() > *above);
        let price = long.map(|(_, price)| price).or(self.price)?;
        Some(price.of(usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_call_has_its_own_price() {
        let price = |input| Price {
            input,
            output: 0,
            cache_read: 0,
            cache_write: 0,
            cache_write_1h: 0,
        };
        let mut model = Model {
            provider: String::new(),
            name: String::new(),
            context_window: 0,
            max_output: 0,
            price: Some(price(1)),
            long_price: Some((100, price(2))),
        };
        let usage = |input_tokens| Usage {
            input_tokens,
            ..Usage::default()
        };
        assert_eq!(model.cost(&usage(100)), Some(Cost(100)));
        assert_eq!(model.cost(&usage(101)), Some(Cost(202)));
        model.long_price = None;
        model.price = None;
        assert_eq!(model.cost(&usage(101)), None);
    }
}
