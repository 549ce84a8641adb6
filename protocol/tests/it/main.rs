//! One binary for the tests of this crate.

mod program;
