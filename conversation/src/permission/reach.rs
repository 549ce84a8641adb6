//! The reach of a call, from the rules and the mode that allow it.

use super::{Permissions, is_protected};
use crate::{Access, CommandLine, Effect, PermissionMode, Reach, SimpleCommand, ToolUse};

impl Permissions {
    /// Returns what a call may do at most that [`Self::decide`] allows without asking.
    pub fn reach(&self, call: &ToolUse, accesses: &[Access]) -> Reach {
        match self.mode {
            PermissionMode::BypassPermissions | PermissionMode::Delegate => Reach::Anything,
            // Only reading is allowed, whatever the rules say.
            PermissionMode::Plan => Reach::ReadOnly,
            PermissionMode::Default
            | PermissionMode::Sandboxed
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk => {
                let accesses = accesses
                    .iter()
                    .filter(|access| !access.is_for_writing(accesses));
                let reach = |access| self.reach_of(call, access).unwrap_or_default();
                accesses.map(reach).max().unwrap_or_default()
            }
        }
    }

    /// Whether rules, mode or sandbox allow this access.
    pub(super) fn allows(&self, call: &ToolUse, access: &Access) -> bool {
        self.reach_of(call, access).is_some()
    }

    /// Returns what this access may do at most; `None` if nothing allows it.
    fn reach_of(&self, call: &ToolUse, access: &Access) -> Option<Reach> {
        let by_rule = || {
            let mut rules = self.allow.iter();
            let is_allowed = rules.any(|rule| rule.allows(call, access, &self.places));
            is_allowed.then_some(Reach::Anything)
        };
        match access {
            Access::Read(path) => self.may_read(call, path).then_some(Reach::ReadOnly),
            Access::Named(_) | Access::Ask(_) => Some(Reach::ReadOnly),
            // The sandbox limits these, not the rules; `Promised` and `Unknown` may act outside it.
            Access::Write(_) | Access::Command(_) | Access::Confined { .. }
                if self.in_force(self.mode) == PermissionMode::Sandboxed =>
            {
                Some(Reach::Anything)
            }
            Access::Write(path) if is_protected(path) => {
                let mut rules = self.allow.iter().filter(|rule| rule.content.is_some());
                let is_allowed = rules.any(|rule| rule.allows(call, access, &self.places));
                is_allowed.then_some(Reach::Anything)
            }
            Access::Write(path) if self.may_edit(path) => Some(Reach::Edits(self.roots())),
            Access::Command(line) => {
                let allowed = by_rule().or_else(|| self.reach_of_line(call, line))?;
                // A rule allows what the words say: what only reads does so whatever it is configured to start.
                Some(if line.looks { Reach::ReadOnly } else { allowed })
            }
            Access::Host(host) if self.hosts.contains(host) => Some(Reach::Anything),
            Access::Write(_)
            | Access::Host(_)
            | Access::Promised
            | Access::Unknown
            | Access::Confined { .. } => by_rule(),
        }
    }

    /// Whether each command of the line is allowed.
    pub(super) fn allows_line(&self, call: &ToolUse, line: &CommandLine) -> bool {
        self.reach_of_line(call, line).is_some()
    }

    fn reach_of_line(&self, call: &ToolUse, line: &CommandLine) -> Option<Reach> {
        if line.harmless && self.readable.is_none() {
            return Some(Reach::ReadOnly);
        }
        self.reach_of_all(call, line.commands.as_ref()?)
    }

    /// Whether the command is allowed, with all that it starts.
    pub(super) fn allows_command(&self, call: &ToolUse, command: &SimpleCommand) -> bool {
        self.reach_of_command(call, command).is_some()
    }

    fn reach_of_command(&self, call: &ToolUse, command: &SimpleCommand) -> Option<Reach> {
        let of_inner = || self.reach_of_all(call, &command.inner);
        // A rule for a program covers the program that it starts, and options that are not known, only if it names them.
        let is_program_enough = || !command.unknown_options && of_inner().is_some();
        let mut rules = self.allow.iter().filter(|_| !command.steered);
        let by_rule = rules.any(|rule| {
            rule.covers(call, command)
                .is_some_and(|certain| certain >= command.reach || is_program_enough())
        });
        if by_rule {
            return Some(Reach::Anything);
        }
        let by_mode = match command.effect {
            Effect::None => self.may_look(call, command).then_some(Reach::ReadOnly),
            Effect::Files => { command.operands.iter() }
                .all(|path| self.may_edit(path))
                .then(|| Reach::Edits(self.roots())),
            Effect::Any => None,
        };
        match by_mode {
            Some(own) => Some(of_inner()?.max(own)),
            None if command.transparent && !command.inner.is_empty() => of_inner(),
            None => None,
        }
    }

    /// Returns what these commands may do at most, all together; `None` if one is not allowed.
    fn reach_of_all(&self, call: &ToolUse, commands: &[SimpleCommand]) -> Option<Reach> {
        commands.iter().try_fold(Reach::ReadOnly, |most, command| {
            Some(self.reach_of_command(call, command)?.max(most))
        })
    }
}
