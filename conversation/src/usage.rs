//! Tokens and money: arithmetic only.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Token usage of one model call, or the sum of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that came neither from nor into the cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens written to the cache, with any time to live.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Part of `cache_creation_input_tokens` with the longer lifetime of the server, an hour or twelve, at a higher price.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_1h_input_tokens: u64,
    /// Searches of the web by the server, which are charged beside the tokens.
    #[serde(skip_serializing_if = "is_zero")]
    pub web_search_requests: u64,
}

/// Price of a search by the server, in pico-dollars.
const WEB_SEARCH: u128 = 10_000_000_000;

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Returns all input tokens: uncached, written to the cache and read from it.
    pub fn effective_input(&self) -> u64 {
        let uncached = self.input_tokens;
        uncached
            .saturating_add(self.cache_creation_input_tokens)
            .saturating_add(self.cache_read_input_tokens)
    }

    /// Returns all tokens, input and output.
    pub fn total(&self) -> u64 {
        self.effective_input().saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    /// Numbers of a stored session may be anybody's: a sum that does not fit is the largest number.
    fn add(self, other: Self) -> Self {
        let sum = |count: fn(&Self) -> u64| count(&self).saturating_add(count(&other));
        Self {
            input_tokens: sum(|usage| usage.input_tokens),
            output_tokens: sum(|usage| usage.output_tokens),
            cache_creation_input_tokens: sum(|usage| usage.cache_creation_input_tokens),
            cache_read_input_tokens: sum(|usage| usage.cache_read_input_tokens),
            cache_creation_1h_input_tokens: sum(|usage| usage.cache_creation_1h_input_tokens),
            web_search_requests: sum(|usage| usage.web_search_requests),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An amount of money in pico-dollars (10⁻¹² USD), so that a price of a fraction of a cent per million tokens
/// still counts exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u128);

impl Cost {
    /// Converts `dollars`, rounded to the nearest pico-dollar; negative and non-finite amounts count as 0.
    pub fn from_usd(dollars: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's `as` saturates"
        )]
        Self((dollars * 1e12).round() as u128)
    }

    /// Returns the amount in dollars, for display and JSON.
    pub fn usd(self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "exact to 2⁵³ pico-dollars, 9,007 USD"
        )]
        let dollars = self.0 as f64 / 1e12;
        dollars
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.usd())
    }
}

/// Token prices of a model, in pico-dollars per token (which is micro-dollars per million tokens).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Per uncached input token.
    pub input: u64,
    /// Per output token.
    pub output: u64,
    /// Per input token read from the cache.
    pub cache_read: u64,
    /// Per input token written into the cache with the usual lifetime.
    pub cache_write: u64,
    /// Per input token written into it with the longer lifetime.
    pub cache_write_1h: u64,
}

impl Price {
    /// Returns `factor` times the price.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        let times = |price: u64| price.saturating_mul(factor);
        Self {
            input: times(self.input),
            output: times(self.output),
            cache_read: times(self.cache_read),
            cache_write: times(self.cache_write),
            cache_write_1h: times(self.cache_write_1h),
        }
    }

    /// Returns the cost of `usage` at this price.
    pub fn of(&self, usage: &Usage) -> Cost {
        let short_lived = usage
            .cache_creation_input_tokens
            .saturating_sub(usage.cache_creation_1h_input_tokens);
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_input_tokens, self.cache_read),
            (short_lived, self.cache_write),
            (usage.cache_creation_1h_input_tokens, self.cache_write_1h),
        ];
        let tokens = parts
            .into_iter()
            .map(|(tokens, price)| u128::from(tokens) * u128::from(price));
        Cost(tokens.sum::<u128>() + u128::from(usage.web_search_requests) * WEB_SEARCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Costs are exact: they are sums of stored integers, which do not depend on the order of addition.
    #[test]
    fn each_kind_of_token_has_its_own_price() {
        let price = Price {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: 300_000,
            cache_write: 3_750_000,
            cache_write_1h: 6_000_000,
        };
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_read_input_tokens: 1_000_000,
            cache_creation_input_tokens: 30,
            cache_creation_1h_input_tokens: 10,
            web_search_requests: 2,
        };
        let expected = 3_000_000_000_000
            + 1_500_000_000_000
            + 300_000_000_000
            + 20 * 3_750_000
            + 10 * 6_000_000
            + 20_000_000_000;
        assert_eq!(price.of(&usage), Cost(expected));
    }
}
