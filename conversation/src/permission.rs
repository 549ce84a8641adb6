//! Whether a tool call may happen.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Access, ToolUse};

/// What is allowed where no rule says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Reading is allowed; the rest is asked.
    #[default]
    Default,
    /// Reading and writing files is allowed; the rest is asked.
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

/// A tool, or some of its calls: `Bash`, `Bash(git status:*)`, `mcp__server__*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The tool's name, any case; a `*` at its end stands for any ending.
    pub tool: String,
    /// Which calls: the command or path, with `*` for anything and a last `:*` for any further words; `None`: all.
    pub content: Option<String>,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rule: expected `Tool` or `Tool(content)`")]
pub struct RuleError(String);

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let (tool, content) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(content) => (
                    tool,
                    Some(content).filter(|content| !content.is_empty() && *content != "*"),
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
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            None => f.write_str(&self.tool),
            Some(content) => write!(f, "{}({content})", self.tool),
        }
    }
}

impl Rule {
    /// Whether the rule speaks of every call of the tool `name`.
    pub fn covers_tool(&self, name: &str) -> bool {
        self.content.is_none() && self.names(name)
    }

    fn names(&self, name: &str) -> bool {
        match self.tool.strip_suffix('*') {
            Some(start) => {
                name.len() >= start.len()
                    && name.as_bytes()[..start.len()].eq_ignore_ascii_case(start.as_bytes())
            }
            None => self.tool.eq_ignore_ascii_case(name),
        }
    }

    fn matches(&self, call: &ToolUse, accesses: &[Access]) -> bool {
        let Some(content) = &self.content else {
            return self.names(&call.name);
        };
        self.names(&call.name)
            && !accesses.is_empty()
            && accesses.iter().all(|access| match access {
                Access::Command { line, .. } => matches_command(content, line),
                Access::Read(path) | Access::Write(path) => {
                    wildcard(content, &path.to_string_lossy())
                }
                Access::Host(host) => content
                    .strip_prefix("domain:")
                    .is_some_and(|domain| wildcard(domain, host)),
                Access::Ask | Access::Unknown => false,
            })
    }
}

/// Until compound commands are taken apart by a parser, a rule matches a command only where nothing in it could
/// start a second one.
fn matches_command(pattern: &str, line: &str) -> bool {
    let could_start_another = |c: char| {
        matches!(
            c,
            ';' | '&' | '|' | '`' | '$' | '<' | '>' | '(' | ')' | '\n'
        )
    };
    if pattern == line {
        return true;
    }
    if line.contains(could_start_another) {
        return false;
    }
    match pattern.strip_suffix(":*") {
        Some(start) => line
            .strip_prefix(start)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        None => wildcard(pattern, line),
    }
}

fn wildcard(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => match text.strip_prefix(start) {
            None => false,
            Some(text) => (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| wildcard(rest, &text[at..])),
        },
    }
}

/// What a session allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Where no rule says otherwise.
    pub mode: PermissionMode,
    /// Calls that are allowed.
    pub allow: Vec<Rule>,
    /// Calls that are denied, whatever else says.
    pub deny: Vec<Rule>,
}

/// Whether a call may happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not; the text tells the model why.
    Deny(String),
}

impl Permissions {
    /// Decides about one call that touches `accesses`. An explicit deny comes before everything, and what only
    /// reads is allowed everywhere but in `delegate`.
    pub fn decide(&self, call: &ToolUse, accesses: &[Access]) -> Decision {
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches(call, accesses)) {
            return Decision::Deny(format!(
                "Permission to use {} was denied by the rule `{rule}`.",
                call.name
            ));
        }
        if self.mode == PermissionMode::BypassPermissions
            || self.allow.iter().any(|rule| rule.matches(call, accesses))
        {
            return Decision::Allow;
        }
        let reads = accesses.iter().all(Access::is_read_only);
        let edits = !accesses.is_empty()
            && accesses
                .iter()
                .all(|access| matches!(access, Access::Read(_) | Access::Write(_)));
        let allowed = match self.mode {
            PermissionMode::BypassPermissions => true,
            PermissionMode::Default | PermissionMode::DontAsk | PermissionMode::Plan => reads,
            PermissionMode::AcceptEdits => reads || edits,
            PermissionMode::Delegate => false,
        };
        if allowed {
            Decision::Allow
        } else {
            Decision::Deny(format!(
                "Permission to use {} was denied: mode `{}` does not allow this call, and nobody can be asked.",
                call.name,
                self.mode.as_str()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Input;

    fn call(name: &str) -> ToolUse {
        ToolUse {
            id: "t".into(),
            name: name.into(),
            input: Input::default(),
        }
    }

    fn command(line: &str) -> Vec<Access> {
        vec![Access::Command {
            line: line.into(),
            harmless: false,
        }]
    }

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts
            .iter()
            .map(|text| text.parse().expect("a rule"))
            .collect()
    }

    #[test]
    fn modes_decide_what_no_rule_names() {
        use PermissionMode::{AcceptEdits, BypassPermissions, Default, Delegate, DontAsk, Plan};
        let read = vec![Access::Read(PathBuf::from("/w/a"))];
        let write = vec![Access::Write(PathBuf::from("/w/a"))];
        for (mode, reads, writes, runs) in [
            (Default, true, false, false),
            (AcceptEdits, true, true, false),
            (Plan, true, false, false),
            (DontAsk, true, false, false),
            (Delegate, false, false, false),
            (BypassPermissions, true, true, true),
        ] {
            let permissions = Permissions {
                mode,
                ..Permissions::default()
            };
            let allows =
                |accesses: &[Access]| permissions.decide(&call("x"), accesses) == Decision::Allow;
            assert_eq!(
                (allows(&read), allows(&write), allows(&command("make"))),
                (reads, writes, runs),
                "{mode:?}"
            );
        }
    }

    #[test]
    fn rules_match_what_they_say_and_no_more() {
        for (rule, line, matches) in [
            ("Bash", "anything; at all", true),
            ("bash(git status)", "git status", true),
            ("Bash(git status)", "git status -s", false),
            ("Bash(git:*)", "git push --force", true),
            ("Bash(git:*)", "gitk", false),
            ("Bash(git:*)", "git status; rm -rf x", false),
            ("Bash(git:*)", "git log $(rm x)", false),
            ("Bash(npm run *)", "npm run test", true),
            ("Bash(npm run *)", "npm run test && rm x", false),
            ("Read", "ls", false),
        ] {
            let permissions = Permissions {
                allow: rules(&[rule]),
                ..Permissions::default()
            };
            let allowed = permissions.decide(&call("bash"), &command(line)) == Decision::Allow;
            assert_eq!(allowed, matches, "{rule} for {line}");
        }
    }

    #[test]
    fn an_explicit_deny_beats_every_permission() {
        let permissions = Permissions {
            mode: PermissionMode::BypassPermissions,
            allow: rules(&["Bash"]),
            deny: rules(&["Bash(rm:*)"]),
        };
        assert!(matches!(
            permissions.decide(&call("Bash"), &command("rm -rf x")),
            Decision::Deny(_)
        ));
        assert_eq!(
            permissions.decide(&call("Bash"), &command("ls")),
            Decision::Allow
        );
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in ["", "Bash(", "(x)", "a b", "Bash)"] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
