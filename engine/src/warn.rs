//! Warnings of a session at work.

use std::sync::Arc;

/// Is told what the user should know once a session is at work.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Returns a [`Warn`] that tells nobody.
pub fn no_warnings() -> Warn {
    Arc::new(|_| {})
}
