//! One binary for the tests of this crate.

mod history;
mod script;
mod server;
mod show;
