//! What the tests of the program share: the binary in a world of its own, a user at a terminal, sessions of every kind, and
//! outputs in which nothing varies.

pub mod binary;
pub mod cases;
pub mod pseudo_terminal;
pub mod random;
pub mod shown;
pub mod stored;
