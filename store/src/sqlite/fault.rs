//! Fault injection around each commit, for tests that kill the program at every one of them.
//!
//! Without the feature `fault-injection` it does nothing. With it, an environment variable is read, the only one in
//! this crate, since a test has no other way to control the program it runs: `AH_FAULT=before:3` fails just before the
//! third commit of the process, `after:3` just after it. An optional third part chooses the fault: `kill` (SIGKILL, the
//! default), `abort` or `error`.

#[cfg_attr(not(feature = "fault-injection"), path = "fault/absent.rs")]
mod injected;

use super::Failure;

/// Commits, with the injected faults before and after.
pub(super) fn commit(transaction: rusqlite::Transaction<'_>) -> Result<(), Failure> {
    injected::before_commit()?;
    transaction.commit()?;
    injected::after_commit()
}
