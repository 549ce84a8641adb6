//! Shared parts of the tests of all crates: a scripted model, the same behind a real socket for tests that run the
//! binary, a folder with a store and a clock, and short texts for snapshots. All are real implementations of the ports;
//! nothing here mocks our own functions.

pub mod asked;
pub mod bound;
pub mod git;
pub mod github;
pub mod issuer;
pub mod mcp;
pub mod postgres;
pub mod program;
pub mod proxy;
pub mod script;
pub mod server;
pub mod show;
pub mod svg;
pub mod wait;
pub mod world;

/// Real providers and stores, for tests of crates below those that use both.
pub use {ah_ids as ids, ah_provider as provider, ah_store as store};
