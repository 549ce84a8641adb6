//! Options that a host sends before the first prompt.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Options of the host, sent before the first prompt.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialize {
    /// Hook callbacks of the host by event.
    pub hooks: Option<Map<String, Value>>,
    /// Names of the MCP servers that run in the host.
    pub sdk_mcp_servers: Vec<String>,
    /// System prompt in the place of the built-in one.
    pub system_prompt: Option<Texts>,
    /// Text appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// Whether the description of place and time is told in a message.
    pub exclude_dynamic_sections: bool,
    /// What mode `plan` asks for.
    pub plan_mode_instructions: Option<String>,
    /// Tools that are called in the place of others, by the name that the model uses.
    pub tool_aliases: BTreeMap<String, String>,
    /// Tools to remove, and rules for calls to deny.
    pub disallowed_tools: Option<Vec<String>>,
    /// Subagent definitions by name.
    pub agents: Option<Map<String, Value>>,
    /// Whether the texts of subagents are sent, not only their tool calls.
    pub forward_subagent_text: bool,
    /// JSON schema of the answer.
    pub json_schema: Option<Value>,
    /// MCP servers in addition to those of the command line.
    pub mcp_servers: Option<Map<String, Value>>,
    /// Plugins in addition to those of the command line.
    pub plugins: Vec<NamedPlugin>,
    /// Names of the skills to offer; all if `None`.
    pub skills: Option<Vec<String>>,
    /// Title of a new session.
    pub title: Option<String>,
}

/// A plugin given by the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedPlugin {
    /// Its folder, relative to the working directory.
    pub path: PathBuf,
    /// Whether its MCP servers are ignored.
    pub skip_mcp_discovery: bool,
}

/// Marker between the parts of a system prompt that all users of a host share and the others; not part of the prompt.
const BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

/// A text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Texts {
    /// A text.
    One(String),
    /// A list of texts.
    Many(Vec<String>),
}

impl Texts {
    /// Returns the texts joined with blank lines.
    pub fn joined(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(texts) => {
                let said = texts.iter().filter(|text| *text != BOUNDARY);
                said.map(String::as_str).collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}
