//! Calls by a running call: a session below it, like a subagent's, in which a program answers instead of a model. It has the
//! permissions, hooks and tools of the session whose call it is, and none of its limits of tokens, since it uses none.

use std::fmt;
use std::sync::Arc;

use ah_conversation::{
    Access, Branch, Caller, CheckInForce, ContentBlock, Context, ExitReason, Input, Limits,
    LiveOutput, Output, Provider, Role, Task, TaskKind, Tool, ToolExtras, ToolSpec, ToolUse,
    Truncation, interrupted,
};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::Parent;
use super::begin::fresh_id;
use super::host::HostBelow;
use super::relay::tell_above;
use crate::background::Background;
use crate::{
    Audience, Ports, Ready, RunOutcome, Session, SessionSettings, SessionUpdate, Stop, Toolbox,
    Watcher, no_refusals,
};

/// Beginning of the ids of these conversations; those of subagents begin otherwise.
const ID: &str = "script-";
/// Name under which displays and transcripts know them.
const NAME: &str = "script";
/// Largest result of a call that a program is given: it can read more than a model.
const RESULT: Truncation = Truncation {
    bytes: 256 * 1024,
    lines: None,
};

/// Makes calls for a call of this session.
pub(crate) struct SessionCaller {
    parent: Parent,
    tasks: Background,
    stop: Stop,
}

impl Session {
    /// Returns the port through which a call that starts now makes calls; they can end the run by `stop`.
    pub(crate) fn caller(&self, stop: &Stop) -> Arc<dyn Caller> {
        Arc::new(SessionCaller {
            parent: self.as_parent(),
            tasks: self.background.shared(),
            stop: stop.clone(),
        })
    }

    /// Returns what is known of the calls that the call with the conversation `id` below it has made, if it is one of
    /// [`Caller`].
    pub(crate) async fn account_of(&self, call: &ToolUse, id: &str) -> Option<String> {
        id.starts_with(ID).then_some(())?;
        let branch = Branch {
            agent_id: id.to_owned(),
            spawned_by: call.id.clone(),
        };
        let below = self.ports.store.clone().branch(branch).load().await.ok()?;
        let messages = || below.messages().iter();
        let ended = messages().flat_map(|message| message.tool_results());
        let mut lines: Vec<_> = ended.map(|result| result.tool_name.clone()).collect();
        lines.dedup();
        let open = below.open_calls().into_iter().map(|call| &call.name);
        let open: Vec<_> = open.map(String::as_str).collect();
        Some(format!(
            "{} Calls inside it that have ended: {}. Others that were begun: {}.",
            interrupted(&LiveOutput::default()),
            or_none(&lines.join(", ")),
            or_none(&open.join(", "))
        ))
    }
}

fn or_none(list: &str) -> &str {
    if list.is_empty() { "none" } else { list }
}

impl fmt::Debug for SessionCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCaller")
    }
}

#[async_trait]
impl Caller for SessionCaller {
    async fn converse(
        &self,
        call: &ToolUse,
        prompt: String,
        answering: Arc<dyn Provider>,
    ) -> Option<String> {
        let from = &self.parent.ports;
        // Some servers give the calls of each answer the same ids.
        let id = format!("{ID}{}", fresh_id(&self.parent));
        let task = Task {
            id: id.clone(),
            call: call.id.clone(),
            description: NAME.to_owned(),
            kind: TaskKind::Agent {
                name: NAME.to_owned(),
                prompt: prompt.clone(),
                depth: 1,
            },
            is_background: false,
        };
        let ports = Ports {
            provider: answering.clone(),
            summarizer: answering.clone(),
            store: from.store.clone().branch(Branch {
                agent_id: id,
                spawned_by: call.id.clone(),
            }),
            audience: Audience::watching(Arc::new(Below {
                outer: from.audience.clone(),
                task,
            }))
            .with_host(Arc::new(HostBelow {
                outer: from.audience.host.clone(),
                controls: self.parent.controls.clone(),
                agent: None,
                asks: true,
            }))
            .with_editor(from.audience.editor.clone()),
            hooks: from.hooks.of_calls(),
            // The result of the call says it, not what a program reads.
            refusals: no_refusals(),
            ..from.clone()
        };
        let tools = self.parent.tools.iter().cloned();
        let tools = tools.filter(|tool| !tool.extras().is_for_model_alone);
        let tools = Toolbox::callable(tools.map(|tool| Arc::new(Longer::of(tool)) as Arc<_>));
        let session = Session::open(ports, tools, self.settings(&*answering)).await;
        let mut session = match session {
            Ok(session) => session,
            Err(error) => return Some(error.to_string()),
        };
        session.origin_prompt = self.parent.origin_prompt.clone();
        session.background = self.tasks.shared();
        self.parent.controls.lead(&session.controls, None);
        let stop = Stop::interrupt(CancellationToken::new());
        let ran = session.run(vec![ContentBlock::text(prompt)], &stop).await;
        match ran {
            Ok(outcome) => self.ended(&session, outcome),
            Err(error) => Some(error.to_string()),
        }
    }
}

impl SessionCaller {
    /// Returns the settings for a session in which `answering` answers.
    fn settings(&self, answering: &dyn Provider) -> SessionSettings {
        let from = &self.parent.settings;
        let now = self.parent.ports.clock.now();
        SessionSettings {
            prompt: Vec::new().into(),
            plan_instructions: None,
            limits: Limits {
                context_window: answering.model().context_window,
                allows_repetition: true,
                ..Limits::default()
            },
            timeout_ms: from.limits.deadline.map(|deadline| deadline.since(now)),
            max_messages: None,
            max_result_chars: None,
            must_produce: None,
            check: CheckInForce::default(),
            answer_form: None,
            ..from.clone()
        }
    }

    /// Returns why a run ended before its program did. If it was told to end, by an answer or a hook, so is the run above.
    fn ended(&self, session: &Session, outcome: RunOutcome) -> Option<String> {
        if let Some(failure) = outcome.failure {
            return Some(failure.to_string());
        }
        let last = session.transcript().last();
        let is_answered = last.is_some_and(|last| last.role == Role::Assistant);
        if outcome.reason.is_end_of_turn() && is_answered {
            return None;
        }
        if matches!(
            outcome.reason,
            ExitReason::Interrupted | ExitReason::EndTurn
        ) {
            self.stop.halt(outcome.reason.clone());
        }
        Some(format!("it was ended: {}", outcome.reason))
    }
}

/// A tool whose results are cut later.
struct Longer {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
}

impl Longer {
    fn of(tool: Arc<dyn Tool>) -> Self {
        let spec = ToolSpec {
            truncation: RESULT,
            ..tool.spec().clone()
        };
        Self { tool, spec }
    }
}

#[async_trait]
impl Tool for Longer {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        self.tool.access(input)
    }

    fn extras(&self) -> ToolExtras<'_> {
        self.tool.extras()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        self.tool.run(call, context).await
    }
}

/// Watcher of the calls, which are shown below the call that makes them.
struct Below {
    outer: Audience,
    task: Task,
}

impl Watcher for Below {
    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Happened(_) => {}
            SessionUpdate::Notice(text) => self.outer.notice(text),
            update => tell_above(&self.outer, &self.task, update),
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        Some(Box::pin(self.outer.ready()))
    }
}
