//! One binary for the tests of this crate.

mod recordings;
mod script;
