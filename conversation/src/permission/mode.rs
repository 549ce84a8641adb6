//! Permission modes: the default for calls that no rule covers.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Default for calls that no rule covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reading is allowed; the rest needs approval.
    #[default]
    Default,
    /// What the sandbox confines is allowed: commands, and writing files; the rest needs approval. Like `default` in a session
    /// that no sandbox confines.
    Sandboxed,
    /// Reading, and writing files in the working directories, is allowed; the rest needs approval.
    AcceptEdits,
    /// Only reading is allowed.
    Plan,
    /// Like `default`, but calls that would need approval are denied.
    DontAsk,
    /// Only starting subagents is allowed.
    Delegate,
    /// Everything is allowed.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes, in the order of the help text.
    pub const ALL: [Self; 7] = [
        Self::Default,
        Self::Sandboxed,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::Delegate,
        Self::BypassPermissions,
    ];

    /// Returns the modes that a client offers where `own` is in force: those that ask, and those that were agreed to.
    pub fn offered(own: Self, is_sandboxed: bool, may_bypass: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |mode| match mode {
            Self::Default | Self::AcceptEdits | Self::Plan => true,
            Self::Sandboxed => is_sandboxed || own == *mode,
            Self::BypassPermissions => may_bypass || own == *mode,
            Self::DontAsk | Self::Delegate => own == *mode,
        })
    }

    /// Whether files of the project are edited without a question.
    pub fn spares_edits(self) -> bool {
        match self {
            Self::Sandboxed | Self::AcceptEdits | Self::BypassPermissions => true,
            Self::Default | Self::Plan | Self::DontAsk | Self::Delegate => false,
        }
    }

    /// Returns the mode's name in settings and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Sandboxed => "sandboxed",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Delegate => "delegate",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    /// Parses a mode; `manual` and `auto`, known from other agents, mean `default`.
    fn from_str(word: &str) -> Result<Self, String> {
        if matches!(word, "manual" | "auto") {
            return Ok(Self::Default);
        }
        let known = Self::ALL.into_iter().find(|mode| mode.as_str() == word);
        known.ok_or_else(|| {
            format!(
                "unknown permission mode `{word}`; known are {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}
