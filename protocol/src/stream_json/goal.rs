//! The check of a run as the SDKs know it: an active goal, whose condition the engine has looked at.

use ah_conversation::{Evidence, Time, Verification};
use serde_json::{Value, json};

/// Returns the message about a goal that was set at `since`; once it is met there is none.
pub(super) fn active(known: &Verification, since: Time) -> Value {
    let mut value = json!({
        "condition": known.command,
        "iterations": known.checks,
        "set_at": since.0,
        // Not counted.
        "tokens_at_start": 0,
    });
    if let Some(ending) = &known.ending {
        value["last_reason"] = json!(ending);
    }
    match known.evidence == Evidence::Verified {
        true => none(),
        false => json!({"type": "active_goal", "value": value}),
    }
}

/// Returns the message that there is no goal any more.
pub(super) fn none() -> Value {
    json!({"type": "active_goal", "value": null})
}
