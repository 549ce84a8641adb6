//! Properties of a model that are known before it is used.

use crate::{Cost, Price, Usage};

/// A model as a provider serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Name of the provider: `anthropic`, `litellm`, `script`, …; identifies the signer of thinking blocks.
    pub provider: String,
    /// Name on the wire.
    pub name: String,
    /// Maximum number of tokens, input and output together.
    pub context_window: u64,
    /// Maximum number of output tokens in one response.
    pub max_output: u64,
    /// Token prices, if known.
    pub price: Option<Price>,
    /// Token threshold and the prices for calls that read more than that.
    pub long_price: Option<(u64, Price)>,
}

impl Model {
    /// Returns a model without a price; `provider` is who serves it. Both limits are in tokens: `context_window` of input and
    /// output together, `max_output` of one answer.
    pub fn new(
        provider: impl Into<String>,
        name: impl Into<String>,
        context_window: u64,
        max_output: u64,
    ) -> Self {
        Self {
            provider: provider.into(),
            name: name.into(),
            context_window,
            max_output,
            price: None,
            long_price: None,
        }
    }

    /// Returns the cost of `usage`, or `None` if the price is unknown: never a guess, never 0.
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
