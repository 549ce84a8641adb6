//! Hooks: they allow, deny, change, end and add, fail or do not answer.

use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{Hook, HookAnswer, HookEvent, HookFailure, HookReply, Matcher, OnFailure};
use ah_conversation::{Rule, ToolUseId};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::permits::Permit;
use crate::plant::PlantedFault;
use crate::world::World;

/// Events at which there is a hook.
const EVENTS: [HookEvent; 10] = [
    HookEvent::SessionStart,
    HookEvent::UserPromptSubmit,
    HookEvent::PreToolUse,
    HookEvent::PermissionRequest,
    HookEvent::PostToolUse,
    HookEvent::PostToolBatch,
    HookEvent::PreCompact,
    HookEvent::Stop,
    HookEvent::SubagentStart,
    HookEvent::SubagentStop,
];
/// Time after which a hook counts as one that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hook of a process.
struct SimulatedHook {
    world: Arc<World>,
    event: HookEvent,
    matcher: Matcher,
}

/// Returns the hooks of a process.
pub(crate) fn all(world: &Arc<World>) -> Vec<Arc<dyn Hook>> {
    let hook = |event| -> Arc<dyn Hook> {
        Arc::new(SimulatedHook {
            world: world.clone(),
            event,
            matcher: Matcher::default(),
        })
    };
    EVENTS.map(hook).into()
}

/// What a hook does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    Allows,
    Denies,
    Asks,
    Changes,
    Adds,
    Ends,
    TimesOut,
    Mumbles,
    Reports,
    Never,
}

impl SimulatedHook {
    /// Returns what it says this time.
    fn says(&self) -> Says {
        let mut state = self.world.state();
        let said = state.chance.below(40);
        if state.is_calm {
            return Says::Nothing;
        }
        match said {
            0 => Says::Allows,
            1 | 2 => Says::Denies,
            3 => Says::Asks,
            4 | 5 => Says::Changes,
            6 => Says::Adds,
            7 => Says::Ends,
            8 => Says::TimesOut,
            9 => Says::Mumbles,
            10 => Says::Reports,
            11 if state.will_be_stopped => Says::Never,
            _ => Says::Nothing,
        }
    }

    /// Returns the answer.
    fn answer(&self, says: Says, input: &Value) -> HookReply {
        let specific = |mut specific: Value| {
            specific["hookEventName"] = json!(self.event.as_str());
            object(&json!({"hookSpecificOutput": specific}))
        };
        let is_before = self.event == HookEvent::PreToolUse;
        let is_question = self.event == HookEvent::PermissionRequest;
        match says {
            Says::Allows if is_before => specific(json!({"permissionDecision": "allow"})),
            Says::Allows if is_question => specific(json!({"decision": {"behavior": "allow"}})),
            Says::Denies if is_question => {
                specific(json!({"decision": {"behavior": "deny", "message": "No."}}))
            }
            Says::Denies => HookReply::Block("No.".to_owned()),
            Says::Asks if is_before => specific(json!({"permissionDecision": "ask"})),
            Says::Changes if is_before => specific(json!({"updatedInput": changed(input)})),
            Says::Adds if !is_question => specific(json!({"additionalContext": "Mind this."})),
            Says::Ends => object(&json!({"continue": false})),
            Says::TimesOut | Says::Never => HookReply::no_answer("it took too long"),
            Says::Mumbles => object(&json!({"decision": "perhaps"})),
            Says::Reports => HookReply::Failed(HookFailure::Reported("it failed".to_owned())),
            _ => HookReply::Nothing,
        }
    }

    /// Returns what a call is after this answer.
    fn permit(&self, says: Says, input: &Value) -> Option<Permit> {
        match (self.event, says) {
            (HookEvent::PreToolUse, says) => Some(match says {
                Says::Denies | Says::Ends => Permit::Denied,
                Says::Asks | Says::TimesOut | Says::Never | Says::Mumbles => {
                    Permit::Asked(input.clone())
                }
                Says::Allows => Permit::Allowed(input.clone()),
                Says::Changes => Permit::Seen(changed(input)),
                _ => Permit::Seen(input.clone()),
            }),
            (HookEvent::PermissionRequest, Says::Denies) => Some(Permit::Denied),
            (HookEvent::PermissionRequest, Says::Allows) => Some(Permit::Allowed(input.clone())),
            _ => None,
        }
    }
}

fn object(value: &Value) -> HookReply {
    HookReply::Object(value.as_object().cloned().unwrap_or_default())
}

fn changed(input: &Value) -> Value {
    let mut input = input.clone();
    if let Some(input) = input.as_object_mut() {
        input.insert("file".to_owned(), json!(1));
    }
    input
}

#[async_trait]
impl Hook for SimulatedHook {
    fn event(&self) -> HookEvent {
        self.event
    }

    fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    fn name(&self) -> &str {
        "simulated"
    }

    fn kind(&self) -> &'static str {
        "hook"
    }

    fn condition(&self) -> Option<&Rule> {
        None
    }

    fn on_failure(&self) -> Option<OnFailure> {
        None
    }

    async fn ask(&self, input: &Value, call: Option<&ToolUseId>) -> HookAnswer {
        let world = &self.world;
        let says = self.says();
        let event = self.event.as_str();
        if says != Says::Nothing {
            world.state().tell(format!("a hook ({event}): {says:?}"));
        }
        world.moment().await;
        match says {
            Says::Never => {
                world.inject().await;
                tokio::time::sleep(PATIENCE).await;
            }
            Says::TimesOut => tokio::time::sleep(PATIENCE).await,
            _ => {}
        }
        let input = &input["tool_input"];
        let mut state = world.state();
        if let Some((call, permit)) = call.zip(self.permit(says, input)) {
            state.permits.note(call, permit);
        }
        if says == Says::Denies && state.planted(PlantedFault::HookUnheard, 1) {
            return HookReply::Nothing.into();
        }
        self.answer(says, input).into()
    }
}
