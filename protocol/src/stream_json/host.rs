//! Questions to the host: whether a tool call is allowed, and whether a command may connect to a network host.

use ah_conversation::{
    Destination, Host, HostPermission, Input, PermissionAnswer, PermissionRequest,
    PermissionUpdate, ToolUse,
};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Asks;
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
        if let Some(path) = &inquiry.path {
            request["blocked_path"] = json!(path);
        }
        if let Some((id, _)) = agent {
            request["agent_id"] = json!(id);
        }
        if let Some(reason) = &inquiry.reason {
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
    async fn ask(&self, request: Value) -> Result<HostDecision, String> {
        let answer = self
            .waiting(self.link.ask(request))
            .await
            .map_err(|fault| format!("Error: {fault}"))?;
        HostDecision::deserialize(&answer)
            .map_err(|fault| format!("the answer cannot be read: {fault}"))
    }
}

/// Returns the input of a call for the host, with long texts cut if it does not fit into a line.
fn shown(call: &ToolUse) -> Value {
    let mut input = call.input.to_value();
    fit(&mut input);
    input
}

/// Returns the input of a call as changed by the host, if it was. Values that come back as they were shown are unchanged,
/// even if they were shown cut.
fn changed(mut updated: Value, shown: &Value, call: &ToolUse) -> Option<Input> {
    let whole = call.input.to_value();
    for (name, value) in updated.as_object_mut().into_iter().flatten() {
        if shown.get(name) == Some(value) {
            *value = whole[name].clone();
        }
    }
    (updated != whole).then(|| Input::from(updated))
}

fn refused(why: &str) -> PermissionAnswer {
    PermissionAnswer::Deny {
        message: format!("Tool permission request failed: {why}"),
        interrupt: false,
    }
}

/// The host's decision on a call.
#[derive(Deserialize)]
#[serde(
    tag = "behavior",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
enum HostDecision {
    Allow {
        updated_input: Option<Value>,
        #[serde(default)]
        updated_permissions: Option<Vec<Value>>,
    },
    Deny {
        #[serde(default)]
        message: String,
        #[serde(default)]
        interrupt: bool,
    },
}

impl HostDecision {
    /// Returns the answer of a host that was `shown` this input.
    fn answer(self, call: &ToolUse, shown: &Value) -> PermissionAnswer {
        match self {
            Self::Allow {
                updated_input,
                updated_permissions,
            } => PermissionAnswer::Allow {
                input: updated_input.and_then(|input| changed(input, shown, call)),
                // Unknown kinds of updates are ignored.
                updates: updated_permissions
                    .into_iter()
                    .flatten()
                    .filter_map(|update| PermissionUpdate::deserialize(update).ok())
                    .collect(),
            },
            Self::Deny { message, interrupt } => PermissionAnswer::Deny { message, interrupt },
        }
    }

    /// Returns the answer about a network host; permission updates say for how long it is allowed.
    fn leave(self) -> HostPermission {
        let Self::Allow {
            updated_permissions,
            ..
        } = self
        else {
            return HostPermission::No;
        };
        let values = updated_permissions.into_iter().flatten();
        let updates = values.filter_map(|update| PermissionUpdate::deserialize(update).ok());
        let longest = updates.map(|update| match update.destination() {
            Destination::Session => HostPermission::Session,
            _ => HostPermission::Always,
        });
        longest.fold(HostPermission::Once, |longest, leave| match longest {
            HostPermission::Always => longest,
            _ => leave,
        })
    }
}
