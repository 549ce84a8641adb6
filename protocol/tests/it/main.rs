//! One binary for the tests of this crate.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;
