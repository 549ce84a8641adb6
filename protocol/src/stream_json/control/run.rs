//! Tools that a host runs without the model, and what runs in the background.

use std::path::PathBuf;

use ah_conversation::{Content, Context, Input, ServerStatus, ToolUse, ToolUseId};
use serde_json::{Map, Value, json};

use super::Handles;
use crate::stream_json::wire::RequestError;
use ah_transcript::parts::result_content;

/// Bytes of a task's output for a host.
const TAIL: u64 = 8 << 10;

impl Handles {
    /// Calls a tool of an MCP server. The host decides about permissions, so it is not asked.
    pub(super) async fn call_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RequestError> {
        let found = self.servers()?.find(name);
        let tool = found.ok_or_else(|| {
            RequestError::new(format!(
                "there is no tool `{name}`: it is named mcp__SERVER__TOOL, and its server has to be connected"
            ))
        })?;
        let call = ToolUse {
            id: ToolUseId::from(self.speaker.link.ids.fresh()),
            name: name.to_owned(),
            input: Input::Object(arguments),
        };
        // Tools of servers return their output in memory.
        let output = tool.run(&call, &Context::new(PathBuf::new())).await;
        match output.content {
            content if output.is_error => Err(RequestError::new(content.text())),
            Content::Blocks(blocks) => Ok(json!({"content": result_content(&blocks)})),
            content => Ok(json!({"content": [{"type": "text", "text": content.text()}]})),
        }
    }

    /// Carries out `/mcp`, with the words after it; returns the text for the user.
    pub(crate) async fn manage_servers(
        &self,
        wanted: Option<&str>,
    ) -> Result<String, RequestError> {
        const USAGE: &str = "Usage: /mcp [reconnect|enable|disable [<server>|all]]";
        let servers = self.servers()?;
        let known = servers.status();
        let Some(wanted) = wanted else {
            let line = |server: &ServerStatus| {
                let error = server.error.as_ref().map(|error| format!(": {error}"));
                let (state, count) = (server.state.as_str(), server.tools.len());
                let error = error.unwrap_or_default();
                format!("- {}: {state}, {count} tools{error}", server.name)
            };
            let lines: Vec<_> = known.iter().map(line).collect();
            return Ok(match lines.is_empty() {
                true => format!("No MCP servers are configured.\n{USAGE}"),
                false => format!("MCP servers:\n{}\n{USAGE}", lines.join("\n")),
            });
        };
        let (verb, name) = wanted.split_once(' ').unwrap_or((wanted, "all"));
        let name = name.trim();
        let mut told = Vec::new();
        for server in known
            .iter()
            .filter(|server| name == "all" || server.name == name)
        {
            let (done, outcome) = match verb {
                "reconnect" => ("reconnected", servers.reconnect(&server.name).await),
                "enable" => ("enabled", servers.toggle(&server.name, true)),
                "disable" => ("disabled", servers.toggle(&server.name, false)),
                _ => return Ok(USAGE.to_owned()),
            };
            told.push(match outcome {
                Ok(()) => format!("{}: {done}", server.name),
                Err(error) => format!("{}: {error}", server.name),
            });
        }
        match told.is_empty() {
            true => Err(RequestError::new(format!(
                "There's no MCP server named \"{name}\"."
            ))),
            false => Ok(told.join("\n")),
        }
    }

    /// Returns the end of the output of a command in the background.
    pub(super) fn task_output(&self, id: &str) -> Result<Value, RequestError> {
        let tail = self.tasks.iter().find_map(|tasks| tasks.tail(id, TAIL));
        let tail = tail.ok_or_else(|| {
            RequestError::new(format!("there is no command `{id}` in the background"))
        })?;
        Ok(json!({
            "output": tail.text,
            "total_bytes": tail.total,
            "truncated": tail.total > TAIL,
        }))
    }
}
