//! Integration tests of the sandbox.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod above;
mod attacks;
mod ending;
mod journals;
mod left;
mod ready;
mod tiers;
mod together;
