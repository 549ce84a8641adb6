//! Messages as one line or as JSON, for commands that list the conversation tree.

use std::collections::HashMap;

use ah_conversation::{Environment, Head, Input, Interface, Message, Origin, Role, ToolUse};
use ah_tools::Profile;
use serde_json::{Value, json};

use ah_config::Error;

use crate::line::preview;

/// The key argument of each tool, which stands for a call in lists.
pub struct Keys(HashMap<String, String>);

impl Keys {
    /// Returns the key arguments of the built-in tools, under the names of both interfaces.
    pub fn of(environment: &Environment) -> Result<Self, Error> {
        let mut keys = HashMap::new();
        for (profile, interface) in [
            (Profile::Default, Interface::Native),
            (Profile::Sdk, Interface::AgentSdk),
        ] {
            for spec in ah_engine::assemble::specs::specs(environment, profile, interface)? {
                if let Some(key) = spec.key {
                    keys.insert(spec.name, key.argument().to_owned());
                }
            }
        }
        Ok(Self(keys))
    }

    /// Returns no key arguments.
    #[cfg(test)]
    pub fn none() -> Self {
        Self(HashMap::new())
    }

    /// Formats a call as `bash make test`, with at most `width` characters after the tool's name.
    pub fn show(&self, call: &ToolUse, width: usize) -> String {
        let key = preview(&self.key(&call.name, &call.input), width);
        format!("{} {key}", preview(&call.name, 40))
            .trim_end()
            .to_owned()
    }

    /// Returns the key argument of a call; for an unknown tool its first text argument.
    fn key(&self, tool: &str, input: &Input) -> String {
        if let Some(text) = self.0.get(tool).and_then(|key| input.text(key)) {
            return text.to_owned();
        }
        let Input::Object(arguments) = input else {
            return String::new();
        };
        arguments
            .values()
            .find_map(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }
}

/// Returns `U` or `A`.
pub fn letter(role: Role) -> char {
    match role {
        Role::User => 'U',
        Role::Assistant => 'A',
    }
}

/// Returns the name of a role.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// Returns whether a message holds only tool results.
pub fn is_only_results(head: &Head) -> bool {
    head.message.origin == Origin::Results && head.preview.trim().is_empty()
}

/// Returns the beginning of a message's text, or its tool calls if it has none, with the id of its agent.
pub fn summary(head: &Head, keys: &Keys, width: usize) -> String {
    match &head.agent_id {
        Some(agent_id) => format!("[{agent_id}] {}", said(head, keys, width)),
        None => said(head, keys, width),
    }
}

fn said(head: &Head, keys: &Keys, width: usize) -> String {
    let text = preview(&head.preview, width);
    if !text.is_empty() {
        return text;
    }
    if is_only_results(head) {
        return "← results".to_owned();
    }
    let calls: Vec<_> = head
        .tool_uses
        .iter()
        .map(|call| keys.show(call, width))
        .collect();
    if calls.is_empty() {
        return String::new();
    }
    preview(&format!("→ {}", calls.join(", ")), width)
}

/// Returns a message of a list as JSON.
pub fn to_json(head: &Head) -> Value {
    let Message {
        id,
        parent,
        seq,
        origin,
        created_at,
        response,
        ..
    } = &head.message;
    json!({
        "id": id,
        "parent": parent,
        "agent_id": head.agent_id,
        "seq": seq,
        "role": role(head.message.role),
        "origin": origin,
        "created_at": created_at.seconds(),
        "stop_reason": response.as_ref().map(|response| response.stop_reason.as_str()),
        "preview": head.preview,
        "tool_uses": head.tool_uses,
    })
}
