//! What a session is doing, as its clients are told it.

use ah_conversation::{Choice, PermissionMode, Proposal, ToolUseId};
use serde::{Deserialize, Serialize};

use crate::run::Ended;

/// What a session is doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Whether a run is in progress here.
    pub running: bool,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: Option<i64>,
    /// Questions that wait for an answer.
    pub questions: Vec<Asked>,
    /// End of the last run here.
    pub ended: Option<Ended>,
    /// Permission mode of the run in progress here, or of the last one, if it does not depend on the sandbox.
    pub mode: Option<PermissionMode>,
    /// Model of the run in progress here, or of the last one.
    pub model: Option<String>,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Number that names it, unique in its server.
    pub id: u64,
    /// What it is about; empty if the picks say it.
    pub about: String,
    /// What is to be picked. Another text than an option is an answer as well, unless this is a permission.
    pub picks: Vec<Choice>,
    /// The change of a file that it is about.
    #[serde(default)]
    pub proposal: Option<Proposal>,
    /// Whether it is about a permission.
    #[serde(default)]
    pub is_permission: bool,
}

/// A call in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCall {
    /// Its id.
    pub id: ToolUseId,
    /// Its tool.
    pub name: String,
    /// The first text of its input.
    pub about: String,
    /// The last lines of its output so far.
    pub tail: String,
}
