//! A permission rule, and the calls that it matches.
//!
//! An allow rule must be sure to cover everything; a deny rule must not be evaded. So they match differently: the
//! former the text as written, the latter what will run, however it is written.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::overlap::may_match;
use super::pattern::{behind_links, escape, fixed_length, is_exact, names_path, wildcard};
use super::{Destination, PatternRoots, RuleValue};
use crate::{Access, CommandLine, SimpleCommand, ToolName, ToolUse};

/// Tool names in rules that stand for writing files with any tool.
const WRITING: [&str; 4] = ["Edit", "Write", "MultiEdit", "NotebookEdit"];
/// Arguments that select a kind of the tool: a subagent's type, a skill's name.
const TOPICS: [&str; 2] = ["subagent_type", "skill"];
/// Alternative tool names: from older rules and conversations, and of the native interface.
const ALIASES: [(&str, &str); 11] = [
    ("Task", "Agent"),
    ("FileRead", "Read"),
    ("FileWrite", "Write"),
    ("FileEdit", "Edit"),
    ("Todo", "TodoWrite"),
    ("BashOutput", "TaskOutput"),
    ("AgentOutput", "TaskOutput"),
    ("KillShell", "TaskStop"),
    ("KillBash", "TaskStop"),
    ("ListMcpResourcesTool", "ListMcpResources"),
    ("ReadMcpResourceTool", "ReadMcpResource"),
];

/// A tool, or some of its calls: `Bash`, `Bash(git status:*)`, `Edit(src/**)`, `mcp__server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Tool name in any case; a `*` at its end matches any ending.
    pub tool: String,
    /// Command or path, with `*` for anything and a last `:*` for any further words; `None` matches all calls.
    pub content: Option<String>,
    /// Settings in which the rule is stored; updates replace and remove rules only there.
    pub kept: Option<Destination>,
}

/// Syntax error in a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rule: expected `Tool` or `Tool(content)`")]
pub struct RuleError(String);

/// Result of matching a deny or ask rule against a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// The result depends on values known only at run time.
    Maybe,
    Yes,
}

impl RuleValue {
    /// Parses the rule, stored in `kept`; `None` if it is not valid.
    pub(super) fn rule(&self, kept: Destination) -> Option<Rule> {
        let content = self.rule_content.as_deref();
        let rule: Rule = match content.filter(|content| !content.is_empty()) {
            None => self.tool_name.parse(),
            Some(content) => format!("{}({content})", self.tool_name).parse(),
        }
        .ok()?;
        Some(rule.kept_in(kept))
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

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let (tool, content) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(content) => (
                    tool,
                    Some(content).filter(|content| !matches!(*content, "" | "*" | ":*")),
                ),
                None => return Err(RuleError(text.to_owned())),
            },
        };
        if tool.is_empty() || tool.contains(|c: char| c.is_whitespace() || c == ')') {
            return Err(RuleError(text.to_owned()));
        }
        Ok(Self {
            tool: tool.to_owned(),
            content: content.map(str::to_owned),
            kept: None,
        })
    }
}

impl Rule {
    /// Whether both match the same calls, however and wherever they are written.
    pub fn says_the_same(&self, other: &Self) -> bool {
        canonical(&self.tool) == canonical(&other.tool) && self.content == other.content
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RuleValue::from(self).fmt(f)
    }
}

impl Rule {
    /// Returns the rule for exactly the command `line` of `tool`.
    pub(super) fn exact(tool: &str, line: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            content: Some(escape(line)),
            kept: None,
        }
    }

    /// Returns the same rule, stored in `destination`.
    #[must_use]
    pub fn kept_in(self, destination: Destination) -> Self {
        let kept = Some(destination);
        Self { kept, ..self }
    }

    /// Returns the same file rule with the symbolic links in its path resolved by `real`; `None` if there are none.
    pub fn behind_links(
        &self,
        places: &PatternRoots,
        real: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Option<Self> {
        let content = self.content.as_ref()?;
        if !self.is_read_rule() && !self.is_write_rule() {
            return None;
        }
        Some(Self {
            content: Some(behind_links(content, places, real)?),
            ..self.clone()
        })
    }

    /// Whether the rule covers every call of the tool `name`.
    pub fn covers_tool(&self, name: &str) -> bool {
        self.content.is_none() && self.names(name)
    }

    /// Whether the rule is about the tool `name`, under any of the tool's names.
    pub(super) fn names(&self, name: &str) -> bool {
        let (wanted, name) = (canonical(&self.tool), canonical(name));
        match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            // A server's name stands for all its tools.
            None if ToolName(&wanted).is_server() => {
                let rest = name.strip_prefix(&wanted);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("__"))
            }
            None => wanted == name,
        }
    }

    /// Returns the program that the rule stands for, with whatever arguments.
    pub(super) fn program(&self) -> Option<String> {
        const SPECIAL: [char; 10] = [' ', '*', '=', '$', '`', '\'', '"', ';', '|', '&'];
        let start = prefix(self.content.as_ref()?)?;
        let is_word = !start.is_empty() && !start.contains(SPECIAL);
        is_word.then(|| start.to_owned())
    }

    /// Whether the content is a path to read; `false` for a path to write.
    pub(super) fn is_read_rule(&self) -> bool {
        canonical(&self.tool) == canonical("Read")
    }

    /// Whether the content is a path that calls of the tool `name` may read.
    pub(super) fn is_about_reading(&self, name: &str) -> bool {
        self.is_read_rule() || self.names(name)
    }

    /// Whether the content is a path to write.
    pub(super) fn is_write_rule(&self) -> bool {
        WRITING
            .iter()
            .any(|word| canonical(word) == canonical(&self.tool))
    }

    /// Whether the rule allows this access of the call. Each part of a command line must be allowed by itself; see
    /// [`covers`](Self::covers).
    pub(super) fn allows(&self, call: &ToolUse, access: &Access, places: &PatternRoots) -> bool {
        let Some(content) = &self.content else {
            return self.names(&call.name);
        };
        match access {
            Access::Read(path) => {
                (self.is_read_rule() || self.names(&call.name)) && names_path(content, path, places)
            }
            Access::Write(path) => {
                (self.is_write_rule() || self.names(&call.name))
                    && names_path(content, path, places)
            }
            Access::Host(host) => self.names(&call.name) && names_host(content, host),
            Access::Command(line) => self.names(&call.name) && wildcard_exact(content, &line.line),
            Access::Promised | Access::Unknown | Access::Confined { .. } => {
                self.names(&call.name) && names_topic(content, call)
            }
            Access::Ask(_) | Access::Named(_) => false,
        }
    }

    /// Whether the rule matches the call, or might.
    pub fn may_concern(&self, call: &ToolUse, accesses: &[Access], places: &PatternRoots) -> bool {
        self.concerns(call, accesses, places) > Match::No
    }

    /// Returns how many bytes of the command's text match literally if the rule covers it; `None` if it does not.
    pub(super) fn covers(&self, call: &ToolUse, command: &SimpleCommand) -> Option<usize> {
        if !self.names(&call.name) {
            return None;
        }
        let Some(content) = &self.content else {
            return Some(usize::MAX);
        };
        let covered = |text: &str| match prefix(content) {
            Some(start) => {
                let rest = text.strip_prefix(start)?;
                (rest.is_empty() || rest.starts_with(' ')).then_some(start.len())
            }
            None if wildcard_exact(content, text) => Some(usize::MAX),
            None => wildcard(content, text).then(|| fixed_length(content)),
        };
        covered(&command.text).or_else(|| {
            let length = covered(&command.text[command.settings..])?;
            Some(length.saturating_add(command.settings))
        })
    }

    /// Whether the deny or ask rule matches the call.
    pub(super) fn concerns(
        &self,
        call: &ToolUse,
        accesses: &[Access],
        places: &PatternRoots,
    ) -> Match {
        let Some(content) = &self.content else {
            return if self.names(&call.name) {
                Match::Yes
            } else {
                Match::No
            };
        };
        let of_access = accesses.iter().map(|access| match access {
            Access::Command(line) => self.concerns_line(content, call, line, places),
            Access::Read(path) if self.is_read_rule() || self.names(&call.name) => {
                names_path(content, path, places).into()
            }
            Access::Write(path) if self.is_write_rule() || self.names(&call.name) => {
                names_path(content, path, places).into()
            }
            Access::Named(path)
                if self.is_read_rule() || self.is_write_rule() || self.names(&call.name) =>
            {
                names_path(content, path, places).into()
            }
            Access::Host(host) if self.names(&call.name) => names_host(content, host).into(),
            Access::Promised | Access::Unknown | Access::Confined { .. }
                if self.names(&call.name) =>
            {
                names_argument(content, call).into()
            }
            _ => Match::No,
        });
        of_access
            .max()
            .unwrap_or_else(|| (self.names(&call.name) && names_argument(content, call)).into())
    }

    fn concerns_line(
        &self,
        content: &str,
        call: &ToolUse,
        line: &CommandLine,
        places: &PatternRoots,
    ) -> Match {
        let is_of_command = self.names(&call.name);
        let is_of_path = self.is_read_rule() || self.is_write_rule();
        if !is_of_command && !is_of_path {
            return Match::No;
        }
        let Some(commands) = &line.commands else {
            return if is_of_command && wildcard(content, &line.line) {
                Match::Yes
            } else {
                Match::Maybe
            };
        };
        let each = commands.iter().map(|command| {
            if is_of_command {
                forbids(content, command)
            } else {
                self.names_operand(content, command, places)
            }
        });
        each.max().unwrap_or(Match::No)
    }

    /// Whether the path is among the files of the command, or of one that it starts.
    fn names_operand(
        &self,
        content: &str,
        command: &SimpleCommand,
        places: &PatternRoots,
    ) -> Match {
        let files = &command.files;
        let is_affected = if self.is_read_rule() {
            files.shows
        } else {
            files.changes
        };
        let may_touch =
            || is_affected && { files.patterns.iter() }.any(|it| may_match(content, it, places));
        let own = if { command.operands.iter() }.any(|path| names_path(content, path, places)) {
            Match::Yes
        } else if command.unknown_options || may_touch() {
            Match::Maybe
        } else {
            Match::No
        };
        let inner = command
            .inner
            .iter()
            .map(|command| self.names_operand(content, command, places));
        inner.max().unwrap_or(Match::No).max(own)
    }
}

impl From<bool> for Match {
    fn from(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}

/// Whether two names are those of one tool, in any case, under old and new names. Underscores are ignored except in
/// names of servers' tools.
pub fn is_same_tool(one: &str, other: &str) -> bool {
    canonical(one) == canonical(other)
}

/// Returns the canonical name of a tool.
pub(crate) fn canonical(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    if ToolName(&name).is_of_server() {
        return name;
    }
    let plain = name.replace('_', "");
    let same = ALIASES
        .iter()
        .find(|(alias, _)| alias.eq_ignore_ascii_case(&plain));
    same.map_or(plain, |(_, known)| known.to_ascii_lowercase())
}

/// Returns the words before a trailing `:*`, or before a trailing ` *` if it is the only star.
fn prefix(content: &str) -> Option<&str> {
    let start = content
        .strip_suffix(":*")
        .or_else(|| content.strip_suffix(" *"))?;
    (!start.contains(['*', '\\'])).then_some(start)
}

fn wildcard_exact(content: &str, text: &str) -> bool {
    prefix(content).is_none() && is_exact(content) && wildcard(content, text)
}

fn names_host(content: &str, host: &str) -> bool {
    let Some(domain) = content.strip_prefix("domain:") else {
        return false;
    };
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let plain = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    wildcard(&plain(domain), &plain(host))
}

/// Whether an argument of the call equals the content: a subagent's type, a skill's name.
fn names_argument(content: &str, call: &ToolUse) -> bool {
    let input = call.input.to_value();
    let arguments = input.as_object().into_iter().flatten();
    arguments
        .filter_map(|(_, value)| value.as_str())
        .any(|argument| wildcard(content, argument))
}

/// Whether the call is about exactly this kind of the tool.
fn names_topic(content: &str, call: &ToolUse) -> bool {
    let mut topics = TOPICS.iter().filter_map(|name| call.input.text(name));
    topics.any(|topic| is_exact(content) && wildcard(content, topic))
}

/// Whether a deny or ask content matches the command, or one that it starts.
fn forbids(content: &str, command: &SimpleCommand) -> Match {
    let inner = command
        .inner
        .iter()
        .map(|command| forbids(content, command));
    let own = match prefix(content) {
        Some(start) => begins(start, &command.words),
        None => is_like(content, command),
    };
    let may_start = command.may_start && mentions(content, command);
    let own = if own == Match::No && (may_start || command.unknown_options) {
        Match::Maybe
    } else {
        own
    };
    inner.max().unwrap_or(Match::No).max(own)
}

/// Whether the words begin with those of `start` as a program reads them: it may be called by its path, and options
/// may stand between a program and its subcommand.
fn begins(start: &str, words: &[Option<String>]) -> Match {
    let mut wanted = start.split_whitespace();
    let (Some(program), Some((first, arguments))) = (wanted.next(), words.split_first()) else {
        return Match::No;
    };
    match first {
        None => return Match::Maybe,
        Some(first) if !is_program(program, first) => return Match::No,
        Some(_) => {}
    }
    let mut result = Match::Yes;
    let mut rest = arguments;
    for word in wanted {
        if has_flags(word, arguments) {
            continue;
        }
        let mut is_after_option = false;
        loop {
            let Some((argument, behind)) = rest.split_first() else {
                // An unknown word may be the missing one.
                return if arguments.contains(&None) {
                    Match::Maybe
                } else {
                    Match::No
                };
            };
            rest = behind;
            match argument {
                None => {
                    result = Match::Maybe;
                    break;
                }
                Some(argument) if argument == word => break,
                Some(argument) if argument.starts_with('-') => is_after_option = true,
                Some(_) if is_after_option => is_after_option = false,
                Some(_) => return Match::No,
            }
        }
    }
    result
}

/// Whether an argument contains the program of a rule's content as a word of its own.
fn mentions(content: &str, command: &SimpleCommand) -> bool {
    let Some(program) = content.trim_end_matches(":*").split_whitespace().next() else {
        return false;
    };
    let is_of_word = |c: char| c.is_alphanumeric() || "_-./+".contains(c);
    let arguments = command.words.iter().skip(1).flatten();
    arguments
        .flat_map(|argument| argument.split(|c: char| !is_of_word(c)))
        .any(|word| is_program(program, word))
}

fn is_program(wanted: &str, program: &str) -> bool {
    let name = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str());
    wanted == program || (!wanted.contains('/') && name == Some(wanted))
}

/// Whether `word` is a group of short options that occur among the arguments, in any grouping and order.
fn has_flags(word: &str, arguments: &[Option<String>]) -> bool {
    let flags = |word: &str| -> Option<String> {
        let flags = word.strip_prefix('-')?;
        let is_group = !flags.is_empty() && flags.chars().all(|flag| flag.is_ascii_alphabetic());
        is_group.then(|| flags.to_owned())
    };
    let Some(wanted) = flags(word) else {
        return false;
    };
    let given: String = arguments
        .iter()
        .flatten()
        .filter_map(|argument| flags(argument))
        .collect();
    wanted.chars().all(|flag| given.contains(flag))
}

/// Whether the command matches `content` in any way of writing it.
fn is_like(content: &str, command: &SimpleCommand) -> Match {
    let known: Vec<&str> = command
        .words
        .iter()
        .map_while(|word| word.as_deref())
        .collect();
    let mut by_name = known.clone();
    if let Some(first) = by_name.first_mut() {
        *first = first.rsplit('/').next().unwrap_or_default();
    }
    let is_written = wildcard(content, &command.text)
        || wildcard(content, &known.join(" "))
        || wildcard(content, &by_name.join(" "));
    if is_written {
        return Match::Yes;
    }
    let program = content.split_whitespace().next().unwrap_or_default();
    let may_begin = by_name.first().is_none_or(|first| wildcard(program, first));
    if command.words.contains(&None) && may_begin {
        Match::Maybe
    } else {
        Match::No
    }
}
