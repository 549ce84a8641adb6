//! One binary for the tests of this crate.

mod history;
mod openai;
mod script;
mod server;
mod show;
