//! Built-in tools about servers that may still be starting: a list of all servers, and a placeholder for a tool whose
//! server is not connected yet.

use std::sync::Arc;

use ah_conversation::{
    Access, Context, Input, Interface, Output, ServerState, Tool, ToolExtras, ToolSpec, ToolUse,
};
use async_trait::async_trait;
use serde_json::json;

use crate::remote::name::clean_line;
use crate::remote::resources::spec;
use crate::remote::server::{Server, settled};
use crate::remote::tool::access;

/// Tool that lists the servers with their state. It waits for those that are starting, so a model that needs their
/// tools can call it first.
pub(crate) struct ServersTool {
    spec: ToolSpec,
    servers: Arc<[Arc<Server>]>,
}

impl ServersTool {
    /// Returns whether the model needs the tool. SDK hosts wait for servers themselves, so for them it is only offered
    /// while a server is starting, or if one has instructions.
    pub(crate) fn is_of_use(servers: &[Arc<Server>], interface: Interface) -> bool {
        let mut servers = servers.iter().filter(|server| server.is_on());
        match interface {
            Interface::Native => servers.next().is_some(),
            Interface::AgentSdk => {
                servers.any(|server| server.is_pending() || !server.instructions().is_empty())
            }
        }
    }

    pub(crate) fn new(servers: Arc<[Arc<Server>]>, interface: Interface) -> Self {
        let name = interface.tool_name("mcp_servers");
        let names: Vec<_> = servers
            .iter()
            .map(|server| clean_line(&server.name, 100))
            .collect();
        let mut description = format!(
            "Waits until the MCP servers have started, and lists them with their tools (mcp__SERVER__TOOL). For when you \
             need a tool of a server and do not have it. Servers: {}.",
            names.join(", ")
        );
        for (server, name) in servers.iter().zip(names) {
            let instructions = server.instructions();
            if !instructions.trim().is_empty() {
                description.push_str(&format!("\n\nInstructions of {name}:\n{instructions}"));
            }
        }
        Self {
            spec: spec(&name, description, &json!({}), &[]),
            servers,
        }
    }
}

#[async_trait]
impl Tool for ServersTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        Vec::new()
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, _: &ToolUse, _: &Context) -> Output {
        settled(&self.servers).await;
        let lines: Vec<_> = self.servers.iter().map(|server| state_of(server)).collect();
        Output::text(lines.join("\n"))
    }
}

/// Returns one line with name, state and tools or error of a server.
fn state_of(server: &Server) -> String {
    let status = server.status();
    let state = status.state.as_str();
    let name = clean_line(&status.name, 100);
    let tools: Vec<_> = status.tools.iter().map(|tool| tool.name.as_str()).collect();
    match (status.state, status.error) {
        (ServerState::Disabled, _) => format!("{name}: {state}"),
        (_, Some(error)) => format!("{name}: {state}: {error}"),
        (ServerState::Connected, None) if tools.is_empty() => {
            format!("{name}: {state}, without tools")
        }
        (_, None) => format!("{name}: {state}: {}", tools.join(", ")),
    }
}

/// Placeholder for a tool of a server that is still starting: a call waits for the server, then for the tool.
pub(crate) struct PendingTool {
    spec: ToolSpec,
    server: Arc<Server>,
}

impl PendingTool {
    pub(crate) fn new(server: Arc<Server>, name: &str) -> Self {
        Self {
            spec: spec(name, String::new(), &json!({}), &[]),
            server,
        }
    }
}

#[async_trait]
impl Tool for PendingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Input) -> Vec<Access> {
        vec![access(self.server.is_confined(), false)]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        if let Err(reason) = self.server.link().connected().await {
            return Output::error(reason);
        }
        match self.server.tool(&self.spec.name) {
            Some(tool) => tool.run(call, context).await,
            None => {
                let tools = self.server.tools();
                let names = tools.iter().map(|tool| tool.spec().name.as_str());
                Output::error(format!(
                    "there is no tool `{}`; tools of its server: {}",
                    clean_line(&self.spec.name, 200),
                    names.collect::<Vec<_>>().join(", ")
                ))
            }
        }
    }
}
