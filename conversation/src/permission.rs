//! Whether a tool call may happen: a function of the rules, the mode and what the call would touch.
//!
//! What is asked is asked elsewhere; what an answer changes of the rules is an [`PermissionUpdate`] that is applied
//! here.

mod mode;
mod pattern;
mod protected;
mod rule;
mod update;

use std::path::{Path, PathBuf};

pub use mode::PermissionMode;
pub use protected::is_protected;
use rule::Match;
pub(crate) use rule::canonical as canonical_tool;
pub use rule::{Rule, RuleError, is_same_tool};
pub use update::{Behavior, Destination, PermissionUpdate, RuleValue};

use crate::{Access, CommandLine, Effect, Interaction, SimpleCommand, ToolUse};

/// What a session allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Where no rule says otherwise.
    pub mode: PermissionMode,
    /// Whether commands and files are confined by more than rules, so that only what leaves the machine is asked about.
    pub confined: bool,
    /// Hosts that what is confined may reach; they need no question.
    pub hosts: Vec<String>,
    /// Whether the user has agreed to a mode that allows everything, so that a host may choose it later.
    pub may_bypass: bool,
    /// Calls that are allowed.
    pub allow: Vec<Rule>,
    /// Calls that are asked about, whatever else allows them.
    pub ask: Vec<Rule>,
    /// Calls that are denied, whatever else says.
    pub deny: Vec<Rule>,
    /// Working directories besides the first.
    pub directories: Vec<PathBuf>,
    /// Where the patterns of rules begin.
    pub places: PatternRoots,
    /// The mode that held before mode `plan`, and holds again once a plan is approved.
    pub before_plan: PermissionMode,
}

/// Where the patterns of rules begin. Paths are without symbolic links, as those of the calls are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatternRoots {
    /// The working directory.
    pub cwd: PathBuf,
    /// The top of the project.
    pub project: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
}

/// Whether a call may happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not; the text tells the model why.
    Deny(String),
    /// A person is to say.
    Ask(Inquiry),
}

/// What a person is to be asked of a call, and what else their answer could settle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// Why it is asked, where it is more than that nothing allows it.
    pub reason: Option<String>,
    /// Changes that would keep the question from coming again, the most fitting one first.
    pub suggestions: Vec<PermissionUpdate>,
    /// The file that would be written.
    pub path: Option<PathBuf>,
    /// What the call wants of the person, where it is more than to be allowed: whoever allows it answers this too.
    pub interaction: Option<Interaction>,
}

impl Permissions {
    /// Decides about one call that touches `accesses`. What is denied comes before everything, then what is to be
    /// asked; what may fall under such a rule, as far as one can tell, is never allowed unasked.
    pub fn decide(&self, call: &ToolUse, accesses: &[Access]) -> Decision {
        let concerns = |rule: &Rule| rule.concerns(call, accesses, &self.places);
        if let Some(rule) = self.deny.iter().find(|rule| concerns(rule) == Match::Yes) {
            return Decision::Deny(format!(
                "Permission to use {} was denied by the rule `{rule}`.",
                call.name
            ));
        }
        if let Some(text) = self.refusal(call, accesses) {
            return Decision::Deny(text);
        }
        if let Some(interaction) = accesses.iter().find_map(Access::interaction) {
            return self.ask_person(call, interaction);
        }
        if let Some(rule) = self.ask.iter().find(|rule| concerns(rule) == Match::Yes) {
            return self.inquire(call, accesses, Some(format!("the rule `{rule}` asks")));
        }
        // Whoever has allowed just this line has seen all of it, redirections too.
        let is_exactly_allowed = accesses.iter().any(|access| {
            let mut rules = self.allow.iter().filter(|rule| rule.content.is_some());
            matches!(access, Access::Command(_))
                && rules.any(|rule| rule.allows(call, access, &self.places))
        });
        if is_exactly_allowed {
            return Decision::Allow;
        }
        let doubtful = self.deny.iter().chain(&self.ask);
        if let Some(rule) = { doubtful }.find(|rule| concerns(rule) == Match::Maybe) {
            let reason = format!("whether the rule `{rule}` speaks of it cannot be told");
            return self.inquire(call, accesses, Some(reason));
        }
        if self.mode == PermissionMode::BypassPermissions
            || self.is_of_mode(call)
            || accesses.iter().all(|access| self.allows(call, access))
        {
            return Decision::Allow;
        }
        self.inquire(call, accesses, None)
    }

    /// The working directories.
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

    /// Why the mode refuses the call, whatever rules allow.
    fn refusal(&self, call: &ToolUse, accesses: &[Access]) -> Option<String> {
        let is_refused = match self.mode {
            PermissionMode::Plan => !accesses.iter().all(is_reading),
            PermissionMode::Delegate => !self.is_of_mode(call),
            PermissionMode::Default
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

    /// Whether the call is what its mode is there for.
    fn is_of_mode(&self, call: &ToolUse) -> bool {
        let hands_on = || Rule {
            tool: "Agent".to_owned(),
            content: None,
            kept: None,
        };
        self.mode == PermissionMode::Delegate && hands_on().names(&call.name)
    }

    fn allows(&self, call: &ToolUse, access: &Access) -> bool {
        let by_rule = || {
            let mut rules = self.allow.iter();
            rules.any(|rule| rule.allows(call, access, &self.places))
        };
        match access {
            Access::Read(_) | Access::Named(_) | Access::Ask(_) => true,
            // What may be written there is not for rules to say.
            Access::Write(_) | Access::Command(_) | Access::Promised | Access::Unknown
                if self.confined =>
            {
                true
            }
            Access::Write(path) if is_protected(path) => self
                .allow
                .iter()
                .any(|rule| rule.content.is_some() && rule.allows(call, access, &self.places)),
            Access::Write(path) => self.may_edit(path) || by_rule(),
            Access::Command(line) => self.allows_line(call, line) || by_rule(),
            Access::Host(host) if self.hosts.contains(host) => true,
            Access::Host(_) | Access::Promised | Access::Unknown => by_rule(),
        }
    }

    fn allows_line(&self, call: &ToolUse, line: &CommandLine) -> bool {
        let is_each_allowed = |commands: &Vec<SimpleCommand>| {
            let mut commands = commands.iter();
            commands.all(|command| self.allows_command(call, command))
        };
        line.harmless || line.commands.as_ref().is_some_and(is_each_allowed)
    }

    fn allows_command(&self, call: &ToolUse, command: &SimpleCommand) -> bool {
        let are_inner_allowed = || {
            let mut inner = command.inner.iter();
            inner.all(|command| self.allows_command(call, command))
        };
        let is_of_mode = match command.effect {
            Effect::None => true,
            Effect::Files => command.operands.iter().all(|path| self.may_edit(path)),
            Effect::Any => false,
        };
        // A rule that names a program which starts another one speaks of that one only where it names it too.
        let by_rule = self.allow.iter().any(|rule| {
            rule.covers(call, command).is_some_and(|certain| {
                command.inner.is_empty() || certain >= command.reach || are_inner_allowed()
            })
        });
        by_rule
            || (is_of_mode && are_inner_allowed())
            || (command.transparent && !command.inner.is_empty() && are_inner_allowed())
    }

    /// Whether the mode lets this file be written.
    fn may_edit(&self, path: &Path) -> bool {
        self.mode == PermissionMode::AcceptEdits && self.is_inside(path) && !is_protected(path)
    }

    fn inquire(&self, call: &ToolUse, accesses: &[Access], reason: Option<String>) -> Decision {
        if self.mode == PermissionMode::DontAsk {
            let why = match reason {
                None => "mode `dontAsk` does not allow this call".to_owned(),
                Some(reason) => reason,
            };
            return Decision::Deny(format!(
                "Permission to use {} was denied: {why}, and nobody is asked.",
                call.name
            ));
        }
        Decision::Ask(Inquiry {
            suggestions: match &reason {
                // A rule that asks would ask again.
                Some(_) => Vec::new(),
                None => self.suggestions(call, accesses),
            },
            path: accesses.iter().find_map(written),
            reason,
            interaction: None,
        })
    }

    /// What becomes of a call that wants an answer: no rule and no mode can give it in a person's place.
    fn ask_person(&self, call: &ToolUse, interaction: &Interaction) -> Decision {
        let is_planning = self.mode == PermissionMode::Plan;
        let fault = match interaction {
            Interaction::Plan(_) if !is_planning => {
                "mode `plan` is over, so there is nothing to leave"
            }
            Interaction::ToPlan if is_planning => "mode `plan` holds already",
            _ if self.mode == PermissionMode::DontAsk => "in mode `dontAsk` nobody is asked",
            Interaction::Choices(_) | Interaction::Plan(_) | Interaction::ToPlan => {
                return Decision::Ask(Inquiry {
                    interaction: Some(interaction.clone()),
                    ..Inquiry::default()
                });
            }
        };
        Decision::Deny(format!("{} does not run: {fault}.", call.name))
    }

    /// What would keep the question about the call from coming again.
    fn suggestions(&self, call: &ToolUse, accesses: &[Access]) -> Vec<PermissionUpdate> {
        let mut rules = Vec::new();
        let mut is_editing = true;
        let redirects =
            |access: &Access| matches!(access, Access::Write(_)) && !self.allows(call, access);
        let has_redirection = accesses.iter().any(redirects);
        for access in accesses.iter().filter(|access| !self.allows(call, access)) {
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
                Access::Read(_)
                | Access::Named(_)
                | Access::Ask(_)
                | Access::Promised
                | Access::Unknown => {
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
        if is_editing {
            let files = accesses.iter().flat_map(files_of);
            // Hosts are used to the folders of a command's files, also where they are working directories already.
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

    /// A rule for each command of the line that nothing allows; for the line itself where it was not understood.
    fn line_rules(&self, call: &ToolUse, line: &CommandLine) -> Vec<Rule> {
        let exact = || vec![Rule::exact(&call.name, &line.line)];
        let Some(commands) = &line.commands else {
            return exact();
        };
        let asked = commands
            .iter()
            .filter(|command| !self.allows_command(call, command));
        let rule = |command: &SimpleCommand| Rule {
            tool: call.name.clone(),
            content: Some(command.proposal.clone()),
            kept: None,
        };
        let rules: Vec<Rule> = asked.map(rule).collect();
        // What is proposed must do what it says.
        let enough = Self {
            allow: self.allow.iter().chain(&rules).cloned().collect(),
            ..self.clone()
        };
        match enough.allows_line(call, line) {
            true => rules,
            false => exact(),
        }
    }
}

/// Whether an access leaves everything as it is; asking the person does.
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
        | Access::Unknown => access.is_read_only(),
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

/// The files that an access would write.
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
        | Access::Unknown => Vec::new(),
    }
}

fn written(access: &Access) -> Option<PathBuf> {
    files_of(access).into_iter().next()
}

/// A path as a rule names it, from the root on.
fn shown(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
