//! Tokens and money: arithmetic only.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens of one model call, or of several added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that came neither from nor into the cache.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Input tokens written into the cache, whatever their time to live.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Those of `cache_creation_input_tokens` that are kept for an hour, which costs more.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_1h_input_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl Usage {
    /// All that the model read: uncached, written to the cache and read from it.
    pub fn effective_input(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }

    /// All tokens, in and out.
    pub fn total(&self) -> u64 {
        self.effective_input() + self.output_tokens
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cache_creation_input_tokens: self.cache_creation_input_tokens
                + other.cache_creation_input_tokens,
            cache_read_input_tokens: self.cache_read_input_tokens + other.cache_read_input_tokens,
            cache_creation_1h_input_tokens: self.cache_creation_1h_input_tokens
                + other.cache_creation_1h_input_tokens,
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
    /// `dollars` rounded to the nearest pico-dollar; negative and non-finite amounts count as nothing.
    pub fn from_usd(dollars: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's `as` saturates"
        )]
        Self((dollars * 1e12).round() as u128)
    }

    /// The amount in dollars, for showing and for JSON.
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
        Self(self.0 + other.0)
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

/// What a model's tokens cost, in pico-dollars per token (which is micro-dollars per million tokens).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Per uncached input token.
    pub input: u64,
    /// Per output token.
    pub output: u64,
    /// Per input token read from the cache.
    pub cache_read: u64,
    /// Per input token written into the five-minute cache.
    pub cache_write: u64,
    /// Per input token written into the one-hour cache.
    pub cache_write_1h: u64,
}

impl Price {
    /// What `usage` costs at this price.
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
        Cost(
            parts
                .into_iter()
                .map(|(tokens, price)| u128::from(tokens) * u128::from(price))
                .sum(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check e of the port's part 01: costs are exact. They are summed from what is stored, so no two can add at once;
    /// whole numbers sum up to the same in any order.
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
        };
        let expected = 3_000_000_000_000
            + 1_500_000_000_000
            + 300_000_000_000
            + 20 * 3_750_000
            + 10 * 6_000_000;
        assert_eq!(price.of(&usage), Cost(expected));
    }
}
