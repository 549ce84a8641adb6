//! What the tests of all crates share: a model that says what a test tells it to, and the same for a test that
//! drives the binary. Real implementations of the ports throughout; nothing here imitates our own functions.

pub mod script;
pub mod server;
