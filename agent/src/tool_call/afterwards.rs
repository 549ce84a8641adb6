//! Hooks after a call: notified of its result, which they may change.

use std::time::Duration;

use ah_conversation::{CallState, ExitReason, Output, Tool, ToolName, ToolResult};
use serde_json::{Value, json};

use super::prepared::{CallPlan, PreparedCall};
use super::unsaved::written;
use crate::hooks::{
    HookEvent, HookMoment, HookSubject, HookVerdict, call_payload, output_payload, task_events,
};
use crate::{Session, Stop, pictures};

/// Total time for hooks after an interrupt: the user is waiting for the end of the run.
const PATIENCE: Duration = Duration::from_secs(2);

/// A finished call with the verdict of its hooks.
pub(super) struct FinishedCall {
    pub(super) output: Output,
    pub(super) duration_ms: u64,
    pub(super) verdict: HookVerdict,
}

/// Returns the output that a hook has put in the place of the tool's: its words, or the details of a tool of ours.
fn replaced(other: Value, tool: Option<&dyn Tool>) -> Output {
    match (other, tool) {
        (Value::String(text), _) => Output::text(text),
        (other, None) => Output::text(other.to_string()),
        (other, Some(tool)) => {
            let words = tool.extras().words_of.and_then(|words_of| words_of(&other));
            Output::text(words.unwrap_or_else(|| other.to_string())).with_details(other)
        }
    }
}

impl Session {
    /// Returns a future that runs a call and then its hooks, borrowing nothing from the session.
    pub(super) fn observe(
        &self,
        prepared: &PreparedCall,
        run: impl Future<Output = Output> + Send + 'static,
    ) -> impl Future<Output = FinishedCall> + Send + 'static {
        let ports = self.ports.clone();
        let mode = self.settings.permissions.mode;
        let call = prepared.call.clone();
        let accesses = prepared.accesses().to_vec();
        let places = self.settings.permissions.places.clone();
        let runs = prepared.runs();
        let written = written(&prepared.plan);
        let tool = match &prepared.plan {
            CallPlan::Run { tool, .. } => Some(tool.clone()),
            CallPlan::Answer(_) => None,
        };
        async move {
            let started = ports.clock.now();
            let mut output = pictures::in_output(run.await, &ports.pictures).await;
            let duration_ms = ports.clock.now().since(started);
            if let Some(editor) = ports.audience.editor.as_ref().filter(|_| !output.is_error) {
                for path in &written {
                    editor.wrote(path).await;
                }
            }
            let event = if output.is_error {
                HookEvent::PostToolUseFailure
            } else {
                HookEvent::PostToolUse
            };
            let mut verdict = HookVerdict::default();
            let subject = HookSubject {
                call: &call,
                accesses: &accesses,
                places: &places,
            };
            if runs && ports.hooks.has(event) {
                let moment = HookMoment {
                    event,
                    kind: &call.name,
                    mode: Some(mode),
                    call: Some(subject),
                    more: output_payload(&call, &output, duration_ms),
                };
                verdict = ports.hooks.ask(moment, &ports.audience).await;
                verdict.context.extend(verdict.block.take());
            }
            if runs && !output.is_error {
                for (event, more) in task_events(output.details.as_ref()) {
                    let moment = HookMoment {
                        event,
                        kind: "",
                        mode: Some(mode),
                        call: Some(subject),
                        more,
                    };
                    let told = ports.hooks.ask(moment, &ports.audience).await;
                    verdict.context.extend(told.context);
                    verdict.context.extend(told.block);
                }
            }
            let is_of_server = ToolName(&call.name).is_of_server();
            let of_server = verdict.server_output.take().filter(|_| is_of_server);
            if let Some(other) = verdict.output.take().or(of_server) {
                output = replaced(other, tool.as_deref().filter(|_| !is_of_server));
            }
            FinishedCall {
                output,
                duration_ms,
                verdict,
            }
        }
    }

    /// Calls the hooks after all calls of an answer, unless the run has been stopped.
    pub(super) async fn after_batch(
        &mut self,
        calls: &[PreparedCall],
        results: &[ToolResult],
        stop: &Stop,
    ) {
        let clock = self.ports.clock.clone();
        let event = HookEvent::PostToolBatch;
        if !self.ports.hooks.has(event) || stop.reason(clock.now()).is_some() {
            return;
        }
        let told = calls.iter().map(|PreparedCall { call, .. }| {
            let mut told = call_payload(call);
            let result = results.iter().find(|it| it.tool_use_id == call.id);
            told["tool_response"] = json!(result.map(ToolResult::text));
            told
        });
        let more = json!({"tool_calls": told.collect::<Vec<_>>()});
        let verdict = tokio::select! {
            biased;
            () = stop.wait(&*clock) => return,
            verdict = self.ask_hooks(event, None, more) => verdict,
        };
        self.context.extend(verdict.block);
        if verdict.stop_reason.is_some() {
            stop.halt(ExitReason::EndTurn);
        }
    }

    /// Notifies hooks of the calls that were interrupted. Their answers are ignored.
    pub(super) async fn notify_of_interrupt(&self, calls: &[PreparedCall], stop: &Stop) {
        let event = HookEvent::PostToolUseFailure;
        if !self.ports.hooks.has(event) {
            return;
        }
        let reason = stop.reason(self.ports.clock.now());
        let is_interrupt = matches!(
            reason,
            Some(ExitReason::Interrupted | ExitReason::Aborted) | None
        );
        let notified = async {
            for prepared in calls {
                let call = &prepared.call;
                let state = self.transcript.call(&call.id);
                if !matches!(state, Some(CallState::Started { .. })) {
                    continue;
                }
                let mut more = call_payload(call);
                more["error"] = json!("the run was interrupted during the call");
                more["is_interrupt"] = json!(is_interrupt);
                let moment = HookMoment {
                    event,
                    kind: &call.name,
                    mode: Some(self.settings.permissions.mode),
                    call: Some(HookSubject {
                        call,
                        accesses: prepared.accesses(),
                        places: &self.settings.permissions.places,
                    }),
                    more,
                };
                self.ports.hooks.ask(moment, &self.ports.audience).await;
            }
        };
        // Dropping the hooks ends them.
        let _ = tokio::time::timeout(PATIENCE, notified).await;
    }
}
