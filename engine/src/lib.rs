//! From a configuration to a running session: names the concrete models, stores and tools, opens sessions and serves those
//! that drive them.
//!
//! It is private to this house. The crates above show sessions (`terminal`, `cli`); other programs use the library `ah`,
//! which says what of it may be relied upon.

#[cfg(feature = "sqlite")]
pub mod assemble;
#[cfg(feature = "sqlite")]
pub mod command_files;
#[cfg(feature = "sqlite")]
mod config_tool;
pub mod confinement;
#[cfg(feature = "sqlite")]
pub mod desk;
#[cfg(feature = "sqlite")]
pub mod expand;
#[cfg(feature = "sqlite")]
pub mod identity;
#[cfg(feature = "sqlite")]
pub mod instructions;
mod key_command;
#[cfg_attr(not(feature = "log"), path = "no_log.rs")]
mod log;
#[cfg(feature = "sqlite")]
pub mod mentions;
pub mod model;
#[cfg(feature = "sqlite")]
mod open;
#[cfg(feature = "sqlite")]
mod opening;
#[cfg(feature = "sqlite")]
pub mod person;
#[cfg(feature = "sqlite")]
pub mod pictures;
#[cfg(feature = "sqlite")]
pub mod place;
#[cfg(feature = "sqlite")]
pub mod plan;
#[cfg(feature = "sqlite")]
mod refusal;
#[cfg(feature = "sqlite")]
pub mod serve;
#[cfg(feature = "sqlite")]
pub mod served;
#[cfg(feature = "sqlite")]
pub mod session_folders;
#[cfg(feature = "sqlite")]
mod session_model;
#[cfg(feature = "sqlite")]
pub mod small;
#[cfg(feature = "sqlite")]
pub mod specs;
#[cfg(feature = "sqlite")]
mod today;
#[cfg(feature = "sqlite")]
pub mod transcript_reader;
#[cfg(feature = "sqlite")]
pub mod tried_call;
pub mod warn;
#[cfg(feature = "sqlite")]
mod watched;
pub mod worktrees;
#[cfg(test)]
mod wrapping;

use std::sync::atomic::{AtomicBool, Ordering};

pub use log::log_of;
#[cfg(feature = "sqlite")]
pub use open::{Opened, busy};
#[cfg(feature = "sqlite")]
pub use opening::Opening;
#[cfg(feature = "sqlite")]
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
