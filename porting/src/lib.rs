//! Sessions from and to other programs: what they wrote becomes a session of ours, and a session of ours a file of theirs.

pub mod export;
pub mod import;
pub mod imported;
