//! Hooks: user-defined programs and callbacks that are notified of events of a run and may influence it.
//!
//! They are called one after the other, in order. `verdict` parses the answers, and `absent` decides what it means that
//! there is none; calls are affected in `permission` and `tool_call`, everything else in `moments`.

mod absent;
mod call;
mod command;
mod elicitation;
mod event;
mod lines;
mod matcher;
mod said;
mod setting;
mod tasks;
mod unclear;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_conversation::{Access, Output, PatternRoots, PermissionMode, Rule, ToolUse, ToolUseId};
use async_trait::async_trait;
pub use call::{HookAnswer, HookCall, HookFailure, HookOutput, HookReply};
pub use command::CommandHook;
pub use elicitation::HookedElicitations;
pub use event::HookEvent;
pub use lines::{LineHooks, TextLine};
pub use matcher::{Matcher, MatcherError};
use serde_json::{Value, json};
pub use setting::{
    HookAction, HookCommand, HookFault, HookGroup, HookPost, HookSetting, OnFailure,
};
pub(crate) use tasks::events as task_events;
pub use verdict::{HookDecision, HookVerdict};

use crate::{Audience, SessionUpdate};

/// A hook.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Returns the event at which it is called.
    fn event(&self) -> HookEvent;

    /// Returns the filter for tools, or kinds of the event.
    fn matcher(&self) -> &Matcher;

    /// Returns its name for error messages.
    fn name(&self) -> &str;

    /// Returns what it is called in error messages.
    fn kind(&self) -> &'static str;

    /// Returns the rule that a call must match for the hook to be called.
    fn condition(&self) -> Option<&Rule>;

    /// Returns what its failure is to mean, if that was said.
    fn on_failure(&self) -> Option<OnFailure>;

    /// Calls the hook. To cancel, drop the future.
    async fn ask(&self, input: &Value, call: Option<&ToolUseId>) -> HookAnswer;
}

/// Session details contained in every hook payload.
#[derive(Debug, Clone, Default)]
pub struct HookSession {
    /// Public id of the session.
    pub session_id: String,
    /// File with the transcript.
    pub transcript_path: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
}

impl HookSession {
    /// Returns the file with the transcript of a subagent, which stands below the session's folder.
    pub fn transcript_of(&self, agent_id: &str) -> PathBuf {
        let folder = self.transcript_path.with_extension("").join("subagents");
        folder.join(format!("agent-{agent_id}.jsonl"))
    }
}

/// The hooks of a session.
#[derive(Clone, Default)]
pub struct Hooks {
    hooks: Vec<Arc<dyn Hook>>,
    session: HookSession,
    /// Number of hook calls so far.
    calls: Arc<AtomicUsize>,
    /// Id and definition name of the subagent whose hooks these are.
    agent: Option<Arc<(String, String)>>,
    /// Creates hooks from the settings in a subagent's definition.
    factory: Option<Arc<HookFactory>>,
}

/// Creates a hook from its setting; `None` leaves it out.
type HookFactory = dyn Fn(&HookSetting) -> Option<Arc<dyn Hook>> + Send + Sync;

/// An event at which hooks are called.
pub(crate) struct HookMoment<'a> {
    pub(crate) event: HookEvent,
    /// Text for matchers: the tool's name, or the kind of the event.
    pub(crate) kind: &'a str,
    /// `None` outside of the session's run.
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) call: Option<HookSubject<'a>>,
    /// Additional payload of the event, an object.
    pub(crate) more: Value,
}

/// The call that an event is about.
#[derive(Clone, Copy)]
pub(crate) struct HookSubject<'a> {
    pub(crate) call: &'a ToolUse,
    /// What the call would touch.
    pub(crate) accesses: &'a [Access],
    /// Base directories of path patterns.
    pub(crate) places: &'a PatternRoots,
}

impl HookMoment<'_> {
    /// Whether the hook's condition holds: for a call that might match its rule, and at no event that is not about a call.
    fn meets(&self, condition: Option<&Rule>) -> bool {
        let Some(rule) = condition else {
            return true;
        };
        let subject = self.call.filter(|_| self.event.is_of_one_call());
        subject.is_some_and(|it| rule.may_concern(it.call, it.accesses, it.places))
    }
}

impl Hooks {
    /// Creates the hooks of a session, called in this order.
    pub fn new(hooks: Vec<Arc<dyn Hook>>, session: HookSession) -> Self {
        Self {
            hooks,
            session,
            calls: Arc::default(),
            agent: None,
            factory: None,
        }
    }

    /// Sets the factory for hooks in definitions of subagents.
    #[must_use]
    pub fn with_factory(
        self,
        factory: impl Fn(&HookSetting) -> Option<Arc<dyn Hook>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            factory: Some(Arc::new(factory)),
            ..self
        }
    }

    /// Returns the hooks of a subagent's session, followed by `own` hooks of its definition. Such a session has no
    /// session start and end and no user prompts, and its Stop event is `SubagentStop`.
    pub(crate) fn of_agent(&self, id: &str, name: &str, own: &[HookSetting]) -> Self {
        let own = own.iter().filter_map(|setting| {
            let event = match setting.event {
                HookEvent::Stop => HookEvent::SubagentStop,
                event => event,
            };
            let factory = self.factory.as_ref()?;
            factory(&HookSetting {
                event,
                ..setting.clone()
            })
        });
        Self {
            hooks: self.hooks.iter().cloned().chain(own).collect(),
            agent: Some(Arc::new((id.to_owned(), name.to_owned()))),
            ..self.clone()
        }
    }

    /// Whether they are those of a subagent's session.
    pub(crate) fn are_of_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// Returns those that are called about tool calls.
    pub(crate) fn of_calls(&self) -> Self {
        let hooks = self.hooks.iter();
        Self {
            hooks: hooks
                .filter(|hook| hook.event().is_of_calls())
                .cloned()
                .collect(),
            ..self.clone()
        }
    }

    /// Returns the event's name in this session; `None` if hooks are not called.
    fn event(&self, event: HookEvent) -> Option<HookEvent> {
        match (event, &self.agent) {
            (_, None) => Some(event),
            (
                HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::UserPromptSubmit,
                Some(_),
            ) => None,
            (HookEvent::Stop, Some(_)) => Some(HookEvent::SubagentStop),
            (event, Some(_)) => Some(event),
        }
    }

    /// Returns the name of the session's team, as hooks are told it.
    pub(crate) fn team_name(&self) -> &str {
        &self.session.session_id
    }

    /// Whether any hook is called at `event`.
    pub fn has(&self, event: HookEvent) -> bool {
        let event = self.event(event);
        self.hooks.iter().any(|hook| Some(hook.event()) == event)
    }

    /// Calls the matching hooks one after the other and combines their answers.
    pub(crate) async fn ask(&self, moment: HookMoment<'_>, audience: &Audience) -> HookVerdict {
        let mut verdict = HookVerdict::default();
        let Some(event) = self.event(moment.event) else {
            return verdict;
        };
        let mut more = moment.more.clone();
        let mut kind = moment.kind;
        if let Some(agent) = &self.agent {
            let (id, name) = &**agent;
            more["agent_id"] = json!(id);
            more["agent_type"] = json!(name);
            if event == HookEvent::SubagentStop {
                more["agent_transcript_path"] = json!(self.session.transcript_of(id));
                kind = name;
            }
        }
        let matching = self
            .hooks
            .iter()
            .filter(|hook| hook.event() == event && hook.matcher().matches(kind));
        for hook in matching {
            // What a changed call would touch is not known yet, so each condition might hold.
            if verdict.input.is_none() && !moment.meets(hook.condition()) {
                continue;
            }
            let mut input = json!({
                "session_id": self.session.session_id,
                "transcript_path": self.session.transcript_path,
                "cwd": self.session.cwd,
            });
            if let Some(mode) = moment.mode {
                input["permission_mode"] = json!(mode.as_str());
            }
            input["hook_event_name"] = json!(event.as_str());
            merge(&mut input, &more);
            let call = HookCall {
                number: 1 + self.calls.fetch_add(1, Ordering::Relaxed),
                event,
                kind: kind.to_owned(),
            };
            audience.update(SessionUpdate::HookStarted(&call));
            let mut answer = hook.ask(&input, moment.call.map(|it| &it.call.id)).await;
            if let Some(fault) = unclear::fault(event, &answer.reply) {
                answer.reply = HookReply::Failed(HookFailure::Unclear(fault));
            }
            audience.update(SessionUpdate::HookEnded(&call, &answer));
            let next = match answer.reply {
                HookReply::Failed(failure) => {
                    let name = hook.name();
                    let title = format!("{} `{name}`", hook.kind());
                    let means = absent::verdict(event, &failure, hook.on_failure(), &title);
                    // A refusal has the reason with it.
                    if means.refusal().is_none() {
                        let event = event.as_str();
                        audience.notice(&format!("the {event} hook `{name}` failed: {failure}"));
                    }
                    means
                }
                reply => HookVerdict::read(event, reply),
            };
            // The next hook sees the input as changed by this one.
            if let Some(input) = &next.input {
                more["tool_input"] = input.to_value();
            }
            verdict.add(next);
            if verdict.stop_reason.is_some() || verdict.over.is_some() {
                break;
            }
        }
        verdict
    }
}

fn merge(input: &mut Value, more: &Value) {
    let more = more.as_object().into_iter().flatten();
    for (key, value) in more {
        input[key] = value.clone();
    }
}

/// Returns the payload for a call about to run.
pub(crate) fn call_payload(call: &ToolUse) -> Value {
    json!({
        "tool_name": call.name,
        "tool_input": call.input.to_value(),
        "tool_use_id": call.id.as_str(),
    })
}

/// Returns the payload for a call that has run.
pub(crate) fn output_payload(call: &ToolUse, output: &Output, duration_ms: u64) -> Value {
    let mut payload = call_payload(call);
    payload["duration_ms"] = json!(duration_ms);
    if output.is_error {
        payload["error"] = json!(output.content.text());
        payload["is_interrupt"] = json!(false);
    } else {
        let details = output.details.clone();
        payload["tool_response"] =
            details.unwrap_or_else(|| json!({ "output": output.content.text() }));
    }
    payload
}
