//! Waiting for what another process or thread does, with an end: a test that waits in vain says for what, and does not
//! hang the whole run.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung: far longer than the slowest machine needs.
pub const HANG: Duration = Duration::from_secs(60);

/// How often a state without a signal of its own is looked at.
const EVERY: Duration = Duration::from_millis(2);

/// Waits until `is_so`; panics with `what` after [`HANG`].
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANG, "waited in vain for {what}");
        thread::sleep(EVERY);
    }
}

/// Looks until there is a value, letting other tasks run; panics with `what` after [`HANG`].
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANG, "waited in vain for {what}");
        tokio::time::sleep(EVERY).await;
    }
}
