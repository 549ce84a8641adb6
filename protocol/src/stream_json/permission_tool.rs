//! A host whose questions about permissions are answered by a tool of an MCP server (`--permission-prompt-tool`).

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::Audience;
use ah_conversation::{
    Context, Elicitation, ElicitationAnswer, Host, HostPermission, Input, PermissionAnswer,
    PermissionRequest, Servers, ToolUse, json,
};
use async_trait::async_trait;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::decision::HostDecision;

/// A host that has a tool decide about calls; everything else is left to the host of the session's audience.
pub struct PermissionTool {
    audience: Audience,
    servers: Arc<dyn Servers>,
    /// Name of the tool.
    name: String,
}

impl PermissionTool {
    /// Creates a host that asks the tool `name` of one of `servers`.
    pub fn new(audience: Audience, servers: Arc<dyn Servers>, name: String) -> Self {
        Self {
            audience,
            servers,
            name,
        }
    }

    /// Calls the tool; `Err` with the message for the model if it does not decide.
    async fn ask(&self, call: &ToolUse) -> Result<PermissionAnswer, String> {
        let name = &self.name;
        let tool = self.servers.find(name).ok_or_else(|| {
            let tools = self.servers.tools();
            let known: Vec<_> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
            format!(
                "the permission tool `{name}` does not exist; the tools of servers are: {}",
                known.join(", ")
            )
        })?;
        let input = call.input.to_value();
        let question = ToolUse {
            id: call.id.clone(),
            name: name.clone(),
            input: Input::from(json!({
                "tool_name": call.name,
                "input": input,
                "tool_use_id": call.id,
            })),
        };
        // Tools of servers return their output in memory.
        let output = tool.run(&question, &Context::new(PathBuf::new())).await;
        let text = output.content.text();
        if output.is_error {
            return Err(format!("the permission tool `{name}` failed: {text}"));
        }
        let decision = json::from_str(&text).and_then(|it: Value| HostDecision::deserialize(it));
        let decision = decision.map_err(|fault| {
            format!(
                "the answer of the permission tool `{name}` is neither \
                 {{\"behavior\": \"allow\", \"updatedInput\": {{…}}}} nor \
                 {{\"behavior\": \"deny\", \"message\": \"…\"}}: {fault}"
            )
        })?;
        Ok(decision.answer(call, &input))
    }
}

#[async_trait]
impl Host for PermissionTool {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        self.ask(&request.call).await.unwrap_or_else(|message| {
            self.audience.notice(&message);
            PermissionAnswer::Deny {
                message,
                interrupt: false,
            }
        })
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        self.audience.host.new_host(host).await
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        self.audience.host.elicitation(question).await
    }

    fn elicitation_complete(&self, server: &str, id: &str) {
        self.audience.host.elicitation_complete(server, id);
    }
}
