//! Shell commands in the text of a slash command, which run before the prompt is sent.
//!
//! They are no calls of the model, so no hook for calls sees them; hooks for `PreSkillShellCommand` may refuse them, and
//! nothing else: a line runs as it was written, or not at all.

use ah_conversation::{Access, PatternRoots, ToolUse};
use serde_json::json;

use super::{HookEvent, HookMoment, HookSubject, Hooks, call_payload};
use crate::Audience;

/// A shell command in the text of a slash command.
#[derive(Debug, Clone, Copy)]
pub struct TextLine<'a> {
    /// Name of the slash command.
    pub command: &'a str,
    /// The line as a call of the shell tool; its id is in no transcript.
    pub call: &'a ToolUse,
    /// What it would touch.
    pub accesses: &'a [Access],
    /// Base directories of path patterns.
    pub places: &'a PatternRoots,
}

/// The hooks that shell commands in texts need the consent of.
#[derive(Clone)]
pub struct LineHooks {
    hooks: Hooks,
    audience: Audience,
}

impl LineHooks {
    /// Creates those of a session; `audience` hears of their calls and failures.
    pub fn new(hooks: Hooks, audience: Audience) -> Self {
        Self { hooks, audience }
    }

    /// Returns the reason to refuse the line, if a hook does.
    pub async fn refusal(&self, line: TextLine<'_>) -> Option<String> {
        let mut more = call_payload(line.call);
        more["command_name"] = json!(line.command);
        // The model calls no slash commands.
        more["invoked_by"] = json!("user");
        let moment = HookMoment {
            event: HookEvent::PreSkillShellCommand,
            kind: &line.call.name,
            mode: None,
            call: Some(HookSubject {
                call: line.call,
                accesses: line.accesses,
                places: line.places,
            }),
            more,
        };
        let verdict = self.hooks.ask(moment, &self.audience).await;
        verdict.block.or(verdict.stop_reason)
    }
}
