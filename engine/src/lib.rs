//! From a configuration to a running session: names the concrete models, stores and tools, opens sessions and serves those
//! that drive them.
//!
//! It is private to this house. The crates above show sessions (`terminal`, `cli`); other programs use the library `ah`,
//! which says what of it may be relied upon.

pub mod assemble;
mod check_tool;
pub mod command_files;
pub mod conditions;
mod config_tool;
pub mod confinement;
pub mod desk;
pub mod expand;
pub mod identity;
pub mod instructions;
mod key_command;
#[cfg_attr(not(feature = "log"), path = "no_log.rs")]
mod log;
pub mod mentions;
pub mod model;
mod open;
mod opening;
pub mod person;
pub mod pictures;
pub mod place;
pub mod plan;
mod refusal;
pub mod serve;
pub mod served;
pub mod session_folders;
mod session_model;
pub mod small;
pub mod specs;
mod today;
pub mod transcript_reader;
pub mod tried_call;
pub mod warn;
mod watched;
pub mod worktrees;
#[cfg(test)]
mod wrapping;

use std::sync::atomic::{AtomicBool, Ordering};

pub use log::log_of;
pub use open::{Opened, busy};
pub use opening::Opening;
pub use watched::{WatchSession, watch_sessions};

/// Whether `enter` was called, so that this program can launch confined commands.
static HAS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Launches a confined command if the sandbox has started this process for that, and never returns then. Otherwise
/// returns at once. A program that uses the sandbox calls it first thing in `main`.
pub fn enter() {
    HAS_ENTERED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == ah_sandbox::LAUNCHER => ah_sandbox::launcher(),
        Some(first) if first == ah_sandbox::PROBE => ah_sandbox::probe(arguments),
        _ => {}
    }
}

/// Returns whether [`enter`] was called: confined commands are launched by running this executable again, which would
/// start the program itself.
pub fn has_entered() -> bool {
    HAS_ENTERED.load(Ordering::Relaxed)
}
