//! Concurrency of tool calls.

use serde::{Deserialize, Serialize};

/// Concurrency of the tool calls of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Concurrency {
    /// Calls that only read run in parallel, others one by one.
    #[default]
    Auto,
    /// One after the other.
    Serial,
    /// All in parallel.
    Parallel,
}
