//! Parsing of a decision about a call: the answer of a host, or of the tool that decides in its place. Pure.

use ah_conversation::{HostPermission, Input, PermissionAnswer, PermissionUpdate, ToolUse};
use serde::Deserialize;
use serde_json::Value;

/// The host's decision on a call.
#[derive(Deserialize)]
#[serde(
    tag = "behavior",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub(crate) enum HostDecision {
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
    pub(crate) fn answer(self, call: &ToolUse, shown: &Value) -> PermissionAnswer {
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
    pub(crate) fn leave(self) -> HostPermission {
        let Self::Allow {
            updated_permissions,
            ..
        } = self
        else {
            return HostPermission::No;
        };
        let values = updated_permissions.into_iter().flatten();
        let updates = values.filter_map(|update| PermissionUpdate::deserialize(update).ok());
        HostPermission::of(&updates.collect::<Vec<_>>())
    }
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
