//! From a configuration to a running session: names the concrete models, stores and tools, opens sessions and serves those
//! that drive them.
//!
//! It is private to this house. The crates above show sessions (`terminal`, `cli`); other programs use the library `ah`,
//! which says what of it may be relied upon.

pub mod assemble;
pub mod conditions;
pub mod confinement;
pub mod desk;
pub mod identity;
#[cfg_attr(not(feature = "log"), path = "log/absent.rs")]
mod log;
pub mod model;
pub mod person;
pub mod prompt;
pub mod serve;
pub mod sessions;
pub mod warn;
mod watched;
#[cfg(test)]
mod wrapping;

use std::sync::atomic::{AtomicBool, Ordering};

pub use log::log_of;
pub use sessions::open::{Opened, busy};
pub use sessions::opening::Opening;
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
