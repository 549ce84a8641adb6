//! What the host is asked: whether a call may happen, and whether a command may reach a host of the network.

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

/// What stands in the place of a tool's name where the question is about a host of the network.
const NETWORK: &str = "SandboxNetworkAccess";

#[async_trait]
impl Host for Speaker {
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        match self.wanted.asks {
            Asks::Nobody => return PermissionAnswer::nobody(question),
            Asks::Host => {}
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
            "permission_suggestions": inquiry.suggestions,
            "tool_use_id": call.id,
        });
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
        match self.put(request).await {
            Ok(said) => said.answer(call, &input),
            Err(fault) => refused(&fault),
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
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
        match self.put(request).await {
            Ok(said) => said.leave(),
            // Whoever cannot answer has not allowed it.
            Err(_) => HostPermission::No,
        }
    }
}

impl Speaker {
    /// Puts a question; what is said is an `Err` where it cannot be read.
    async fn put(&self, request: Value) -> Result<Said, String> {
        self.state("requires_action");
        let answer = self.link.ask(request).await;
        self.state("running");
        let answer = answer.map_err(|fault| format!("Error: {fault}"))?;
        Said::deserialize(&answer).map_err(|fault| format!("the answer cannot be read: {fault}"))
    }
}

/// The input of a call as a host is shown it: of one that does not fit into a line, the beginnings of its texts.
fn shown(call: &ToolUse) -> Value {
    let mut input = call.input.to_value();
    fit(&mut input);
    input
}

/// What a host has made of the input of a call, if it has: what it sends back as it was shown is as it was.
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

/// What the host says of a call.
#[derive(Deserialize)]
#[serde(
    tag = "behavior",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
enum Said {
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

impl Said {
    /// The answer, of a host that was `shown` this input.
    fn answer(self, call: &ToolUse, shown: &Value) -> PermissionAnswer {
        match self {
            Self::Allow {
                updated_input,
                updated_permissions,
            } => PermissionAnswer::Allow {
                input: updated_input.and_then(|input| changed(input, shown, call)),
                // What is of no kind that we know changes nothing.
                updates: { updated_permissions.into_iter().flatten() }
                    .filter_map(|update| PermissionUpdate::deserialize(update).ok())
                    .collect(),
            },
            Self::Deny { message, interrupt } => PermissionAnswer::Deny { message, interrupt },
        }
    }

    /// The same, of a host of the network: what is said for longer than this once is a change of the permissions.
    fn leave(self) -> HostPermission {
        let Self::Allow {
            updated_permissions,
            ..
        } = self
        else {
            return HostPermission::No;
        };
        let updates = updated_permissions.into_iter().flatten();
        let updates = updates.filter_map(|update| PermissionUpdate::deserialize(update).ok());
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
