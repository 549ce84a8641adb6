//! What is allowed where no rule says otherwise.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is allowed where no rule says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reading is allowed; the rest is asked.
    #[default]
    Default,
    /// Reading is allowed, and writing files in the working directories; the rest is asked.
    AcceptEdits,
    /// Only reading.
    Plan,
    /// As `default`, but what would be asked is denied.
    DontAsk,
    /// Only handing work to subagents.
    Delegate,
    /// Everything.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes, in the order of the help text.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::Delegate,
        Self::BypassPermissions,
    ];

    /// The mode as settings and flags spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
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

    /// Reads a mode; `manual` and `auto`, which other agents know, mean `default`.
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
