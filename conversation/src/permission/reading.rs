//! Reading outside the working directories, where that needs permission: by a tool, or by a command that only reads.

use std::path::{Path, PathBuf};

use super::{Inquiry, Permissions, shown};
use crate::{
    Access, Behavior, Destination, PermissionUpdate, Rule, RuleValue, SimpleCommand, ToolUse,
};

/// Why such a call is asked about, in the words that programs know.
const OUTSIDE: &str = "Path is outside allowed working directories";

impl Inquiry {
    /// Returns why the call is asked about, unless it is only that no rule allows it.
    pub fn why(&self) -> Option<&str> {
        let outside = self.outside.as_ref().map(|_| OUTSIDE);
        self.reason.as_deref().or(outside)
    }
}

impl Permissions {
    /// Whether the call may read this file, or the files below this folder.
    pub(super) fn may_read(&self, call: &ToolUse, path: &Path) -> bool {
        let Some(readable) = &self.readable else {
            return true;
        };
        self.is_inside(path) || readable.iter().any(|known| path.starts_with(known)) || {
            self.allow.iter()
        }
        .any(|rule| rule.allows(call, &Access::Read(path.to_owned()), &self.places))
    }

    /// Whether the command, which changes nothing, may see all that it names.
    pub(super) fn may_look(&self, call: &ToolUse, command: &SimpleCommand) -> bool {
        let mut seen = command.files.seen.iter();
        self.readable.is_none()
            || seen.all(|path| self.may_read(call, folder(path).unwrap_or(path)))
    }

    /// Whether the call may see every file that it names, before anybody is asked about it.
    pub fn may_see(&self, call: &ToolUse, accesses: &[Access]) -> bool {
        accesses.iter().all(|access| match access {
            Access::Read(path) | Access::Write(path) => self.may_read(call, path),
            _ => true,
        })
    }

    /// Returns the first file that the call would read without being allowed to.
    pub(super) fn first_outside(&self, call: &ToolUse, accesses: &[Access]) -> Option<PathBuf> {
        let path = self.outside(call, accesses).into_iter().next()?;
        Some(folder(path).unwrap_or(path).to_owned())
    }

    /// Returns the rules that would allow what the call reads; none for the root of the file system.
    pub(super) fn reading_rules(
        &self,
        call: &ToolUse,
        accesses: &[Access],
    ) -> Option<PermissionUpdate> {
        let searches = !accesses
            .iter()
            .any(|access| matches!(access, Access::Command(_)))
            && call.input.text("pattern").is_some();
        let folders = self
            .outside(call, accesses)
            .into_iter()
            .filter_map(|path| match searches {
                true => Some(path),
                false => folder(path).or_else(|| path.parent()),
            });
        let mut folders: Vec<_> = folders.filter(|path| path.parent().is_some()).collect();
        folders.dedup();
        let rules: Vec<RuleValue> = folders
            .into_iter()
            .filter_map(|path| format!("Read(//{}/**)", shown(path)).parse::<Rule>().ok())
            .map(|rule| RuleValue::from(&rule))
            .collect();
        (!rules.is_empty()).then_some(PermissionUpdate::AddRules {
            rules,
            behavior: Behavior::Allow,
            destination: Destination::Session,
        })
    }

    /// Returns what the call would read without being allowed to; a folder whose files a command sees ends with `**`.
    fn outside<'a>(&self, call: &ToolUse, accesses: &'a [Access]) -> Vec<&'a Path> {
        let mut found = Vec::new();
        for access in accesses
            .iter()
            .filter(|access| !access.is_for_writing(accesses))
        {
            match access {
                Access::Read(path) if !self.may_read(call, path) => found.push(path.as_path()),
                Access::Command(line) if !self.allows(call, access) => {
                    for command in line.commands.iter().flatten() {
                        self.unseen(call, command, &mut found);
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn unseen<'a>(&self, call: &ToolUse, command: &'a SimpleCommand, found: &mut Vec<&'a Path>) {
        let seen = command.files.seen.iter().map(PathBuf::as_path);
        found.extend(seen.filter(|path| !self.may_read(call, folder(path).unwrap_or(path))));
        for inner in &command.inner {
            self.unseen(call, inner, found);
        }
    }
}

/// Returns the folder whose files `path/**` stands for.
fn folder(path: &Path) -> Option<&Path> {
    path.ends_with("**").then(|| path.parent()).flatten()
}
