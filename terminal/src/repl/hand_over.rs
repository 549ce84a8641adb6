//! The conversation as a process in the background continues it: the session, and what was chosen in it since.

use std::path::PathBuf;

use ah_conversation::{Effort, PermissionMode};
use serde::{Deserialize, Serialize};

/// A conversation that is left to a process in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// Id of the session; `None` for a new one.
    pub session: Option<String>,
    /// The prompt; `None` to resume the run that was left.
    pub prompt: Option<String>,
    /// Permission mode.
    pub mode: PermissionMode,
    /// Mode that is in force again once a plan is approved.
    pub before_plan: PermissionMode,
    /// Rules that allow calls, besides those of the settings and options.
    pub rules: Vec<String>,
    /// Working directories, likewise.
    pub folders: Vec<PathBuf>,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// Model for the run that was left alone, as its command names it.
    pub lent_model: Option<String>,
    /// Prompts to run afterwards, in turn.
    pub queued: Vec<String>,
}

impl HandOver {
    /// Returns the same of this session.
    pub(super) fn of(self, session: Option<String>) -> Self {
        Self { session, ..self }
    }
}

/// How a conversation has ended.
#[derive(Debug)]
pub enum End {
    /// The program ends with this code.
    Exit(u8),
    /// A process in the background continues it.
    Left(HandOver),
}
