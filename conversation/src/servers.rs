//! Port: MCP servers that offer tools and connect in their own time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use crate::{Tool, ToolName, neutralise, split_words};

/// Servers that offer tools. They connect in the background and may be slow, end and come back while a session runs:
/// only calls of their own tools and callers of [`ready`](Self::ready) wait for them.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Returns a number that grows whenever [`tools`](Self::tools) has changed.
    fn version(&self) -> u64;

    /// Waits until [`version`](Self::version) is another than this one. Dropping the future loses nothing.
    async fn changed(&self, version: u64);

    /// Returns the current tools, in an order that does not depend on which server was quicker.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Returns the beginnings of the names of tools that are no longer to be offered: a program has removed or disabled
    /// their servers.
    fn withdrawn(&self) -> Vec<String>;

    /// Returns the tool of this name, in any case, also while the server is still starting: its calls then wait for
    /// the server.
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>>;

    /// Returns the status of each server.
    fn status(&self) -> Vec<ServerStatus>;

    /// Waits until each server is connected or has failed, but for none longer than `patience` since it was started.
    /// So a hanging server delays only the first turn.
    async fn ready(&self, patience: Duration);

    /// Replaces the servers set by a program with `servers`, by name, each configured as in a file. Previously set
    /// servers that are missing are removed; others stay. An unchanged server stays connected; a changed one is
    /// replaced. Waits until each new server is connected or has failed.
    async fn set(&self, servers: BTreeMap<String, Value>) -> ServersChange;

    /// Restarts a server and waits until it is connected.
    ///
    /// # Errors
    ///
    /// If there is no such server, or it cannot be reached; the text says why.
    async fn reconnect(&self, name: &str) -> Result<(), String>;

    /// Shows the tools of a server to the model, or hides them; the connection stays.
    ///
    /// # Errors
    ///
    /// If there is no such server.
    fn toggle(&self, name: &str, enabled: bool) -> Result<(), String>;

    /// Returns the resources of a server, each with `server`, `uri` and `name`, and optionally `mimeType` and
    /// `description`; a template has `uriTemplate` instead of `uri`.
    ///
    /// # Errors
    ///
    /// If there is no such server, or it does not answer.
    async fn resources(&self, server: &str) -> Result<Vec<Value>, String>;

    /// Returns the contents of a resource, each with `uri`, with `text` or `blob` (in base64), and optionally
    /// `mimeType`.
    ///
    /// # Errors
    ///
    /// As for [`resources`](Self::resources), and if there is no such resource.
    async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<Value>, String>;

    /// Returns the prompts of the connected servers.
    fn prompts(&self) -> Vec<ServerPrompt>;

    /// Waits until the prompts of all connected servers are known, but not longer than `patience`.
    async fn prompts_known(&self, patience: Duration);

    /// Returns values that a server proposes for an argument, the best first; none if it does not answer.
    async fn complete(&self, wish: &Completion) -> Vec<String>;

    /// Returns the text of a prompt with these arguments.
    ///
    /// # Errors
    ///
    /// As for [`resources`](Self::resources), and if there is no such prompt.
    async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<String, String>;
}

/// An argument of a prompt that is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Name of the server.
    pub server: String,
    /// Name of the prompt.
    pub prompt: String,
    /// Name of the argument.
    pub argument: String,
    /// What was typed of its value.
    pub value: String,
    /// The arguments before it.
    pub before: BTreeMap<String, String>,
}

/// A prompt of a server. Its names are the server's own; other texts are short and free of control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    /// Name of the server.
    pub server: String,
    /// Name of the prompt.
    pub name: String,
    /// Description for lists.
    pub description: String,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Name.
    pub name: String,
    /// Description for lists.
    pub description: String,
    /// Whether the prompt needs it.
    pub is_required: bool,
}

impl ServerPrompt {
    /// Returns the name by which a user calls it after a slash, `server:prompt`; characters that such names do not have
    /// are `_`.
    pub fn command(&self) -> String {
        let plain = |name: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            name.replace(|c: char| !is_plain(c), "_")
        };
        format!("{}:{}", plain(&self.server), plain(&self.name))
    }

    /// Returns whether a user calls it by `name`: its command, or `mcp__SERVER__PROMPT` as hosts of the Agent SDK do.
    pub fn is_called(&self, name: &str) -> bool {
        let command = self.command();
        let other = command
            .split_once(':')
            .map(|(server, prompt)| ToolName::of_server(server) + prompt);
        name == command || other.as_deref() == Some(name)
    }

    /// Returns the argument that is typed at the end of `typed`, and its value so far; `None` if there is none, or if it
    /// is the rest of the last one.
    pub fn completion(&self, typed: &str) -> Option<Completion> {
        let begin = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = typed.split_at(begin);
        let words = split_words(before);
        let named = word.split_once('=');
        let named = named.and_then(|(name, value)| {
            let argument = self.arguments.iter().find(|it| it.name == name)?;
            Some((argument, value))
        });
        let is_named = |word: &str| {
            let name = word.split_once('=').map(|(name, _)| name);
            self.arguments.iter().any(|it| Some(&*it.name) == name)
        };
        let (argument, value) = match named {
            Some(named) => named,
            None => {
                let at = words.iter().filter(|word| !is_named(word)).count();
                (self.arguments.get(at)?, word)
            }
        };
        let mut known = BTreeMap::new();
        for (argument, word) in self
            .arguments
            .iter()
            .zip(words.iter().filter(|word| !is_named(word)))
        {
            known.insert(argument.name.clone(), word.clone());
        }
        let named = words.iter().filter(|word| is_named(word));
        for (name, value) in named.filter_map(|word| word.split_once('=')) {
            known.insert(name.to_owned(), value.to_owned());
        }
        known.remove(&argument.name);
        Some(Completion {
            server: self.server.clone(),
            prompt: self.name.clone(),
            argument: argument.name.clone(),
            value: value.to_owned(),
            before: known,
        })
    }

    /// Returns what was typed after its name as its arguments: `NAME=VALUE`, and the others in order. The last one takes
    /// all that is left.
    ///
    /// # Errors
    ///
    /// If a required one is missing; the text names all.
    pub fn read(&self, typed: &str) -> Result<BTreeMap<String, String>, String> {
        let mut values = BTreeMap::new();
        let mut words: VecDeque<String> = split_words(typed).into();
        let is_named = |word: &str, name: &str| {
            word.split_once('=')
                .is_some_and(|(before, _)| before == name)
        };
        for argument in &self.arguments {
            let at = words.iter().position(|word| is_named(word, &argument.name));
            if let Some((_, value)) = at
                .and_then(|at| words.remove(at))
                .as_deref()
                .and_then(|word| word.split_once('='))
            {
                values.insert(argument.name.clone(), value.to_owned());
            }
        }
        let mut open = { self.arguments.iter() }
            .filter(|it| !values.contains_key(&it.name))
            .collect::<VecDeque<_>>();
        while let Some(argument) = open.pop_front() {
            let value = match open.is_empty() {
                true => Vec::from_iter(words.drain(..)).join(" "),
                false => words.pop_front().unwrap_or_default(),
            };
            if !value.is_empty() {
                values.insert(argument.name.clone(), value);
            }
        }
        let is_missing = |it: &&PromptArgument| it.is_required && !values.contains_key(&it.name);
        if { self.arguments.iter() }.any(|it| is_missing(&it)) {
            return Err(format!("/{} needs: {}", self.command(), self.hint()));
        }
        Ok(values)
    }

    /// Returns its arguments for lists: `CITY [DAYS]`.
    pub fn hint(&self) -> String {
        let hints = self.arguments.iter().map(|it| match it.is_required {
            true => it.name.to_uppercase(),
            false => format!("[{}]", it.name.to_uppercase()),
        });
        neutralise(&hints.collect::<Vec<_>>().join(" ")).into_owned()
    }
}

/// Result of setting servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServersChange {
    /// Servers that were added or replaced.
    pub added: Vec<String>,
    /// Servers that were removed.
    pub removed: Vec<String>,
    /// Errors of servers that cannot be reached, by name.
    pub errors: BTreeMap<String, String>,
}

/// Status of a server. Texts from the server are short and free of control characters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerStatus {
    /// Name in the settings.
    pub name: String,
    /// Connection state.
    pub state: ServerState,
    /// Scope of the configuration.
    pub scope: ServerScope,
    /// Configuration as written: `type`, `command` and `args`, or `url`. Variables and headers are left out, as they
    /// may be secrets.
    pub config: Value,
    /// The server's own name and version.
    pub software: Option<Software>,
    /// Current or last connection error.
    pub error: Option<String>,
    /// Tools of the server.
    pub tools: Vec<ServerTool>,
    /// Unusable tools of the server, with the reason.
    pub left_out: Vec<String>,
}

/// Name and version that a server reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Software {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerTool {
    /// Name shown to the model.
    pub name: String,
    /// Name given by the server.
    pub own_name: String,
    /// Description of the tool.
    pub description: String,
    /// Server's hint: changes nothing.
    pub read_only: Option<bool>,
    /// Server's hint: may destroy something.
    pub destructive: Option<bool>,
    /// Server's hint: interacts with the outside world.
    pub open_world: Option<bool>,
}

/// Connection state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// Connecting or reconnecting.
    Pending,
    /// Connected.
    Connected,
    /// Authentication is missing or was rejected.
    NeedsAuth,
    /// Unreachable or ended.
    Failed,
    /// Its tools are hidden.
    Disabled,
}

impl ServerState {
    /// Returns the state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// Scope of a server's configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerScope {
    /// In the user's settings.
    User,
    /// In the project's files.
    Project,
    /// In the user's settings for this project.
    Local,
    /// On the command line, or set by a program while the session runs.
    #[default]
    Dynamic,
}

impl ServerScope {
    /// Returns the scope's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Dynamic => "dynamic",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_at_the_end_is_completed_with_those_before_it() {
        let argument = |name: &str| PromptArgument {
            name: name.to_owned(),
            description: String::new(),
            is_required: false,
        };
        let prompt = ServerPrompt {
            server: "s".to_owned(),
            name: "plan".to_owned(),
            description: String::new(),
            arguments: vec![argument("city"), argument("days")],
        };
        for (typed, expected) in [
            ("", Some(("city", "", vec![]))),
            ("Ro", Some(("city", "Ro", vec![]))),
            ("Rome ", Some(("days", "", vec![("city", "Rome")]))),
            (
                "'New York' 3",
                Some(("days", "3", vec![("city", "New York")])),
            ),
            ("days=3 Ro", Some(("city", "Ro", vec![("days", "3")]))),
            ("Rome days=", Some(("days", "", vec![("city", "Rome")]))),
            ("x=1", Some(("city", "x=1", vec![]))),
            ("Rome 3 by", None),
        ] {
            let found = prompt.completion(typed);
            let expected = expected.map(|(argument, value, before)| Completion {
                server: "s".to_owned(),
                prompt: "plan".to_owned(),
                argument: argument.to_owned(),
                value: value.to_owned(),
                before: { before.into_iter() }
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            });
            assert_eq!(found, expected, "{typed}");
        }
        assert!(prompt.is_called("s:plan") && prompt.is_called("mcp__s__plan"));
        assert!(!prompt.is_called("plan"));
    }

    #[test]
    fn typed_words_are_the_arguments_of_a_prompt() {
        let argument = |name: &str, is_required| PromptArgument {
            name: name.to_owned(),
            description: String::new(),
            is_required,
        };
        let prompt = ServerPrompt {
            server: "a server".to_owned(),
            name: "plan/trip".to_owned(),
            description: String::new(),
            arguments: vec![
                argument("city", true),
                argument("days", false),
                argument("note", false),
            ],
        };
        assert_eq!(prompt.command(), "a_server:plan_trip");
        assert_eq!(prompt.hint(), "CITY [DAYS] [NOTE]");
        for (typed, expected) in [
            ("Rome", Ok(vec![("city", "Rome")])),
            (
                "'New York' 3",
                Ok(vec![("city", "New York"), ("days", "3")]),
            ),
            (
                "Rome 3 by train, please",
                Ok(vec![
                    ("city", "Rome"),
                    ("days", "3"),
                    ("note", "by train, please"),
                ]),
            ),
            ("note=x=y Rome", Ok(vec![("city", "Rome"), ("note", "x=y")])),
            (
                "days=3",
                Err("/a_server:plan_trip needs: CITY [DAYS] [NOTE]"),
            ),
            ("", Err("/a_server:plan_trip needs: CITY [DAYS] [NOTE]")),
        ] {
            let expected = expected.map_err(str::to_owned).map(|pairs: Vec<_>| {
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                pairs.into_iter().map(owned).collect()
            });
            assert_eq!(prompt.read(typed), expected, "{typed}");
        }
    }
}
