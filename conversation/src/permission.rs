//! Permission decisions: a function of the rules, the mode and the accesses of a tool call.
//!
//! Users are asked elsewhere; the changes of the rules in their answers are [`PermissionUpdate`]s, which are applied
//! here.

mod apply;
mod hidden;
mod mode;
mod overlap;
mod pattern;
mod reach;
mod reading;
mod rule;
mod update;

use std::path::{Path, PathBuf};

pub use hidden::{Denied, HiddenFiles};
pub use mode::PermissionMode;
pub use pattern::PatternRoots;
use rule::Match;
pub(crate) use rule::canonical as canonical_tool;
pub use rule::{Rule, RuleError, is_same_tool};
pub use update::{Behavior, Destination, PermissionUpdate, RuleValue};

use crate::{Access, CommandLine, Effect, Hunk, Interaction, SimpleCommand, ToolUse, steered_by};

/// The tool whose rules name programs.
const COMMANDS: &str = "Bash";

/// Permissions of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Default for calls that no rule covers.
    pub mode: PermissionMode,
    /// Whether a sandbox confines commands and files, so that mode `sandboxed` may be chosen: it asks about access outside the
    /// sandbox only, to hosts, and by tools that run elsewhere.
    pub confined: bool,
    /// Hosts that sandboxed commands may reach without asking.
    pub hosts: Vec<String>,
    /// Whether the user has agreed to mode `bypassPermissions`, so that a host may choose it later.
    pub may_bypass: bool,
    /// Whether a call that mode `plan` refuses is asked about instead.
    pub plan_asks: bool,
    /// Rules for allowed calls.
    pub allow: Vec<Rule>,
    /// Rules for calls that need approval even if other rules allow them.
    pub ask: Vec<Rule>,
    /// Rules for denied calls; they override everything else.
    pub deny: Vec<Rule>,
    /// Additional working directories.
    pub directories: Vec<PathBuf>,
    /// Files and folders that may be read unasked besides the working directories; `None` for all files.
    pub readable: Option<Vec<PathBuf>>,
    /// Base directories of path patterns.
    pub places: PatternRoots,
    /// Mode before mode `plan`, restored once a plan is approved.
    pub before_plan: PermissionMode,
}

/// Decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed.
    Allow,
    /// Denied; the text tells the model why.
    Deny(String),
    /// The user has to decide.
    Ask(Inquiry),
}

/// Details of a permission request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// Reason for asking, unless it is only that no rule allows the call.
    pub reason: Option<String>,
    /// Permission updates that would avoid this question in future, the most fitting first.
    pub suggestions: Vec<PermissionUpdate>,
    /// The file that would be written.
    pub path: Option<PathBuf>,
    /// The parts of that file that would change, as far as that is known.
    pub change: Vec<Hunk>,
    /// The file outside the working directories that would be read.
    pub outside: Option<PathBuf>,
    /// User input that the call needs beyond permission; allowing the call answers it as well.
    pub interaction: Option<Interaction>,
    /// Mode that is in force again once a plan is approved.
    pub after_plan: PermissionMode,
}

impl Inquiry {
    /// Returns the rules that would allow the call, which can be kept.
    pub fn rules(&self) -> Vec<&PermissionUpdate> {
        let is_rule =
            |update: &&PermissionUpdate| matches!(update, PermissionUpdate::AddRules { .. });
        self.suggestions.iter().filter(is_rule).collect()
    }

    /// Returns what would allow the call for the session.
    pub fn for_session(&self) -> Vec<&PermissionUpdate> {
        match self.rules() {
            rules if rules.is_empty() => self.suggestions.iter().collect(),
            rules => rules,
        }
    }
}

impl Permissions {
    /// Decides about a call that touches `accesses`. Deny rules come first, then ask rules; a call that might match
    /// such a rule is never allowed without asking.
    pub fn decide(&self, call: &ToolUse, accesses: &[Access]) -> Decision {
        let concerns = |rule: &Rule| rule.concerns(call, accesses, &self.places);
        if let Some(rule) = self.deny.iter().find(|rule| concerns(rule) == Match::Yes) {
            return Decision::Deny(format!(
                "Permission to use {} was denied by the rule `{rule}`.",
                call.name
            ));
        }
        if let Some(text) = self.refusal(call, accesses) {
            return match self.mode {
                PermissionMode::Plan if self.plan_asks => self.inquire(call, accesses, None),
                _ => Decision::Deny(text),
            };
        }
        if let Some(interaction) = accesses.iter().find_map(Access::interaction) {
            return self.ask_person(call, interaction);
        }
        if let Some(rule) = self.ask.iter().find(|rule| concerns(rule) == Match::Yes) {
            return self.inquire(
                call,
                accesses,
                Some(format!("the rule `{rule}` requires approval")),
            );
        }
        // An exact rule was made for the whole line, redirections included.
        let is_exactly_allowed = accesses.iter().any(|access| {
            let mut rules = self.allow.iter().filter(|rule| rule.content.is_some());
            matches!(access, Access::Command(_))
                && rules.any(|rule| rule.allows(call, access, &self.places))
        });
        if is_exactly_allowed {
            return Decision::Allow;
        }
        let mut restrictive = self.deny.iter().chain(&self.ask);
        if let Some(rule) = restrictive.find(|rule| concerns(rule) == Match::Maybe) {
            let reason = format!("the rule `{rule}` might match it");
            return self.inquire(call, accesses, Some(reason));
        }
        let is_allowed =
            |access: &Access| access.is_for_writing(accesses) || self.allows(call, access);
        if self.mode == PermissionMode::BypassPermissions
            || self.is_of_mode(call)
            || accesses.iter().all(is_allowed)
        {
            return Decision::Allow;
        }
        self.inquire(call, accesses, None)
    }

    /// Returns the files that deny rules hide from the call, and those for which an ask rule wants a question of its
    /// own: one that `accesses`, which were permitted, do not name.
    pub fn hidden_from(&self, call: &ToolUse, accesses: &[Access]) -> HiddenFiles {
        let unasked = self
            .ask
            .iter()
            .filter(|rule| rule.concerns(call, accesses, &self.places) == Match::No);
        let rules = self.deny.iter().chain(unasked);
        let patterns = rules
            .filter(|rule| rule.is_about_reading(&call.name))
            .filter_map(|rule| rule.content.clone());
        HiddenFiles::new(patterns.collect(), self.places.clone())
    }

    /// Returns the files that deny rules hide from all tools that read.
    pub fn hidden(&self) -> HiddenFiles {
        let rules = self
            .deny
            .iter()
            .filter(|rule| rule.is_about_reading("read"));
        let patterns = rules.filter_map(|rule| rule.content.clone());
        HiddenFiles::new(patterns.collect(), self.places.clone())
    }

    /// Returns the files that deny rules keep from all tools that write.
    pub fn unwritable(&self) -> HiddenFiles {
        let rules = self.deny.iter().filter(|rule| rule.is_write_rule());
        let patterns = rules.filter_map(|rule| rule.content.clone());
        HiddenFiles::new(patterns.collect(), self.places.clone())
    }

    /// Returns what deny rules keep from the commands that the tool with this name runs.
    pub fn denied_to(&self, tool: &str) -> Denied {
        let reading = self.deny.iter().filter(|rule| rule.is_read_rule());
        let patterns = reading.filter_map(|rule| rule.content.clone());
        // What a tool's own program starts is a command like others.
        let of_tool = { self.deny.iter() }.filter(|rule| rule.names(tool) || rule.names(COMMANDS));
        Denied {
            reading: HiddenFiles::new(patterns.collect(), self.places.clone()),
            editing: self.unwritable(),
            programs: of_tool.filter_map(Rule::program).collect(),
        }
    }

    /// Returns the working directories.
    pub fn roots(&self) -> Vec<PathBuf> {
        let cwd = [&self.places.cwd].into_iter();
        cwd.chain(&self.directories).cloned().collect()
    }

    /// Whether `path` lies in a working directory.
    pub fn is_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.places.cwd)
            || self
                .directories
                .iter()
                .any(|folder| path.starts_with(folder))
    }

    /// Returns why the mode refuses the call regardless of allow rules.
    fn refusal(&self, call: &ToolUse, accesses: &[Access]) -> Option<String> {
        let is_refused = match self.mode {
            PermissionMode::Plan => !accesses.iter().all(is_reading),
            PermissionMode::Delegate => !self.is_of_mode(call),
            PermissionMode::Default
            | PermissionMode::Sandboxed
            | PermissionMode::AcceptEdits
            | PermissionMode::DontAsk
            | PermissionMode::BypassPermissions => false,
        };
        is_refused.then(|| {
            format!(
                "Permission to use {} was denied: mode `{}` does not allow this call.",
                call.name,
                self.mode.as_str()
            )
        })
    }

    /// Whether the call hands on work in mode `delegate`.
    fn is_of_mode(&self, call: &ToolUse) -> bool {
        let hands_on = || Rule {
            tool: "Agent".to_owned(),
            content: None,
            kept: None,
        };
        self.mode == PermissionMode::Delegate && hands_on().names(&call.name)
    }

    /// Whether the mode allows writing this file.
    fn may_edit(&self, path: &Path) -> bool {
        self.mode == PermissionMode::AcceptEdits && self.is_inside(path) && !is_protected(path)
    }

    fn inquire(&self, call: &ToolUse, accesses: &[Access], reason: Option<String>) -> Decision {
        if self.mode == PermissionMode::DontAsk {
            let why =
                reason.unwrap_or_else(|| "mode `dontAsk` does not allow this call".to_owned());
            return Decision::Deny(format!(
                "Permission to use {} was denied: {why}, and nobody can be asked.",
                call.name
            ));
        }
        Decision::Ask(Inquiry {
            suggestions: match &reason {
                // An ask rule would ask again.
                Some(_) => Vec::new(),
                None => self.suggestions(call, accesses),
            },
            path: accesses.iter().find_map(written),
            change: Vec::new(),
            outside: self.first_outside(call, accesses),
            reason,
            interaction: None,
            after_plan: self.before_plan,
        })
    }

    /// Decides about a call that needs user input: neither rules nor modes can answer for the user.
    fn ask_person(&self, call: &ToolUse, interaction: &Interaction) -> Decision {
        let is_planning = self.mode == PermissionMode::Plan;
        let error = match interaction {
            Interaction::Plan(_) if !is_planning => {
                "mode `plan` is not active, so there is no plan to approve"
            }
            Interaction::ToPlan if is_planning => "mode `plan` is already active",
            _ if self.mode == PermissionMode::DontAsk => "in mode `dontAsk` nobody is asked",
            Interaction::Choices(_) | Interaction::Plan(_) | Interaction::ToPlan => {
                return Decision::Ask(Inquiry {
                    interaction: Some(interaction.clone()),
                    after_plan: self.before_plan,
                    ..Inquiry::default()
                });
            }
        };
        Decision::Deny(format!("{} cannot run: {error}.", call.name))
    }

    /// Returns updates that would avoid the question about this call in future.
    fn suggestions(&self, call: &ToolUse, accesses: &[Access]) -> Vec<PermissionUpdate> {
        let mut rules = Vec::new();
        let mut is_editing = true;
        let redirects =
            |access: &Access| matches!(access, Access::Write(_)) && !self.allows(call, access);
        let has_redirection = accesses.iter().any(redirects);
        let refused =
            |access: &&Access| !access.is_for_writing(accesses) && !self.allows(call, access);
        for access in accesses.iter().filter(refused) {
            match access {
                Access::Command(line) if has_redirection => {
                    is_editing = false;
                    rules.push(Some(Rule::exact(&call.name, &line.line)));
                }
                Access::Write(_) if is_of_command(accesses) => {}
                Access::Write(path) if is_protected(path) => {
                    is_editing = false;
                    rules.push(format!("Edit(//{})", shown(path)).parse().ok());
                }
                Access::Write(_) => {}
                Access::Command(line) => {
                    is_editing &= is_file_work(line);
                    rules.extend(self.line_rules(call, line).into_iter().map(Some));
                }
                Access::Host(host) => {
                    is_editing = false;
                    rules.push(format!("{}(domain:{host})", call.name).parse().ok());
                }
                Access::Read(_) => is_editing = false,
                Access::Named(_)
                | Access::Ask(_)
                | Access::Promised
                | Access::Unknown
                | Access::Confined { .. } => {
                    is_editing = false;
                    rules.push(call.name.parse().ok());
                }
            }
        }
        let rules: Vec<RuleValue> = rules.iter().flatten().map(RuleValue::from).collect();
        let mut suggestions = Vec::new();
        if !rules.is_empty() {
            suggestions.push(PermissionUpdate::AddRules {
                rules,
                behavior: Behavior::Allow,
                destination: Destination::LocalSettings,
            });
        }
        suggestions.extend(self.reading_rules(call, accesses));
        if is_editing && accesses.iter().any(|access| written(access).is_some()) {
            let files = accesses.iter().flat_map(files_of);
            // SDK hosts expect the folders of a command's files, even if they are working directories already.
            let is_named = |path: &PathBuf| is_of_command(accesses) || !self.is_inside(path);
            let mut folders: Vec<PathBuf> = files
                .filter(is_named)
                .filter_map(|path| path.parent().map(Path::to_owned))
                .collect();
            folders.dedup();
            if !folders.is_empty() {
                suggestions.push(PermissionUpdate::AddDirectories {
                    directories: folders,
                    destination: Destination::Session,
                });
            }
            if self.mode != PermissionMode::AcceptEdits {
                suggestions.push(PermissionUpdate::SetMode {
                    mode: PermissionMode::AcceptEdits,
                    destination: Destination::Session,
                });
            }
        }
        suggestions
    }

    /// Returns a rule for each command of the line that is not allowed yet, or for the whole line if it was not
    /// understood.
    fn line_rules(&self, call: &ToolUse, line: &CommandLine) -> Vec<Rule> {
        let exact = || vec![Rule::exact(&call.name, &line.line)];
        let Some(commands) = &line.commands else {
            return exact();
        };
        let uncovered = commands
            .iter()
            .filter(|command| !self.allows_command(call, command));
        let rule = |command: &SimpleCommand| Rule {
            tool: call.name.clone(),
            content: Some(command.proposal.clone()),
            kept: None,
        };
        let rules: Vec<Rule> = uncovered.map(rule).collect();
        // A suggestion must allow the call.
        let enough = Self {
            allow: self.allow.iter().chain(&rules).cloned().collect(),
            ..self.clone()
        };
        if enough.allows_line(call, line) {
            rules
        } else {
            exact()
        }
    }
}

/// Whether a file steers other programs, so that no mode lets a model write it without asking.
fn is_protected(path: &Path) -> bool {
    steered_by(path).is_some()
}

/// Whether an access changes nothing; asking the user counts as reading.
fn is_reading(access: &Access) -> bool {
    match access {
        Access::Ask(_) => true,
        Access::Command(line) => {
            let changes_nothing = |commands: &Vec<SimpleCommand>| commands.iter().all(is_harmless);
            line.harmless || line.commands.as_ref().is_some_and(changes_nothing)
        }
        Access::Read(_)
        | Access::Named(_)
        | Access::Write(_)
        | Access::Host(_)
        | Access::Promised
        | Access::Unknown
        | Access::Confined { .. } => access.is_read_only(),
    }
}

fn is_harmless(command: &SimpleCommand) -> bool {
    command.effect == Effect::None && command.inner.iter().all(is_harmless)
}

/// Whether a line only creates, copies and moves files.
fn is_file_work(line: &CommandLine) -> bool {
    let is_of_files =
        |command: &SimpleCommand| command.effect != Effect::Any && command.inner.is_empty();
    let commands = line.commands.as_ref();
    commands.is_some_and(|commands| commands.iter().all(is_of_files))
}

fn is_of_command(accesses: &[Access]) -> bool {
    accesses
        .iter()
        .any(|access| matches!(access, Access::Command(_)))
}

/// Returns the files that an access would write.
fn files_of(access: &Access) -> Vec<PathBuf> {
    match access {
        Access::Write(path) => vec![path.clone()],
        Access::Command(line) => {
            let commands = line.commands.iter().flatten();
            let of_files = commands.filter(|command| command.effect == Effect::Files);
            of_files
                .flat_map(|command| command.operands.clone())
                .collect()
        }
        Access::Read(_)
        | Access::Named(_)
        | Access::Host(_)
        | Access::Ask(_)
        | Access::Promised
        | Access::Unknown
        | Access::Confined { .. } => Vec::new(),
    }
}

fn written(access: &Access) -> Option<PathBuf> {
    files_of(access).into_iter().next()
}

/// Returns an absolute path as rules write it.
fn shown(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
