//! The store over a real server, started on a temporary folder. Where PostgreSQL is not installed, the tests pass
//! without testing anything; `cargo xtask test` then names them as left out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../store/tests/it/again.rs"]
mod again;
#[path = "../../../store/tests/it/contract.rs"]
mod contract;
mod faults;
#[path = "../../../store/tests/it/fixture.rs"]
#[allow(dead_code, reason = "the tests of SQLite use the rest")]
mod fixture;
mod queue;
mod server;
mod stores;
mod tenants;
mod waking;
