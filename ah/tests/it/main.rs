//! Tests of the library as other programs use it.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

mod agent;
mod errors;
mod examples;
mod options;
mod outside;
mod query;
mod world;
