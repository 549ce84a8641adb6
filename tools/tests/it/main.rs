//! The tools, run as a session runs them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edit;
mod folder;
mod glob;
mod grep;
mod read;
mod write;
