//! Sets of tools, and the limits that go with each.

use serde::{Deserialize, Serialize};

/// A set of tools, and the limits that go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The program's own tools.
    Default,
    /// `read`, `write`, `edit` and `bash`.
    Minimal,
    /// The tools that users of the official Agent SDKs expect, under their names.
    Sdk,
    /// `read`, `write` and `bash`, for a plain loop. Only for one run.
    #[serde(skip_deserializing)]
    PlainRepl,
    /// `read`, `write`, `edit` and `bash`, described briefly, short results and early summaries, for small models.
    Small,
}
