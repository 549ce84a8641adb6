//! What the store promises, seen from outside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod crash;
mod files;
mod fixture;
mod roundtrip;
mod salvage;
mod sessions;
mod sharing;
mod tree;
