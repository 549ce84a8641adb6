//! Questions to the host: whether a tool call is allowed, and whether a command may connect to a network host.

use ah_conversation::{
    Elicitation, ElicitationAnswer, Host, HostPermission, PermissionAnswer, PermissionRequest,
    ToolUse, Wanted,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Asks;
use super::decision::HostDecision;
use super::link::Unanswered;
use super::output::fit;
use super::speaker::Speaker;

/// Tool name in questions about a network host.
const NETWORK: &str = "SandboxNetworkAccess";

#[async_trait]
impl Host for Speaker {
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        if let Some(host) = &self.host {
            return self.waiting(host.permission(question)).await;
        }
        if self.wanted.asks == Asks::Nobody {
            return PermissionAnswer::nobody(question);
        }
        let PermissionRequest {
            call,
            inquiry,
            agent,
        } = question;
        let input = shown(call);
        let mut request = json!({
            "subtype": "can_use_tool",
            "tool_name": call.name,
            "display_name": call.name,
            "input": input,
            "tool_use_id": call.id,
        });
        if !inquiry.suggestions.is_empty() {
            request["permission_suggestions"] = json!(inquiry.suggestions);
        }
        if inquiry.interaction.is_some() {
            request["requires_user_interaction"] = json!(true);
        }
        if let Some(description) = call.input.text("description") {
            request["description"] = json!(description);
        }
        if let Some(path) = inquiry.path.as_ref().or(inquiry.outside.as_ref()) {
            request["blocked_path"] = json!(path);
        }
        if let Some((id, _)) = agent {
            request["agent_id"] = json!(id);
        }
        if let Some(reason) = inquiry.why() {
            request["decision_reason"] = json!(reason);
        }
        self.note_question(&call.id);
        match self.ask(request).await {
            Ok(said) => said.answer(call, &input),
            Err(fault) => refused(&fault),
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        if let Some(program) = &self.host {
            return self.waiting(program.new_host(host)).await;
        }
        if self.wanted.asks == Asks::Nobody {
            return HostPermission::No;
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let rule = json!({ "toolName": "WebFetch", "ruleContent": format!("domain:{name}") });
        let request = json!({
            "subtype": "can_use_tool",
            "tool_name": NETWORK,
            "display_name": NETWORK,
            "input": { "host": name, "address": host },
            "description": format!("Allow network connection to {host}?"),
            "permission_suggestions": [{
                "type": "addRules",
                "rules": [rule],
                "behavior": "allow",
                "destination": "localSettings",
            }],
            "tool_use_id": self.link.ids.fresh(),
        });
        match self.ask(request).await {
            Ok(said) => said.leave(),
            // Without an answer it is not allowed.
            Err(_) => HostPermission::No,
        }
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        let mut request = question.to_value();
        request["subtype"] = json!("elicitation");
        if let Wanted::Form(schema) = &question.wanted
            && let Some(fields) = schema["properties"].as_object()
        {
            request["property_order"] = json!(fields.keys().collect::<Vec<_>>());
        }
        let answer = self.waiting(self.link.ask(request)).await;
        // A host that cannot ask anybody says so by an error.
        let answer = answer.ok().as_ref().and_then(ElicitationAnswer::of_value);
        answer.unwrap_or(ElicitationAnswer::Cancel)
    }

    fn elicitation_complete(&self, server: &str, id: &str) {
        let told = json!({"mcp_server_name": server, "elicitation_id": id});
        self.system("elicitation_complete", told);
    }
}

impl Speaker {
    /// Reports the session as waiting for the host until `answer` is there.
    async fn waiting<T>(&self, answer: impl Future<Output = T>) -> T {
        self.state("requires_action");
        let answer = answer.await;
        self.state("running");
        answer
    }

    /// Asks the host; `Err` if it cannot answer, or its answer cannot be parsed.
    async fn ask(&self, request: Value) -> Result<HostDecision, Unanswered> {
        let answer = self.waiting(self.link.ask(request)).await?;
        HostDecision::deserialize(&answer)
            .map_err(|fault| Unanswered::Fault(format!("the answer cannot be read: {fault}")))
    }
}

/// Returns the input of a call for the host, with long texts cut if it does not fit into a line.
fn shown(call: &ToolUse) -> Value {
    let mut input = call.input.to_value();
    fit(&mut input);
    input
}

fn refused(why: &Unanswered) -> PermissionAnswer {
    let message = format!("Tool permission request failed: {why}");
    match why {
        Unanswered::Over => PermissionAnswer::Over { message },
        Unanswered::NoProcess | Unanswered::Fault(_) => PermissionAnswer::Deny {
            message,
            interrupt: false,
        },
    }
}
