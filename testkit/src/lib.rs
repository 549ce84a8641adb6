//! What the tests of all crates share: a model that says what a test tells it to, the same behind a real socket for
//! tests that drive the binary, a small world to run in, and short texts for snapshots. Real implementations of the
//! ports throughout; nothing here imitates our own functions.

pub mod github;
pub mod mcp;
pub mod script;
pub mod server;
pub mod show;
pub mod svg;
pub mod world;
