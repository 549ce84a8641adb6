//! Definitions of subagents: what each is there for, its prompt, its tools, its model and its limits.
//!
//! They come from files with front matter, from a host, or with the program. Files are read elsewhere, and come in as
//! text; what a definition means to a run is the matter of `subagent.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::front_matter::{self, FrontMatterError, WordList};
use ah_conversation::{Effort, Layer, PermissionMode, Rule};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::hooks::HookSetting;

/// What a tool is called whose calls start subagents, in rules and lists of tools.
const SPAWNING: &str = "Agent";

/// What a subagent is.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// What it is called by.
    pub name: String,
    /// When it is to be used, for whoever may.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The tools it has, as rules; `None`: all that whoever starts it has.
    pub tools: Option<Vec<String>>,
    /// Tools that it does not have, as rules.
    pub disallowed_tools: Vec<String>,
    /// The model that it asks: a name, or `inherit` for that of whoever starts it, as without one.
    pub model: Option<String>,
    /// What it may do where no rule says otherwise; without one, what whoever starts it may.
    pub permission_mode: Option<PermissionMode>,
    /// How often it asks the model at most.
    pub max_turns: Option<u32>,
    /// Skills that it has read when it begins.
    pub skills: Vec<String>,
    /// Where it keeps what it has learned, if it does.
    pub memory: Option<MemoryScope>,
    /// Whether it runs beside the conversation when nobody says otherwise.
    pub background: bool,
    /// How hard it thinks.
    pub effort: Option<Effort>,
    /// What the first prompt begins with where it is the main agent.
    pub initial_prompt: Option<String>,
    /// What its system prompt ends with.
    pub reminder: Option<String>,
    /// Whether it goes without the project's instructions.
    pub omits_instructions: bool,
    /// The MCP servers whose tools it has; `None`: all.
    pub servers: Option<Vec<ServerUse>>,
    /// What is told of it while it works, and may have a say in it, besides the hooks of the session.
    pub hooks: Vec<HookSetting>,
    /// Where it comes from.
    pub layer: Layer,
    /// Its file, where it has one.
    pub location: Option<PathBuf>,
}

/// An MCP server of which a subagent has tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerUse {
    /// What it is called.
    pub name: String,
    /// Those of its tools that there are; `None`: all.
    pub tools: Option<Vec<String>>,
    /// How it is reached, as in `.mcp.json`, where it is the subagent's own; `None`: it is one of the session's.
    pub own: Option<Value>,
}

/// For whom a subagent keeps what it has learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryScope {
    /// For the user, in all projects.
    User,
    /// For all who work on the project.
    Project,
    /// For the user, in this project.
    Local,
}

impl MemoryScope {
    /// The word for it in definitions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }
}

/// The fields of a definition, in front matter as in what a host sends.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Fields {
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
    /// A word, or a number that only its vendor understands.
    effort: Option<Value>,
    initial_prompt: Option<String>,
    #[serde(rename = "criticalSystemReminder_EXPERIMENTAL")]
    reminder: Option<String>,
    omit_claude_md: Option<bool>,
    mcp_servers: Option<Vec<Value>>,
    hooks: Option<Map<String, Value>>,
}

impl Agent {
    /// Reads the definition in the file `location`.
    ///
    /// # Errors
    ///
    /// Where the text is no definition.
    pub fn parse(text: &str, location: &Path, layer: Layer) -> Result<Self, FrontMatterError> {
        let (mut fields, body) = front_matter::read::<Fields>(text)?;
        let fault = |message: String| FrontMatterError { line: 1, message };
        fields.prompt = Some(body.trim().to_owned());
        let name = fields.name.take().unwrap_or_default();
        let agent = Self::of(&name, fields, layer).map_err(fault)?;
        Ok(Self {
            location: Some(location.to_owned()),
            ..agent
        })
    }

    /// Reads the definition that a host has given under `name`.
    ///
    /// # Errors
    ///
    /// Where it is none; the text says why.
    pub fn from_json(name: &str, definition: &Value) -> Result<Self, String> {
        let fields = Fields::deserialize(definition).map_err(|fault| fault.to_string())?;
        Self::of(name, fields, Layer::CommandLine)
    }

    fn of(name: &str, fields: Fields, layer: Layer) -> Result<Self, String> {
        if name.trim().is_empty() {
            return Err("a subagent needs a `name`".to_owned());
        }
        let description = fields.description.unwrap_or_default().trim().to_owned();
        if description.is_empty() {
            return Err("a subagent needs a `description`".to_owned());
        }
        let mode = fields.permission_mode.as_deref().map(str::parse);
        let effort = fields.effort.filter(Value::is_string);
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
            effort: { effort.map(serde_json::from_value).transpose() }
                .map_err(|fault| format!("`effort`: {fault}"))?,
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

    /// Whether it has the tool `name`, of those that whoever starts it has.
    pub fn has_tool(&self, name: &str) -> bool {
        let is_of_servers = |servers: &Vec<ServerUse>| {
            let rest = name.strip_prefix("mcp__");
            rest.and_then(|rest| rest.split_once("__"))
                .is_none_or(|(server, tool)| servers.iter().any(|it| it.has(server, tool)))
        };
        let keeps = self.memory.is_some() && MEMORY_TOOLS.iter().any(|tool| covers(tool, name));
        let is_listed = |tools: &Vec<String>| tools.iter().any(|tool| covers(tool, name));
        let is_denied = self.disallowed_tools.iter().any(|tool| covers(tool, name));
        (keeps || self.tools.as_ref().is_none_or(is_listed))
            && self.servers.as_ref().is_none_or(is_of_servers)
            && !is_denied
    }

    /// Which subagents it may start: `None`: none; an empty list: all.
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

/// Tools without which nothing can be kept.
const MEMORY_TOOLS: [&str; 3] = ["Read", "Write", "Edit"];

/// Whether an entry of a list of tools is about the tool `name`.
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

/// The servers in an entry of `mcpServers`: a name, an object with a name and tools, or one with names as keys, each with
/// how the server is reached.
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
            None => { fields.iter() }
                .map(|(name, server)| named(name, None, Some(server.clone())))
                .collect(),
        },
        _ => Vec::new(),
    }
}

/// All definitions, each under its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Agents {
    agents: BTreeMap<String, Arc<Agent>>,
}

impl Agents {
    /// Adds a definition in the place of one that had its name, in any case.
    pub fn add(&mut self, agent: Agent) {
        self.agents
            .insert(agent.name.to_lowercase(), Arc::new(agent));
    }

    /// The definition of this name, in any case.
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.agents.get(&name.trim().to_lowercase())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.agents.values()
    }

    /// Leaves those that `keeps` says.
    pub fn retain(&mut self, keeps: impl Fn(&Agent) -> bool) {
        self.agents.retain(|_, agent| keeps(agent));
    }
}

#[cfg(test)]
mod tests;
