//! What hooks say, read from the objects and exit codes in which they say it. Pure.

use ah_conversation::{Behavior, Input, PermissionUpdate};
use serde_json::{Map, Value};

use super::{HookEvent, HookReply};

/// What hooks say together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookVerdict {
    /// Whether a call may happen: denying counts most, then asking.
    pub say: Option<HookDecision>,
    /// What they block: a prompt, the end of a run, a result.
    pub block: Option<String>,
    /// The input in the place of the call's.
    pub input: Option<Input>,
    /// What the model is told besides.
    pub context: Vec<String>,
    /// That the run ends, and why.
    pub ends: Option<String>,
    /// What changes of the permissions.
    pub updates: Vec<PermissionUpdate>,
    /// Whether a denial ends the run.
    pub interrupt: bool,
    /// The output in the place of a tool's.
    pub output: Option<Value>,
    /// The same, if the tool is a server's.
    pub server_output: Option<Value>,
}

/// What hooks say of a call, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDecision {
    /// What is to become of it.
    pub behavior: Behavior,
    /// Why.
    pub reason: String,
}

impl HookVerdict {
    /// What one reply at `event` says.
    pub(super) fn read(event: HookEvent, reply: HookReply) -> Self {
        match reply {
            HookReply::Nothing | HookReply::Failed(_) => Self::default(),
            HookReply::Object(object) => of_object(event, &object),
            // At these two, plain words are for the model.
            HookReply::Text(text) => match event {
                HookEvent::SessionStart | HookEvent::UserPromptSubmit => Self {
                    context: vec![text],
                    ..Self::default()
                },
                _ => Self::default(),
            },
            HookReply::Block(reason) => blocked(event, reason),
        }
    }

    /// Adds what the next one says.
    pub(super) fn add(&mut self, other: Self) {
        let weight = |say: &Option<HookDecision>| match say.as_ref().map(|say| say.behavior) {
            None => 0,
            Some(Behavior::Allow) => 1,
            Some(Behavior::Ask) => 2,
            Some(Behavior::Deny) => 3,
        };
        if weight(&other.say) > weight(&self.say) {
            self.say = other.say;
        }
        self.block = self.block.take().or(other.block);
        self.input = other.input.or_else(|| self.input.take());
        self.context.extend(other.context);
        self.ends = self.ends.take().or(other.ends);
        self.updates.extend(other.updates);
        self.interrupt |= other.interrupt;
        self.output = other.output.or_else(|| self.output.take());
        self.server_output = other.server_output.or_else(|| self.server_output.take());
    }

    /// What is denied, and why.
    pub(crate) fn denial(&self) -> Option<&str> {
        let say = self.say.as_ref()?;
        (say.behavior == Behavior::Deny).then_some(say.reason.as_str())
    }
}

/// A block: of a call it is a denial.
fn blocked(event: HookEvent, reason: String) -> HookVerdict {
    let is_of_call = matches!(event, HookEvent::PreToolUse | HookEvent::PermissionRequest);
    let say = is_of_call.then(|| HookDecision {
        behavior: Behavior::Deny,
        reason: reason.clone(),
    });
    let block = (!is_of_call).then_some(reason);
    HookVerdict {
        say,
        block,
        ..HookVerdict::default()
    }
}

fn of_object(event: HookEvent, object: &Map<String, Value>) -> HookVerdict {
    let text = |object: &Map<String, Value>, key: &str| {
        let text = object.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let reason = || text(object, "reason").unwrap_or_else(|| "no reason was given".to_owned());
    let mut verdict = match object.get("decision").and_then(Value::as_str) {
        Some("block" | "deny") => blocked(event, reason()),
        Some("approve" | "allow") if event == HookEvent::PreToolUse => HookVerdict {
            say: Some(HookDecision {
                behavior: Behavior::Allow,
                reason: String::new(),
            }),
            ..HookVerdict::default()
        },
        _ => HookVerdict::default(),
    };
    if object.get("continue") == Some(&Value::Bool(false)) {
        let words = text(object, "stopReason");
        verdict.ends = Some(words.unwrap_or_else(|| "a hook has ended the run".to_owned()));
    }
    verdict.context.extend(text(object, "systemMessage"));
    let Some(specific) = object.get("hookSpecificOutput").and_then(Value::as_object) else {
        return verdict;
    };
    verdict.context.extend(text(specific, "additionalContext"));
    verdict.output = specific.get("updatedToolOutput").cloned();
    verdict.server_output = specific.get("updatedMCPToolOutput").cloned();
    match event {
        HookEvent::PreToolUse => {
            let reason = text(specific, "permissionDecisionReason").unwrap_or_default();
            let behavior = specific.get("permissionDecision").and_then(behavior);
            if let Some(behavior) = behavior {
                verdict.say = Some(HookDecision { behavior, reason });
            }
            verdict.input = input(specific);
        }
        HookEvent::PermissionRequest => {
            if let Some(decision) = specific.get("decision").and_then(Value::as_object) {
                verdict.say =
                    decision
                        .get("behavior")
                        .and_then(behavior)
                        .map(|behavior| HookDecision {
                            behavior,
                            reason: text(decision, "message").unwrap_or_default(),
                        });
                verdict.input = input(decision);
                verdict.interrupt = decision.get("interrupt") == Some(&Value::Bool(true));
                let updates = decision.get("updatedPermissions").cloned();
                verdict.updates = updates
                    .and_then(|updates| serde_json::from_value(updates).ok())
                    .unwrap_or_default();
            }
        }
        _ => {}
    }
    verdict
}

fn behavior(word: &Value) -> Option<Behavior> {
    match word.as_str()? {
        "allow" => Some(Behavior::Allow),
        "deny" => Some(Behavior::Deny),
        "ask" => Some(Behavior::Ask),
        _ => None,
    }
}

fn input(object: &Map<String, Value>) -> Option<Input> {
    let input = object.get("updatedInput").filter(|input| input.is_object());
    input.cloned().map(Input::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(event: HookEvent, replies: &[Value]) -> String {
        let mut verdict = HookVerdict::default();
        for reply in replies {
            let reply = HookReply::Object(reply.as_object().unwrap().clone());
            verdict.add(HookVerdict::read(event, reply));
        }
        let said = verdict
            .say
            .map(|say| format!("{:?} {}", say.behavior, say.reason));
        format!(
            "{} | {} | {} | {} | {}",
            said.unwrap_or_default(),
            verdict.block.unwrap_or_default(),
            verdict
                .input
                .map(|input| input.to_value().to_string())
                .unwrap_or_default(),
            verdict.context.join(", "),
            verdict.ends.unwrap_or_default()
        )
    }

    /// Port 07 b and f: what is said, in the older and the newer form, and together.
    #[test]
    fn port_07_b_f_what_hooks_say_is_read() {
        let pre = |decision: &str| {
            json!({"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "why"
            }})
        };
        for (event, replies, expected) in [
            (HookEvent::PreToolUse, vec![json!({})], " |  |  |  | "),
            (
                HookEvent::PreToolUse,
                vec![pre("allow")],
                "Allow why |  |  |  | ",
            ),
            (
                HookEvent::PreToolUse,
                vec![pre("allow"), pre("deny"), pre("ask")],
                "Deny why |  |  |  | ",
            ),
            (
                HookEvent::PreToolUse,
                vec![pre("ask"), pre("allow")],
                "Ask why |  |  |  | ",
            ),
            (HookEvent::PreToolUse, vec![pre("defer")], " |  |  |  | "),
            (
                HookEvent::PreToolUse,
                vec![json!({"decision": "block", "reason": "old"})],
                "Deny old |  |  |  | ",
            ),
            (
                HookEvent::PreToolUse,
                vec![json!({"decision": "approve"})],
                "Allow  |  |  |  | ",
            ),
            (
                HookEvent::PreToolUse,
                vec![
                    json!({"hookSpecificOutput": {"updatedInput": {"a": 1}, "additionalContext": "c"}, "systemMessage": "s"}),
                ],
                " |  | {\"a\":1} | s, c | ",
            ),
            (
                HookEvent::Stop,
                vec![json!({"decision": "block", "reason": "go on"})],
                " | go on |  |  | ",
            ),
            (
                HookEvent::PostToolUse,
                vec![json!({"continue": false, "stopReason": "enough"})],
                " |  |  |  | enough",
            ),
            (
                HookEvent::PermissionRequest,
                vec![
                    json!({"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}),
                ],
                "Deny no |  |  |  | ",
            ),
            (
                HookEvent::PreToolUse,
                vec![json!({"hookSpecificOutput": 3, "decision": [], "continue": "no"})],
                " |  |  |  | ",
            ),
        ] {
            assert_eq!(check(event, &replies), expected, "{replies:?}");
        }
    }
}
