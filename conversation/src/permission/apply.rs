//! Changes of a session's permissions: updates from hosts, hooks and the user, and approved plans.

use super::{Behavior, PermissionMode, PermissionUpdate, Permissions, Rule, RuleValue};
use crate::Interaction;

impl Permissions {
    /// Applies a change for the rest of the session. Mode `bypassPermissions` is accepted only if the user agreed to
    /// it, and rules are replaced and removed only if stored where the update says.
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
                let is_gone = |rule: &Rule| {
                    let mut gone = gone.iter();
                    gone.any(|gone| gone.kept == rule.kept && gone.says_the_same(rule))
                };
                self.list(*behavior).retain(|rule| !is_gone(rule));
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

    /// Applies the user's approval of a call that asked for `interaction`. Leaving mode `plan` restores the mode
    /// before it, unless another was set with the approval.
    pub fn agree(&mut self, interaction: &Interaction) {
        match interaction {
            Interaction::Plan(_) if self.mode == PermissionMode::Plan => {
                self.mode = self.before_plan;
            }
            Interaction::ToPlan => self.change_mode(PermissionMode::Plan),
            Interaction::Plan(_) | Interaction::Choices(_) => {}
        }
    }

    /// Returns the mode that is in force where `wanted` is set: `sandboxed` is `default` if no sandbox confines the session.
    pub fn in_force(&self, wanted: PermissionMode) -> PermissionMode {
        match wanted {
            PermissionMode::Sandboxed if !self.confined => PermissionMode::Default,
            wanted => wanted,
        }
    }

    /// Changes the mode; the mode before `plan` is remembered until the plan is approved.
    pub fn change_mode(&mut self, mode: PermissionMode) {
        let mode = self.in_force(mode);
        if mode == PermissionMode::Plan && self.mode != PermissionMode::Plan {
            self.before_plan = self.mode;
        }
        self.mode = mode;
    }

    /// Whether the update is permitted: mode `bypassPermissions` needs the user's consent at the start.
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
