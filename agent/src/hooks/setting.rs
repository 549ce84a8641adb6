//! Hook settings, as in settings files and subagent definitions: shell commands.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{HookEvent, Matcher};

/// Setting of one hook command.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSetting {
    /// Event at which it is called.
    pub event: HookEvent,
    /// Filter for tools.
    pub matcher: Matcher,
    /// The command line.
    pub command: String,
    /// Time limit in seconds.
    pub timeout: Option<f64>,
    /// Whether it runs in the background.
    pub is_async: bool,
    /// Whether it runs in the sandbox, like the model's commands.
    pub is_confined: bool,
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
    timeout: Option<f64>,
    #[serde(default, rename = "async")]
    is_async: bool,
    #[serde(default, rename = "sandbox")]
    is_confined: bool,
}

impl HookGroup {
    /// Returns the hooks of the group, called at `event`; an error with the type for hooks other than commands.
    pub fn at(self, event: HookEvent) -> impl Iterator<Item = Result<HookSetting, String>> {
        let matcher = self.matcher;
        self.hooks.into_iter().map(move |entry| match &*entry.kind {
            "command" => Ok(HookSetting {
                event,
                matcher: matcher.clone(),
                command: entry.command,
                timeout: entry.timeout,
                is_async: entry.is_async,
                is_confined: entry.is_confined,
            }),
            _ => Err(entry.kind),
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
                    read.push(hook.map_err(|kind| {
                        format!("`hooks`, {name}: unknown hook type `{kind}`; the only type is `command`")
                    })?);
                }
            }
        }
        Ok(read)
    }
}
