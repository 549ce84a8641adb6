//! Which session is opened, where it is, and how it is opened.

pub mod folders;
pub(crate) mod open;
pub(crate) mod opening;
pub mod place;
pub mod plan;
mod session_model;
pub mod transcript_reader;
pub mod worktrees;
