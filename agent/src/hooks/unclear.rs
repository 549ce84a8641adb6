//! Answers of hooks that decide something, but not in words of the hook protocol. Pure.
//!
//! Such a hook has failed (`absent`): read as no opinion, a misspelt refusal would let the call run.

use ah_conversation::{ElicitationAnswer, PermissionUpdate};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{HookEvent, HookReply, HookVerdict, said};

/// Words for a decision about a call.
const BEHAVIORS: [&str; 4] = ["allow", "deny", "ask", "defer"];
/// Words for a decision at any event.
const DECISIONS: [&str; 4] = ["block", "deny", "approve", "allow"];

/// Returns what cannot be read in a reply to `event`. A reply that refuses all the same is clear enough.
pub(super) fn fault(event: HookEvent, reply: &HookReply) -> Option<String> {
    let fault = match reply {
        HookReply::Text(text) if said::looks_like_answer(event, text) => {
            Some("its output looks like an answer but is not one JSON object".to_owned())
        }
        HookReply::Object(object) => of_object(event, object),
        _ => None,
    }?;
    let read = HookVerdict::read(event, reply.clone());
    let refuses = read.stop_reason.is_some() || read.refusal().is_some();
    (!refuses).then_some(fault)
}

fn of_object(event: HookEvent, object: &Map<String, Value>) -> Option<String> {
    let fault = misspelt(object, &["decision", "continue", "hookSpecificOutput"])
        .or_else(|| word(object, "decision", &DECISIONS))
        .or_else(|| kind(object, "continue", "true or false", Value::is_boolean))
        .or_else(|| kind(object, "hookSpecificOutput", "an object", Value::is_object));
    if fault.is_some() {
        return fault;
    }
    let Some(specific) = object.get("hookSpecificOutput").and_then(Value::as_object) else {
        let is_of_call = matches!(
            event,
            HookEvent::PreToolUse | HookEvent::PreSkillShellCommand
        );
        return (is_of_call && given(object, "permissionDecision").is_some())
            .then(|| "its `permissionDecision` is not within `hookSpecificOutput`".to_owned());
    };
    let fault = misspelt(
        specific,
        &["permissionDecision", "updatedInput", "decision", "action"],
    );
    if fault.is_some() {
        return fault;
    }
    match event {
        HookEvent::PreToolUse => word(specific, "permissionDecision", &BEHAVIORS)
            .or_else(|| kind(specific, "updatedInput", "an object", Value::is_object)),
        HookEvent::PreSkillShellCommand => word(specific, "permissionDecision", &BEHAVIORS),
        HookEvent::PermissionRequest => {
            let fault = kind(specific, "decision", "an object", Value::is_object);
            fault.or_else(|| of_permission(specific.get("decision")?.as_object()?))
        }
        HookEvent::Elicitation | HookEvent::ElicitationResult => {
            let action = given(specific, "action")?;
            let is_known = ElicitationAnswer::of_value(&Value::Object(specific.clone())).is_some();
            (!is_known).then(|| unknown("action", action, &["accept", "decline", "cancel"]))
        }
        _ => None,
    }
}

fn of_permission(decision: &Map<String, Value>) -> Option<String> {
    if given(decision, "behavior").is_none() {
        return Some("its `decision` has no `behavior`".to_owned());
    }
    let is_updates = |value: &Value| Vec::<PermissionUpdate>::deserialize(value).is_ok();
    word(decision, "behavior", &BEHAVIORS[..3])
        .or_else(|| kind(decision, "updatedInput", "an object", Value::is_object))
        .or_else(|| kind(decision, "interrupt", "true or false", Value::is_boolean))
        .or_else(|| {
            kind(
                decision,
                "updatedPermissions",
                "a list of updates",
                is_updates,
            )
        })
}

/// Returns the fault of a key that is one of these in another spelling, as libraries derive it from names in code.
fn misspelt(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let bare = |key: &str| key.replace(['_', '-', ' '], "").to_lowercase();
    object.keys().find_map(|found| {
        let key = keys.iter().find(|key| bare(key) == bare(found))?;
        (*key != found).then(|| format!("its key `{found}` has to be `{key}`"))
    })
}

/// Returns a value; null is none.
fn given<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// Returns the fault of a value that is none of these words.
fn word(object: &Map<String, Value>, key: &str, words: &[&str]) -> Option<String> {
    let value = given(object, key)?;
    let is_known = value.as_str().is_some_and(|word| words.contains(&word));
    (!is_known).then(|| unknown(key, value, words))
}

fn unknown(key: &str, value: &Value, words: &[&str]) -> String {
    let mut shown = value.to_string();
    shown.truncate(shown.floor_char_boundary(60));
    format!("its `{key}` is {shown}; expected `{}`", words.join("`, `"))
}

/// Returns the fault of a value of another kind.
fn kind(
    object: &Map<String, Value>,
    key: &str,
    expected: &str,
    is: impl Fn(&Value) -> bool,
) -> Option<String> {
    let value = given(object, key)?;
    (!is(value)).then(|| format!("its `{key}` is not {expected}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_misspelt_decision_is_a_fault() {
        use HookEvent::{
            Elicitation, PermissionRequest, PreSkillShellCommand, PreToolUse, SessionStart, Stop,
        };
        let specific = |value: Value| json!({ "hookSpecificOutput": value });
        let of_permission = |value: Value| specific(json!({ "decision": value }));
        for (event, said, expected) in [
            (PreToolUse, json!({}), ""),
            (
                PreToolUse,
                json!({"decision": null, "systemMessage": 3}),
                "",
            ),
            (PreToolUse, json!({"decision": "approve"}), ""),
            (
                PreToolUse,
                json!({"HookSpecificOutput": {"PermissionDecision": "deny"}}),
                "its key `HookSpecificOutput` has to be `hookSpecificOutput`",
            ),
            (
                PreToolUse,
                specific(json!({"permission_decision": "deny"})),
                "its key `permission_decision` has to be `permissionDecision`",
            ),
            (
                PreToolUse,
                json!({"permissionDecision": "deny"}),
                "its `permissionDecision` is not within `hookSpecificOutput`",
            ),
            (Stop, json!({"permissionDecision": "deny"}), ""),
            (
                PreToolUse,
                json!({"decision": "Block"}),
                "its `decision` is \"Block\"; expected `block`, `deny`, `approve`, `allow`",
            ),
            (
                Stop,
                json!({"decision": ["block"]}),
                "its `decision` is [\"block\"]; expected `block`, `deny`, `approve`, `allow`",
            ),
            (
                PreToolUse,
                json!({"continue": "false"}),
                "its `continue` is not true or false",
            ),
            (
                PreToolUse,
                specific(json!(3)),
                "its `hookSpecificOutput` is not an object",
            ),
            (
                PreToolUse,
                specific(json!({"permissionDecision": "defer"})),
                "",
            ),
            (
                PreToolUse,
                specific(json!({"permissionDecision": "Deny"})),
                "its `permissionDecision` is \"Deny\"; expected `allow`, `deny`, `ask`, `defer`",
            ),
            (
                PreToolUse,
                specific(json!({"permissionDecision": false})),
                "its `permissionDecision` is false; expected `allow`, `deny`, `ask`, `defer`",
            ),
            (
                PreToolUse,
                specific(json!({"updatedInput": "ls"})),
                "its `updatedInput` is not an object",
            ),
            (Stop, specific(json!({"permissionDecision": "Deny"})), ""),
            (
                PreSkillShellCommand,
                specific(json!({"permissionDecision": "Deny"})),
                "its `permissionDecision` is \"Deny\"; expected `allow`, `deny`, `ask`, `defer`",
            ),
            (
                PermissionRequest,
                of_permission(json!({"behavior": "allow", "updatedPermissions": []})),
                "",
            ),
            (
                PermissionRequest,
                of_permission(json!({"behaviour": "deny"})),
                "its `decision` has no `behavior`",
            ),
            (
                PermissionRequest,
                of_permission(json!("deny")),
                "its `decision` is not an object",
            ),
            (
                PermissionRequest,
                of_permission(json!({"behavior": "no"})),
                "its `behavior` is \"no\"; expected `allow`, `deny`, `ask`",
            ),
            (
                PermissionRequest,
                of_permission(json!({"behavior": "allow", "updatedPermissions": 1})),
                "its `updatedPermissions` is not a list of updates",
            ),
            (Elicitation, specific(json!({"action": "accept"})), ""),
            (
                Elicitation,
                specific(json!({"action": "yes"})),
                "its `action` is \"yes\"; expected `accept`, `decline`, `cancel`",
            ),
            // What refuses is clear enough.
            (
                PreToolUse,
                json!({"continue": false, "decision": "Block"}),
                "",
            ),
            (
                PreToolUse,
                json!({"decision": "block", "hookSpecificOutput": 3}),
                "",
            ),
        ] {
            let reply = HookReply::Object(said.as_object().unwrap().clone());
            assert_eq!(fault(event, &reply).unwrap_or_default(), expected, "{said}");
        }
        let text = HookReply::Text("{\"decision\": \"block\",}".to_owned());
        assert!(fault(PreToolUse, &text).is_some());
        assert!(fault(SessionStart, &text).is_none());
    }
}
