//! A frontend whose questions about permissions are answered by a tool of an MCP server (`--permission-prompt-tool`).

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::Frontend;
use ah_conversation::{
    Context, Event, Host, Input, PermissionAnswer, PermissionRequest, Servers, ToolUse, json,
};
use async_trait::async_trait;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::decision::HostDecision;

/// A frontend that has a tool decide about calls; everything else is left to the frontend that it wraps.
pub struct PermissionTool {
    frontend: Arc<dyn Frontend>,
    servers: Arc<dyn Servers>,
    /// Name of the tool.
    name: String,
}

impl PermissionTool {
    /// Creates a frontend that asks the tool `name` of one of `servers`.
    pub fn new(frontend: Arc<dyn Frontend>, servers: Arc<dyn Servers>, name: String) -> Self {
        Self {
            frontend,
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
            self.frontend.notice(&message);
            PermissionAnswer::Deny {
                message,
                interrupt: false,
            }
        })
    }

    fn inner_host(&self) -> Option<&dyn Host> {
        Some(&*self.frontend)
    }
}

impl Frontend for PermissionTool {
    fn inner_frontend(&self) -> Option<&dyn Frontend> {
        Some(&*self.frontend)
    }

    fn show(&self, event: &Event) {
        self.frontend.show(event);
    }

    fn notice(&self, text: &str) {
        self.frontend.notice(text);
    }
}
