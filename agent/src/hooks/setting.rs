//! A hook as settings and the definitions of subagents write it: a command of the shell.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::HookEvent;

/// One hook: a command.
#[derive(Debug, Clone, PartialEq)]
pub struct HookSetting {
    /// When it is asked.
    pub event: HookEvent,
    /// About which tools.
    pub matcher: Option<String>,
    /// The command line.
    pub command: String,
    /// How many seconds it may take.
    pub timeout: Option<f64>,
    /// Whether nobody waits for it.
    pub is_async: bool,
    /// Whether it runs in the sandbox, as the model's commands do.
    pub is_confined: bool,
}

/// The hooks of one matcher, as they are written.
#[derive(Debug, Deserialize)]
pub struct HookGroup {
    matcher: Option<String>,
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
    /// The hooks of the group, which are asked at `event`; of one that is no command, the word for what it is.
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
    /// The hooks that an object names by their events, as settings do.
    ///
    /// # Errors
    ///
    /// Where an event or a kind of hook is not known, or something else is in its place; the text says which.
    pub fn read(hooks: &Map<String, Value>) -> Result<Vec<Self>, String> {
        let mut read = Vec::new();
        for (name, groups) in hooks {
            let event = name.parse()?;
            let groups = Vec::<HookGroup>::deserialize(groups);
            for group in groups.map_err(|fault| format!("`hooks`, {name}: {fault}"))? {
                for hook in group.at(event) {
                    read.push(hook.map_err(|kind| {
                        format!("`hooks`, {name}: there are hooks of type `command`, and none of type `{kind}`")
                    })?);
                }
            }
        }
        Ok(read)
    }
}
