//! What hooks are told of a call that has ended, and what they make of it.

use std::time::Duration;

use ah_conversation::{CallState, ExitReason, Output};
use serde_json::json;

use super::Prepared;
use crate::hooks::{HookEvent, HookMoment, HookVerdict, of_call, of_output};
use crate::{Session, Stop};

/// How long hooks of a run that was stopped have in all: a person is waiting for it to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// What came of a call, and what hooks say of it.
pub(super) struct Done {
    pub(super) output: Output,
    pub(super) duration_ms: u64,
    pub(super) verdict: HookVerdict,
}

impl Session {
    /// Runs a call, and asks the hooks about what came of it; holds on to nothing of ours.
    pub(super) fn observe(
        &self,
        prepared: &Prepared,
        run: impl Future<Output = Output> + Send + 'static,
    ) -> impl Future<Output = Done> + Send + 'static {
        let ports = self.ports.clone();
        let mode = self.settings.permissions.mode;
        let call = prepared.call.clone();
        let runs = prepared.runs();
        async move {
            let started = ports.clock.now();
            let mut output = run.await;
            let duration_ms = ports.clock.now().since(started);
            let event = match output.is_error {
                true => HookEvent::PostToolUseFailure,
                false => HookEvent::PostToolUse,
            };
            let mut verdict = HookVerdict::default();
            if runs && ports.hooks.has(event) {
                let moment = HookMoment {
                    event,
                    kind: &call.name,
                    mode,
                    call: Some(&call.id),
                    more: of_output(&call, &output, duration_ms),
                };
                verdict = ports.hooks.ask(moment, &*ports.frontend).await;
                verdict.context.extend(verdict.block.take());
            }
            let of_server = verdict.server_output.take();
            let of_server = of_server.filter(|_| call.name.starts_with("mcp__"));
            if let Some(other) = verdict.output.take().or(of_server) {
                let text = other
                    .as_str()
                    .map_or_else(|| other.to_string(), str::to_owned);
                output = Output::text(text);
            }
            Done {
                output,
                duration_ms,
                verdict,
            }
        }
    }

    /// Tells hooks of the calls that were at work when the run was stopped. What they say comes too late.
    pub(super) async fn tell_of_stopped(&self, calls: &[Prepared], stop: &Stop) {
        let event = HookEvent::PostToolUseFailure;
        if !self.ports.hooks.has(event) {
            return;
        }
        let reason = stop.reason(self.ports.clock.now());
        let is_interrupt = matches!(
            reason,
            Some(ExitReason::Interrupted | ExitReason::Aborted) | None
        );
        let told = async {
            for Prepared { call, .. } in calls {
                let state = self.transcript.call(&call.id);
                if !matches!(state, Some(CallState::Started { .. })) {
                    continue;
                }
                let mut more = of_call(call);
                more["error"] = json!("the run was stopped while the call was at work");
                more["is_interrupt"] = json!(is_interrupt);
                let moment = HookMoment {
                    event,
                    kind: &call.name,
                    mode: self.settings.permissions.mode,
                    call: Some(&call.id),
                    more,
                };
                self.ports.hooks.ask(moment, &*self.ports.frontend).await;
            }
        };
        // Dropping the hooks ends them.
        let _ = tokio::time::timeout(PATIENCE, told).await;
    }
}
