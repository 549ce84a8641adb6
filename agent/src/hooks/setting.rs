//! Hook settings, as in settings files and subagent definitions: shell commands, and addresses that are asked.

use std::collections::BTreeMap;

use ah_conversation::Rule;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{HookEvent, Matcher};

/// Setting of one hook.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSetting {
    /// Event at which it is called.
    pub event: HookEvent,
    /// Filter for tools.
    pub matcher: Matcher,
    /// Rule that a call must match for the hook to be called.
    pub condition: Option<Rule>,
    /// What is called.
    pub action: HookAction,
    /// Time limit in seconds.
    pub timeout: Option<f64>,
    /// What its failure is to mean, if that is set.
    pub on_failure: Option<OnFailure>,
    /// Whether it is the user's own program, which gets the user's environment with its keys: it is no part of a project.
    pub is_own: bool,
}

/// What the failure of a hook is to mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The event goes on as without the hook.
    Continue,
    /// What the event is about is refused.
    Block,
}

impl OnFailure {
    /// Parses the word of a setting or a host; an unknown one is the careful choice.
    pub fn of_word(word: &str) -> Self {
        match word {
            "continue" => Self::Continue,
            _ => Self::Block,
        }
    }
}

/// What a hook calls.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAction {
    /// A command.
    Command(HookCommand),
    /// An address that gets the payload.
    Post(HookPost),
}

/// A command that is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookCommand {
    /// The command line for a shell; with arguments, the program.
    pub command: String,
    /// The arguments, which no shell reads.
    pub arguments: Option<Vec<String>>,
    /// Whether it runs in the background.
    pub is_async: bool,
    /// Whether it runs in the sandbox, like the model's commands.
    pub is_confined: bool,
}

/// An address that is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookPost {
    /// The address.
    pub url: String,
    /// Headers of the request; values may name variables.
    pub headers: BTreeMap<String, String>,
    /// The variables that the values may name.
    pub variables: Vec<String>,
}

impl HookPost {
    /// Returns scheme, host and port of the address, and its path: what may be shown, as names, passwords and queries
    /// may be secrets. The path may be one, too, so only users see it.
    pub fn address(&self) -> (String, &str) {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("http", &self.url));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        (format!("{scheme}://{host}"), path)
    }
}

/// Why one hook of a setting is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookFault {
    /// It is of this kind, which is not supported, and nothing depends on it.
    LeftOut(String),
    /// It has to be corrected; the text says why.
    Wrong(String),
}

/// The hooks of one matcher, as written.
#[derive(Debug, Deserialize)]
pub struct HookGroup {
    #[serde(default)]
    matcher: Matcher,
    hooks: Vec<HookEntry>,
}

#[derive(Debug, Deserialize)]
struct HookEntry {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    command: String,
    args: Option<Vec<String>>,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, rename = "allowedEnvVars")]
    variables: Vec<String>,
    #[serde(rename = "if")]
    condition: Option<String>,
    timeout: Option<f64>,
    #[serde(rename = "onFailure")]
    on_failure: Option<String>,
    #[serde(default, rename = "async")]
    is_async: bool,
    #[serde(default, rename = "sandbox")]
    is_confined: bool,
}

impl HookGroup {
    /// Returns the hooks of the group, called at `event`, and the faults of the others.
    pub fn at(self, event: HookEvent) -> impl Iterator<Item = Result<HookSetting, HookFault>> {
        let matcher = self.matcher;
        let entries = self.hooks.into_iter();
        entries.map(move |entry| entry.setting(event, matcher.clone()))
    }
}

impl HookEntry {
    fn setting(self, event: HookEvent, matcher: Matcher) -> Result<HookSetting, HookFault> {
        let name = event.as_str();
        let condition = self.condition.as_deref().map(str::parse::<Rule>);
        let condition = condition
            .transpose()
            .map_err(|error| HookFault::Wrong(format!("`if` of a hook for {name}: {error}")))?;
        let action = match &*self.kind {
            "command" => HookAction::Command(HookCommand {
                command: self.command,
                arguments: self.args,
                is_async: self.is_async,
                is_confined: self.is_confined,
            }),
            "http" if self.url.starts_with("http://") || self.url.starts_with("https://") => {
                HookAction::Post(HookPost {
                    url: self.url,
                    headers: self.headers,
                    variables: self.variables,
                })
            }
            "http" => {
                let url = self.url;
                return Err(HookFault::Wrong(format!(
                    "a hook for {name} has no address to ask: `url` is `{url}`"
                )));
            }
            // Without it, the event would pass as if it had been looked at.
            kind if event.guards() => {
                return Err(HookFault::Wrong(format!(
                    "a hook for {name} is of type `{kind}`, which is not supported, and would have to decide; \
                     the types are `command` and `http`"
                )));
            }
            _ => return Err(HookFault::LeftOut(self.kind)),
        };
        Ok(HookSetting {
            event,
            matcher,
            condition,
            action,
            timeout: self.timeout,
            on_failure: self.on_failure.as_deref().map(OnFailure::of_word),
            is_own: false,
        })
    }
}

impl HookSetting {
    /// Parses an object that maps events to hook groups, as in settings.
    ///
    /// # Errors
    ///
    /// If an event or hook type is unknown, or the structure is wrong; the text names it.
    pub fn read(hooks: &Map<String, Value>) -> Result<Vec<Self>, String> {
        let mut read = Vec::new();
        for (name, groups) in hooks {
            let event = name.parse()?;
            let groups = Vec::<HookGroup>::deserialize(groups);
            for group in groups.map_err(|error| format!("`hooks`, {name}: {error}"))? {
                for hook in group.at(event) {
                    read.push(hook.map_err(|fault| match fault {
                        HookFault::LeftOut(kind) => format!(
                            "`hooks`, {name}: unknown hook type `{kind}`; the types are `command` and `http`"
                        ),
                        HookFault::Wrong(text) => format!("`hooks`: {text}"),
                    })?);
                }
            }
        }
        Ok(read)
    }

    /// Returns the command line or the address, as it is shown.
    pub fn shown(&self) -> String {
        match &self.action {
            HookAction::Command(command) => {
                let words = std::iter::once(&command.command);
                let words = words.chain(command.arguments.iter().flatten());
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            HookAction::Post(post) => {
                let (origin, path) = post.address();
                format!("POST {origin}{path}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(event: &str, hook: &Value) -> String {
        let hooks = json!({event: [{"hooks": [hook]}]});
        match HookSetting::read(hooks.as_object().unwrap()) {
            Ok(read) => read[0].shown(),
            Err(error) => error,
        }
    }

    /// What cannot be called is never left out where it would have to decide.
    #[test]
    fn hooks_are_commands_and_addresses() {
        let prompt = json!({"type": "prompt", "prompt": "May it?"});
        let url = |url: &str| json!({"type": "http", "url": url});
        let command = |more: Value| {
            let mut hook = json!({"type": "command", "command": "c"});
            hook.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            hook
        };
        for (event, hook, expected) in [
            ("Stop", command(json!({})), "c"),
            ("Stop", command(json!({"args": ["a b", "c"]})), "c a b c"),
            (
                "Stop",
                url("https://h.example/x"),
                "POST https://h.example/x",
            ),
            (
                "Stop",
                url("https://name:p@ss@h.example:8443/x?key=1#2"),
                "POST https://h.example:8443/x",
            ),
            (
                "Stop",
                url("http://a:b@h.example?x=/y@z"),
                "POST http://h.example",
            ),
            (
                "Stop",
                url("h.example"),
                "`hooks`: a hook for Stop has no address to ask: `url` is `h.example`",
            ),
            (
                "PreToolUse",
                command(json!({"if": "Bash(git"})),
                "`hooks`: `if` of a hook for PreToolUse: `Bash(git` is not a rule: expected `Tool` or `Tool(content)`",
            ),
            (
                "Stop",
                prompt.clone(),
                "`hooks`, Stop: unknown hook type `prompt`; the types are `command` and `http`",
            ),
            (
                "PreToolUse",
                prompt,
                "`hooks`: a hook for PreToolUse is of type `prompt`, which is not supported, and would have to decide; \
                 the types are `command` and `http`",
            ),
        ] {
            assert_eq!(read(event, &hook), expected);
        }
    }
}
