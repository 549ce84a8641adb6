//! A build without injected faults.
#![expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]

use crate::sqlite::Failure;

/// Does nothing.
pub(super) fn before_commit() -> Result<(), Failure> {
    Ok(())
}

/// Does nothing.
pub(super) fn after_commit() -> Result<(), Failure> {
    Ok(())
}
