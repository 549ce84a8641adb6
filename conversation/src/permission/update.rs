//! What an answer changes of the permissions: as hosts and hooks send it, and as it is proposed to them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{PermissionMode, Permissions, Rule};
use crate::Interaction;

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
        /// Which list.
        behavior: Behavior,
        /// For how long.
        destination: Destination,
    },
    /// Puts rules in the place of a list.
    ReplaceRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// Which list.
        behavior: Behavior,
        /// For how long.
        destination: Destination,
    },
    /// Takes rules out of a list.
    RemoveRules {
        /// The rules.
        rules: Vec<RuleValue>,
        /// Which list.
        behavior: Behavior,
        /// For how long.
        destination: Destination,
    },
    /// Chooses another mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
        /// For how long.
        destination: Destination,
    },
    /// Adds working directories.
    AddDirectories {
        /// The directories.
        directories: Vec<PathBuf>,
        /// For how long.
        destination: Destination,
    },
    /// Takes working directories away.
    RemoveDirectories {
        /// The directories.
        directories: Vec<PathBuf>,
        /// For how long.
        destination: Destination,
    },
}

/// A rule, its two parts apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleValue {
    /// The tool's name.
    pub tool_name: String,
    /// Which of its calls; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_content: Option<String>,
}

/// A list of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Behavior {
    /// What is allowed.
    Allow,
    /// What is denied.
    Deny,
    /// What is asked.
    Ask,
}

/// How long a change lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// For the user, everywhere.
    UserSettings,
    /// For all who work on the project.
    ProjectSettings,
    /// For the user, in this project.
    LocalSettings,
    /// Until the program ends.
    #[serde(alias = "cliArg")]
    Session,
}

impl RuleValue {
    /// The rule, kept there; what cannot be one names nothing.
    fn rule(&self, kept: Destination) -> Option<Rule> {
        let content = self.rule_content.as_deref();
        let rule: Rule = match content.filter(|content| !content.is_empty()) {
            None => self.tool_name.parse(),
            Some(content) => format!("{}({content})", self.tool_name).parse(),
        }
        .ok()?;
        Some(rule.kept_in(kept))
    }
}

impl fmt::Display for RuleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule_content {
            None => f.write_str(&self.tool_name),
            Some(content) => write!(f, "{}({content})", self.tool_name),
        }
    }
}

impl From<&Rule> for RuleValue {
    fn from(rule: &Rule) -> Self {
        Self {
            tool_name: rule.tool.clone(),
            rule_content: rule.content.clone(),
        }
    }
}

impl PermissionUpdate {
    /// For how long it holds.
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

    /// The same change for another time.
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

impl Permissions {
    /// Makes a change for the rest of the session. A mode that allows everything is taken only from the user, and rules
    /// are replaced and removed only where the update says they are kept.
    pub fn apply(&mut self, update: &PermissionUpdate) {
        let kept = update.destination();
        let parsed = |rules: &[RuleValue]| -> Vec<Rule> {
            rules.iter().filter_map(|rule| rule.rule(kept)).collect()
        };
        match update {
            PermissionUpdate::AddRules {
                rules, behavior, ..
            } => {
                for rule in parsed(rules) {
                    let list = self.list(*behavior);
                    if !list.contains(&rule) {
                        list.push(rule);
                    }
                }
            }
            PermissionUpdate::ReplaceRules {
                rules, behavior, ..
            } => {
                let list = self.list(*behavior);
                list.retain(|rule| rule.kept != Some(kept));
                list.extend(parsed(rules));
            }
            PermissionUpdate::RemoveRules {
                rules, behavior, ..
            } => {
                let gone = parsed(rules);
                self.list(*behavior).retain(|rule| !gone.contains(rule));
            }
            PermissionUpdate::SetMode { mode, .. } => {
                if self.accepts(update) {
                    self.change_mode(*mode);
                }
            }
            PermissionUpdate::AddDirectories { directories, .. } => {
                self.directories.extend(directories.iter().cloned());
            }
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                self.directories.retain(|held| !directories.contains(held));
            }
        }
    }

    /// Takes up what a person has agreed to by allowing a call that asked for `interaction`. Leaving mode `plan` gives back the
    /// mode before it, unless another was chosen with the approval.
    pub fn agree(&mut self, interaction: &Interaction) {
        match interaction {
            Interaction::Plan(_) if self.mode == PermissionMode::Plan => {
                self.mode = self.before_plan;
            }
            Interaction::ToPlan => self.change_mode(PermissionMode::Plan),
            Interaction::Plan(_) | Interaction::Choices(_) => {}
        }
    }

    /// Takes another mode; the one before a plan is kept for when the plan is approved.
    pub fn change_mode(&mut self, mode: PermissionMode) {
        if mode == PermissionMode::Plan && self.mode != PermissionMode::Plan {
            self.before_plan = self.mode;
        }
        self.mode = mode;
    }

    /// Whether the change may be made: a mode that allows everything is only for who has said so from the start.
    pub fn accepts(&self, update: &PermissionUpdate) -> bool {
        let is_all = matches!(
            update,
            PermissionUpdate::SetMode {
                mode: PermissionMode::BypassPermissions,
                ..
            }
        );
        !is_all || self.may_bypass
    }

    fn list(&mut self, behavior: Behavior) -> &mut Vec<Rule> {
        match behavior {
            Behavior::Allow => &mut self.allow,
            Behavior::Deny => &mut self.deny,
            Behavior::Ask => &mut self.ask,
        }
    }
}
