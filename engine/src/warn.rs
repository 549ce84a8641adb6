//! Callback for warnings while a session runs.

use std::sync::Arc;

/// Callback for warnings while a session runs.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Returns a [`Warn`] that ignores warnings.
pub fn no_warnings() -> Warn {
    Arc::new(|_| {})
}
