//! How tool calls run together.

use serde::{Deserialize, Serialize};

/// Whether the tool calls of one answer run together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Concurrency {
    /// Calls that only read run together, the others alone.
    #[default]
    Auto,
    /// One after the other.
    Serial,
    /// All together.
    Parallel,
}
