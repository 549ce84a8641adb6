//! Tests of the protocol through its public interface.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;
