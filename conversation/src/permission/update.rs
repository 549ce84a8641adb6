//! Permission updates, as hosts and hooks send them and as they are suggested to the user.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::PermissionMode;

/// A change of the permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum PermissionUpdate {
    /// Adds rules to a list.
    AddRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// List to change.
        behavior: Behavior,
        /// Lifetime of the change.
        destination: Destination,
    },
    /// Replaces the rules of a list.
    ReplaceRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// List to change.
        behavior: Behavior,
        /// Lifetime of the change.
        destination: Destination,
    },
    /// Removes rules from a list.
    RemoveRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// List to change.
        behavior: Behavior,
        /// Lifetime of the change.
        destination: Destination,
    },
    /// Sets the mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
        /// Lifetime of the change.
        destination: Destination,
    },
    /// Adds working directories.
    AddDirectories {
        /// The directories.
        directories: Vec<PathBuf>,
        /// Lifetime of the change.
        destination: Destination,
    },
    /// Removes working directories.
    RemoveDirectories {
        /// The directories.
        directories: Vec<PathBuf>,
        /// Lifetime of the change.
        destination: Destination,
    },
}

/// A rule as tool name and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleValue {
    /// The tool's name.
    pub tool_name: String,
    /// Content of the rule; absent for all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// A list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Behavior {
    /// Allowed calls.
    Allow,
    /// Denied calls.
    Deny,
    /// Calls that need approval.
    Ask,
}

/// Lifetime and storage of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// The user's settings.
    UserSettings,
    /// The project's shared settings.
    ProjectSettings,
    /// The user's own settings for this project.
    LocalSettings,
    /// Until the program ends.
    #[serde(alias = "cliArg")]
    Session,
}

impl fmt::Display for RuleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule_content {
            None => f.write_str(&self.tool_name),
            Some(content) => write!(f, "{}({content})", self.tool_name),
        }
    }
}

impl PermissionUpdate {
    /// Returns the lifetime of the change.
    pub fn destination(&self) -> Destination {
        match self {
            Self::AddRules { destination, .. }
            | Self::ReplaceRules { destination, .. }
            | Self::RemoveRules { destination, .. }
            | Self::SetMode { destination, .. }
            | Self::AddDirectories { destination, .. }
            | Self::RemoveDirectories { destination, .. } => *destination,
        }
    }

    /// Returns what it allows, rules as they are written in the settings; empty if it allows nothing.
    pub fn allows(&self) -> Vec<String> {
        match self {
            Self::AddRules { rules, .. } => rules.iter().map(RuleValue::to_string).collect(),
            Self::SetMode {
                mode: PermissionMode::AcceptEdits,
                ..
            } => vec!["accept edits".to_owned()],
            Self::SetMode { mode, .. } => vec![format!("mode {}", mode.as_str())],
            Self::AddDirectories { directories, .. } => directories
                .iter()
                .map(|folder| format!("files in {}", folder.display()))
                .collect(),
            Self::ReplaceRules { .. }
            | Self::RemoveRules { .. }
            | Self::RemoveDirectories { .. } => Vec::new(),
        }
    }

    /// Returns the same change with another lifetime.
    #[must_use]
    pub fn lasting(mut self, wanted: Destination) -> Self {
        match &mut self {
            Self::AddRules { destination, .. }
            | Self::ReplaceRules { destination, .. }
            | Self::RemoveRules { destination, .. }
            | Self::SetMode { destination, .. }
            | Self::AddDirectories { destination, .. }
            | Self::RemoveDirectories { destination, .. } => *destination = wanted,
        }
        self
    }
}
