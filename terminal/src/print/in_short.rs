//! What the model is told of a call, in fewer words for a person: one that did not run, and one that runs on.

use std::borrow::Cow;

use ah_agent::Subagents;
use ah_conversation::without_advice;
use serde_json::Value;

/// What the model is told of a call that the person has denied.
pub const REFUSED: &str = "The user does not want this call to happen";
/// The same of one that mode `plan` denies.
const PLANNING: &str = "mode `plan` does not allow this call.";

/// Returns the output of a failed call as a person reads it.
pub fn in_short(output: &str) -> Cow<'_, str> {
    if let Some(rest) = output.strip_prefix(REFUSED) {
        return Cow::Owned(match rest.strip_prefix(": ") {
            Some(reason) => format!("declined: {reason}"),
            None => "declined".to_owned(),
        });
    }
    match output.ends_with(PLANNING) {
        true => Cow::Borrowed("blocked: plan mode is read-only"),
        false => without_advice(output),
    }
}

/// Returns what a person reads of a call that has only begun something, if `output` is that of one. A program can print the
/// same words, but the tool and the details are not its own.
pub fn in_background(tool: &str, output: &str, details: &Value) -> Option<&'static str> {
    let first = output.lines().next()?;
    let is_job = first.starts_with("started in the background as job ")
        && details
            .get("backgroundTaskId")
            .is_some_and(Value::is_string);
    let is_agent = [Subagents::OWN_NAME, Subagents::SDK_NAME].contains(&tool)
        && details.get("isAsync") == Some(&Value::Bool(true))
        && first.starts_with("The subagent `")
        && first.contains(" works in the background as ");
    (is_job || is_agent).then_some("running in the background")
}

#[cfg(test)]
mod tests {
    use ah_conversation::{
        Access, Decision, LiveOutput, PermissionMode, Permissions, ToolUse, interrupted,
    };

    use super::*;
    use crate::print::question::refused;

    #[test]
    fn what_a_person_has_said_is_told_in_a_word() {
        let permissions = Permissions {
            mode: PermissionMode::Plan,
            ..Permissions::default()
        };
        let call = ToolUse {
            id: "c".into(),
            name: "bash".to_owned(),
            input: serde_json::json!({}).into(),
        };
        let Decision::Deny(planning) = permissions.decide(&call, &[Access::Unknown]) else {
            panic!("mode plan denies what is not known");
        };
        let denied = |reason: &str| match refused(reason) {
            ah_conversation::PermissionAnswer::Deny { message, .. } => message,
            other => panic!("{other:?}"),
        };
        let cut = interrupted(&LiveOutput::default());
        for (output, expected) in [
            (planning, "blocked: plan mode is read-only"),
            (denied(""), "declined"),
            (denied("use main"), "declined: use main"),
            (cut.clone(), "interrupted"),
            (format!("tick\n[{cut}]"), "tick\n[interrupted]"),
            ("no such file".to_owned(), "no such file"),
        ] {
            assert_eq!(in_short(&output), expected);
        }
    }
}
