//! A run as people see it.
//!
//! [`mod@print`] writes a run to the streams, [`repl`] has a conversation at a terminal; both show the same events of the
//! engine (`ah`). Questions, signals, exit codes and documents made of a session are here too. Only this crate and the
//! command line above it write to the terminal.

mod chooser;
pub mod document;
pub mod exit;
pub mod glyphs;
pub mod line;
pub mod login;
pub mod message;
pub mod print;
pub mod repl;
pub mod servers;
pub mod signals;
pub mod tree;
pub mod trust;
pub mod undo;
mod warn;

pub use warn::{note, report, tell_notices, warn};
