//! Tests of the store through its public interface.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod again;
mod contract;
mod crash;
mod files;
mod fixture;
mod links;
mod memory_log;
mod prefixes;
mod roundtrip;
mod salvage;
mod sessions;
mod sharing;
mod stores;
mod strangers;
mod tree;
