//! Definitions of subagents: purpose, prompt, tools, model and limits.
//!
//! They come from files with front matter, from a host, or with the program. Files are read elsewhere and passed in
//! as text; `subagent.rs` applies a definition to a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::front_matter::{self, FrontMatterError, WordList};
use ah_conversation::{Effort, Layer, PermissionMode, Rule, ToolName};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::hooks::HookSetting;

/// Name, in rules and tool lists, of the tool that starts subagents.
const SPAWNING: &str = "Agent";

/// Definition of a subagent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Name.
    pub name: String,
    /// Description of when to use it, for the model and the user.
    pub description: String,
    /// System prompt.
    pub prompt: String,
    /// Allowed tools, as rules; `None` inherits all tools of the parent.
    pub tools: Option<Vec<String>>,
    /// Excluded tools, as rules.
    pub disallowed_tools: Vec<String>,
    /// Model name or alias; `None` or `inherit` for the parent's model.
    pub model: Option<String>,
    /// Permission mode; `None` inherits the parent's.
    pub permission_mode: Option<PermissionMode>,
    /// Maximum number of model calls.
    pub max_turns: Option<u32>,
    /// Skills whose text is part of its system prompt.
    pub skills: Vec<String>,
    /// Scope of its memory, if it has one.
    pub memory: Option<MemoryScope>,
    /// Whether it runs in the background by default.
    pub background: bool,
    /// Whether it works in a git worktree of its own.
    pub is_isolated: bool,
    /// Reasoning effort.
    pub effort: Option<Effort>,
    /// Text prepended to the first prompt when it is the main agent.
    pub initial_prompt: Option<String>,
    /// Text appended to its system prompt.
    pub reminder: Option<String>,
    /// Whether the project's instructions are left out.
    pub omits_instructions: bool,
    /// MCP servers whose tools it has; `None` for all.
    pub servers: Option<Vec<ServerUse>>,
    /// Hooks in addition to those of the session.
    pub hooks: Vec<HookSetting>,
    /// Source of the definition.
    pub layer: Layer,
    /// Its file, if it has one.
    pub location: Option<PathBuf>,
}

/// An MCP server whose tools a subagent has.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerUse {
    /// Name of the server.
    pub name: String,
    /// Available tools of the server; `None` for all.
    pub tools: Option<Vec<String>>,
    /// Configuration, as in `.mcp.json`, of a server of the subagent's own; `None` for one of the session's servers.
    pub own: Option<Value>,
}

/// Scope of a subagent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryScope {
    /// For the user, in all projects.
    User,
    /// For everybody working on the project.
    Project,
    /// For the user, in this project.
    Local,
}

impl MemoryScope {
    /// Returns the scope's name in definitions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

/// Fields of a definition, in front matter and in a host's JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AgentFields {
    name: Option<String>,
    description: Option<String>,
    prompt: Option<String>,
    tools: Option<WordList>,
    #[serde(alias = "disallowed-tools")]
    disallowed_tools: Option<WordList>,
    model: Option<String>,
    #[serde(alias = "permission-mode")]
    permission_mode: Option<String>,
    #[serde(alias = "max-turns")]
    max_turns: Option<u32>,
    skills: Option<WordList>,
    memory: Option<MemoryScope>,
    background: Option<bool>,
    isolation: Option<String>,
    /// A name, or a number that only one vendor's models understand.
    effort: Option<Value>,
    initial_prompt: Option<String>,
    #[serde(rename = "criticalSystemReminder_EXPERIMENTAL")]
    reminder: Option<String>,
    omit_claude_md: Option<bool>,
    mcp_servers: Option<Vec<Value>>,
    hooks: Option<Map<String, Value>>,
}

impl Agent {
    /// Parses the definition in the file `location`.
    ///
    /// # Errors
    ///
    /// If the text is not a valid definition.
    pub fn parse(text: &str, location: &Path, layer: Layer) -> Result<Self, FrontMatterError> {
        let (mut fields, body) = front_matter::read::<AgentFields>(text)?;
        let error = |message: String| FrontMatterError { line: 1, message };
        fields.prompt = Some(body.trim().to_owned());
        let name = fields.name.take().unwrap_or_default();
        let agent = Self::of(&name, fields, layer).map_err(error)?;
        Ok(Self {
            location: Some(location.to_owned()),
            ..agent
        })
    }

    /// Parses the definition that a host sent under `name`.
    ///
    /// # Errors
    ///
    /// If it is not valid; the text says why.
    pub fn from_json(name: &str, definition: &Value) -> Result<Self, String> {
        let fields = AgentFields::deserialize(definition).map_err(|error| error.to_string())?;
        Self::of(name, fields, Layer::CommandLine)
    }

    fn of(name: &str, fields: AgentFields, layer: Layer) -> Result<Self, String> {
        if name.trim().is_empty() {
            return Err("a subagent needs a `name`".to_owned());
        }
        let description = fields.description.unwrap_or_default().trim().to_owned();
        if description.is_empty() {
            return Err("a subagent needs a `description`".to_owned());
        }
        let mode = fields.permission_mode.as_deref().map(str::parse);
        let effort = fields.effort.filter(Value::is_string);
        let is_isolated = match fields.isolation.as_deref() {
            None | Some("") => false,
            Some("worktree") => true,
            Some(other) => return Err(format!("`isolation`: `{other}` is not `worktree`")),
        };
        let words = |list: Option<WordList>| list.map(|list| list.0);
        Ok(Self {
            name: name.trim().to_owned(),
            description,
            prompt: fields.prompt.unwrap_or_default(),
            tools: words(fields.tools).filter(|tools| tools.iter().all(|tool| tool != "*")),
            disallowed_tools: words(fields.disallowed_tools).unwrap_or_default(),
            model: fields.model.filter(|model| !model.is_empty()),
            permission_mode: mode.transpose()?,
            max_turns: fields.max_turns.filter(|turns| *turns > 0),
            skills: words(fields.skills).unwrap_or_default(),
            memory: fields.memory,
            background: fields.background.unwrap_or(false),
            is_isolated,
            effort: effort
                .map(serde_json::from_value)
                .transpose()
                .map_err(|error| format!("`effort`: {error}"))?,
            initial_prompt: fields.initial_prompt,
            reminder: fields.reminder,
            omits_instructions: fields.omit_claude_md.unwrap_or(false),
            servers: fields
                .mcp_servers
                .map(|servers| servers.iter().flat_map(servers_of).collect()),
            hooks: HookSetting::read(&fields.hooks.unwrap_or_default())?,
            layer,
            location: None,
        })
    }

    /// Whether it has the tool `name` of the parent's tools.
    pub fn has_tool(&self, name: &str) -> bool {
        let is_of_servers = |servers: &Vec<ServerUse>| {
            let parts = ToolName(name).parts();
            parts.is_none_or(|(server, tool)| servers.iter().any(|it| it.has(server, tool)))
        };
        let keeps = self.memory.is_some() && MEMORY_TOOLS.iter().any(|tool| covers(tool, name));
        let is_listed = |tools: &Vec<String>| tools.iter().any(|tool| covers(tool, name));
        let is_denied = self.disallowed_tools.iter().any(|tool| covers(tool, name));
        (keeps || self.tools.as_ref().is_none_or(is_listed))
            && self.servers.as_ref().is_none_or(is_of_servers)
            && !is_denied
    }

    /// Returns the subagents that it may start: `None` for none, an empty list for all.
    pub fn may_start(&self) -> Option<Vec<String>> {
        let is_denied = self
            .disallowed_tools
            .iter()
            .any(|tool| covers(tool, SPAWNING));
        let tools = self.tools.as_ref().filter(|_| !is_denied)?;
        let mut named = tools.iter().filter_map(|tool| {
            let (tool, kinds) = match tool.split_once('(') {
                Some((tool, kinds)) => (tool, kinds.trim_end_matches(')')),
                None => (tool.as_str(), ""),
            };
            covers(tool, SPAWNING).then(|| {
                let kinds = kinds.split(',').map(str::trim);
                kinds
                    .filter(|kind| !kind.is_empty())
                    .map(str::to_owned)
                    .collect()
            })
        });
        named.next()
    }
}

/// Tools needed to use the memory.
const MEMORY_TOOLS: [&str; 3] = ["Read", "Write", "Edit"];

/// Whether an entry of a tool list covers the tool `name`.
fn covers(entry: &str, name: &str) -> bool {
    let entry = entry.split('(').next().unwrap_or_default();
    entry
        .parse::<Rule>()
        .is_ok_and(|rule| rule.covers_tool(name))
}

impl ServerUse {
    fn has(&self, server: &str, tool: &str) -> bool {
        let tools = self.tools.as_ref();
        self.name == server && tools.is_none_or(|tools| tools.iter().any(|named| named == tool))
    }
}

/// Returns the servers in an entry of `mcpServers`: a name, an object with a name and tools, or an object that maps
/// names to configurations.
fn servers_of(entry: &Value) -> Vec<ServerUse> {
    let named = |name: &str, tools: Option<Vec<String>>, own: Option<Value>| ServerUse {
        name: name.to_owned(),
        tools,
        own,
    };
    match entry {
        Value::String(name) => vec![named(name, None, None)],
        Value::Object(fields) => match fields.get("serverName").and_then(Value::as_str) {
            Some(name) => {
                let tools = fields.get("tools");
                vec![named(
                    name,
                    tools.and_then(|it| Vec::deserialize(it).ok()),
                    None,
                )]
            }
            None => fields
                .iter()
                .map(|(name, server)| named(name, None, Some(server.clone())))
                .collect(),
        },
        _ => Vec::new(),
    }
}

/// All definitions, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Agents {
    agents: BTreeMap<String, Arc<Agent>>,
}

impl Agents {
    /// Adds a definition; replaces one of the same name, ignoring case.
    pub fn add(&mut self, agent: Agent) {
        self.agents
            .insert(agent.name.to_lowercase(), Arc::new(agent));
    }

    /// Returns the definition of this name, in any case.
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.agents.get(&name.trim().to_lowercase())
    }

    /// Returns all definitions, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.agents.values()
    }

    /// Sets the model of all definitions.
    pub fn answered_by(&mut self, model: &str) {
        for agent in self.agents.values_mut() {
            Arc::make_mut(agent).model = Some(model.to_owned());
        }
    }

    /// Keeps only the definitions for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&Agent) -> bool) {
        self.agents.retain(|_, agent| keeps(agent));
    }
}

#[cfg(test)]
mod tests;
