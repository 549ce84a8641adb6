//! One binary for the tests of this crate.

mod answers;
mod messages_api;
mod recordings;
mod requests;
mod script;
mod server;
