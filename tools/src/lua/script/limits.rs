//! What one script may use up.

use std::time::Duration;

use crate::lua::leash::Limits;

/// Maximum number of calls of one script.
pub(super) const MOST_CALLS: usize = 1_000;
/// Maximum size of all results that one script is given, in bytes.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// Maximum size of what a script prints, in bytes.
pub(super) const MOST_PRINTED: usize = 4 << 20;
/// Limits of a script, without the time that its calls take.
pub(super) const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    instructions: 200_000_000,
    memory: 128 << 20,
};
