//! Tests of the test kit.

mod history;
mod openai;
mod script;
mod server;
mod show;
mod vendors;
