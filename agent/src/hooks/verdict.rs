//! Parsing of hook replies, and their combination. Pure.

use ah_conversation::{Behavior, ElicitationAnswer, Input, PermissionUpdate};
use serde_json::{Map, Value};

use super::{HookEvent, HookReply};

/// Combined answer of the hooks of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookVerdict {
    /// Decision about a call: deny takes precedence over ask, ask over allow.
    pub decision: Option<HookDecision>,
    /// Whether a call is left to a later run.
    pub defers: bool,
    /// Reason to block a prompt, the end of a run or a result.
    pub block: Option<String>,
    /// Input that replaces that of the call.
    pub input: Option<Input>,
    /// Additional context for the model.
    pub context: Vec<String>,
    /// Reason to end the run.
    pub stop_reason: Option<String>,
    /// Why no hook before a tool can be asked any more, so that the run fails.
    pub over: Option<String>,
    /// Permission updates.
    pub updates: Vec<PermissionUpdate>,
    /// Whether a denial ends the run.
    pub interrupt: bool,
    /// Output that replaces the tool's.
    pub output: Option<Value>,
    /// Answer to a question of an MCP server.
    pub elicitation: Option<ElicitationAnswer>,
    /// Output that replaces the tool's if it is from an MCP server.
    pub server_output: Option<Value>,
}

/// Decision of hooks about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookDecision {
    /// The decision.
    pub behavior: Behavior,
    /// Reason for the decision.
    pub reason: String,
}

impl HookVerdict {
    /// Parses a reply to `event`.
    pub(super) fn read(event: HookEvent, reply: HookReply) -> Self {
        match reply {
            HookReply::Nothing | HookReply::Failed(_) => Self::default(),
            HookReply::Object(object) => of_object(event, &object),
            // Plain text is context for the model at these two events only.
            HookReply::Text(text) => match event {
                HookEvent::SessionStart | HookEvent::UserPromptSubmit => Self {
                    context: vec![text],
                    ..Self::default()
                },
                _ => Self::default(),
            },
            HookReply::Block(reason) => Self::blocked(event, reason),
        }
    }

    /// Combines the verdict with that of the next hook.
    pub(super) fn add(&mut self, other: Self) {
        let weight = |decision: &Option<HookDecision>| match decision.as_ref().map(|it| it.behavior)
        {
            None => 0,
            Some(Behavior::Allow) => 1,
            Some(Behavior::Ask) => 2,
            Some(Behavior::Deny) => 3,
        };
        if weight(&other.decision) > weight(&self.decision) {
            self.decision = other.decision;
        }
        self.defers |= other.defers;
        self.block = self.block.take().or(other.block);
        self.input = other.input.or_else(|| self.input.take());
        self.context.extend(other.context);
        self.stop_reason = self.stop_reason.take().or(other.stop_reason);
        self.over = self.over.take().or(other.over);
        self.updates.extend(other.updates);
        self.interrupt |= other.interrupt;
        self.output = other.output.or_else(|| self.output.take());
        self.elicitation = other.elicitation.or_else(|| self.elicitation.take());
        self.server_output = other.server_output.or_else(|| self.server_output.take());
    }

    /// Returns the reason of a denial.
    pub(crate) fn denial(&self) -> Option<&str> {
        let decision = self.decision.as_ref()?;
        (decision.behavior == Behavior::Deny).then_some(decision.reason.as_str())
    }

    /// Returns the reason of a block or a denial.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.block.as_deref().or_else(|| self.denial())
    }

    /// Returns a block; for a call it is a denial.
    pub(super) fn blocked(event: HookEvent, reason: String) -> Self {
        let is_of_call = matches!(event, HookEvent::PreToolUse | HookEvent::PermissionRequest);
        let decision = is_of_call.then(|| HookDecision {
            behavior: Behavior::Deny,
            reason: reason.clone(),
        });
        let block = (!is_of_call).then_some(reason);
        Self {
            decision,
            block,
            ..Self::default()
        }
    }
}

fn of_object(event: HookEvent, object: &Map<String, Value>) -> HookVerdict {
    let text = |object: &Map<String, Value>, key: &str| {
        let text = object.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let reason = || text(object, "reason").unwrap_or_else(|| "no reason given".to_owned());
    let mut verdict = match object.get("decision").and_then(Value::as_str) {
        Some("block" | "deny") => HookVerdict::blocked(event, reason()),
        Some("approve" | "allow") if event == HookEvent::PreToolUse => HookVerdict {
            decision: Some(HookDecision {
                behavior: Behavior::Allow,
                reason: String::new(),
            }),
            ..HookVerdict::default()
        },
        _ => HookVerdict::default(),
    };
    if object.get("continue") == Some(&Value::Bool(false)) {
        let words = text(object, "stopReason");
        verdict.stop_reason = Some(words.unwrap_or_else(|| "a hook ended the run".to_owned()));
    }
    verdict.context.extend(text(object, "systemMessage"));
    let Some(specific) = object.get("hookSpecificOutput").and_then(Value::as_object) else {
        return verdict;
    };
    verdict.context.extend(text(specific, "additionalContext"));
    let output = |key: &str| specific.get(key).filter(|it| !it.is_null()).cloned();
    verdict.output = output("updatedToolOutput");
    verdict.server_output = output("updatedMCPToolOutput");
    match event {
        HookEvent::PreToolUse => {
            let reason = text(specific, "permissionDecisionReason").unwrap_or_default();
            let decision = specific.get("permissionDecision");
            verdict.defers = decision.and_then(Value::as_str) == Some("defer");
            if let Some(behavior) = decision.and_then(behavior) {
                let reason = match behavior {
                    Behavior::Deny if reason.is_empty() => "no reason given".to_owned(),
                    _ => reason,
                };
                verdict.decision = Some(HookDecision { behavior, reason });
            }
            verdict.input = input(specific);
        }
        HookEvent::PermissionRequest => {
            if let Some(decision) = specific.get("decision").and_then(Value::as_object) {
                verdict.decision =
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
        HookEvent::PreSkillShellCommand => {
            verdict.block = verdict.block.take().or_else(|| refusal(specific));
        }
        HookEvent::Elicitation | HookEvent::ElicitationResult => {
            verdict.elicitation = ElicitationAnswer::of_value(&Value::Object(specific.clone()));
        }
        _ => {}
    }
    verdict
}

/// Returns the reason to refuse a line of a text: whatever does not let it run as it is. Nobody can be asked about it, and
/// it cannot be changed.
fn refusal(specific: &Map<String, Value>) -> Option<String> {
    let given = |key: &str| specific.get(key).filter(|it| !it.is_null());
    let why = match given("permissionDecision").and_then(Value::as_str) {
        Some("deny") => "no reason given",
        Some("ask" | "defer") => "a hook leaves the decision to somebody else",
        _ => given("updatedInput").map(|_| "a hook would change it")?,
    };
    let reason = given("permissionDecisionReason").and_then(Value::as_str);
    let reason = reason.filter(|reason| !reason.is_empty());
    Some(reason.unwrap_or(why).to_owned())
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
        let decision = verdict
            .decision
            .map(|decision| format!("{:?} {}", decision.behavior, decision.reason));
        format!(
            "{}{} | {} | {} | {} | {}",
            if verdict.defers { "Defer " } else { "" },
            decision.unwrap_or_default(),
            verdict.block.unwrap_or_default(),
            verdict
                .input
                .map(|input| input.to_value().to_string())
                .unwrap_or_default(),
            verdict.context.join(", "),
            verdict.stop_reason.unwrap_or_default()
        )
    }

    /// Replies in the older and the newer format, and their combination.
    #[test]
    fn hook_replies_are_parsed_and_combined() {
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
            (
                HookEvent::PreToolUse,
                vec![pre("defer")],
                "Defer  |  |  |  | ",
            ),
            (
                HookEvent::PreToolUse,
                vec![pre("defer"), pre("allow")],
                "Defer Allow why |  |  |  | ",
            ),
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
            (
                HookEvent::PreSkillShellCommand,
                vec![pre("allow")],
                " |  |  |  | ",
            ),
            (
                HookEvent::PreSkillShellCommand,
                vec![pre("allow"), pre("ask")],
                " | why |  |  | ",
            ),
            (
                HookEvent::PreSkillShellCommand,
                vec![json!({"hookSpecificOutput": {"permissionDecision": "defer"}})],
                " | a hook leaves the decision to somebody else |  |  | ",
            ),
            (
                HookEvent::PreSkillShellCommand,
                vec![
                    json!({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {}}}),
                ],
                " | a hook would change it |  |  | ",
            ),
        ] {
            assert_eq!(check(event, &replies), expected, "{replies:?}");
        }
    }
}
