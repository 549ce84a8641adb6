//! Permission of a call: hooks are called first, then the rules decide; if approval is needed, hooks and the host are
//! asked. An answer may replace the input, which is decided anew, and change rules, which are saved as requested.

use std::fs;

use ah_conversation::{
    Access, Behavior, Decision, Destination, ExitReason, Hunk, Inquiry, Interaction, Output,
    PermissionAnswer, PermissionRequest, PermissionUpdate, ToolUse,
};
use serde_json::json;

use crate::hooks::{HookDecision, HookEvent, call_payload};
use crate::tool_call::{CallPlan, PreparedCall};
use crate::{Session, SessionUpdate};

/// A call after the permission decision.
pub(crate) struct PermittedCall {
    /// The call to run, or with its answer.
    pub(crate) prepared: PreparedCall,
    /// Reason to end the run, if any.
    pub(crate) ends: Option<ExitReason>,
    /// Whether a hook leaves it to a later run.
    pub(crate) is_deferred: bool,
}

impl Session {
    /// Decides whether a call may run.
    pub(crate) async fn permit(&mut self, prepared: &PreparedCall) -> PermittedCall {
        let CallPlan::Run { .. } = &prepared.plan else {
            return prepared.clone().into();
        };
        let verdict = self
            .ask_hooks(
                HookEvent::PreToolUse,
                Some(prepared),
                call_payload(&prepared.call),
            )
            .await;
        let ends = verdict.stop_reason.is_some().then_some(ExitReason::EndTurn);
        if let Some(reason) = verdict.over {
            let text = format!("PreToolUse:{} hook error: {reason}", prepared.call.name);
            let denied = self.denied(&prepared.call, &text);
            return self.unanswered(denied, reason);
        }
        if let Some(reason) = verdict.denial() {
            let text = format!("PreToolUse:{} hook error: {reason}", prepared.call.name);
            let denied = self.denied(&prepared.call, &text);
            return PermittedCall { ends, ..denied };
        }
        if let Some(reason) = verdict.stop_reason {
            return PermittedCall {
                ends,
                ..self.denied(&prepared.call, &reason)
            };
        }
        if verdict.defers {
            return self.deferred_call(prepared);
        }
        let has_input = verdict.input.is_some();
        let prepared = match verdict.input {
            Some(input) => self.prepare(ToolUse {
                input,
                ..prepared.call.clone()
            }),
            None => prepared.clone(),
        };
        self.decide(prepared, verdict.decision, has_input).await
    }

    /// Leaves a call to a later run: this one ends, and the caller is told of the call. A subagent's caller is a model,
    /// which could not take it up.
    fn deferred_call(&mut self, prepared: &PreparedCall) -> PermittedCall {
        if self.ports.hooks.are_of_agent() {
            let text = "A hook has deferred this call, which is not possible in a subagent: it did not run.";
            return self.denied(&prepared.call, text);
        }
        PermittedCall {
            is_deferred: true,
            ..prepared.clone().into()
        }
    }

    /// Decides by the rules and the hooks' decision `hooks`; `has_input` tells whether hooks changed the input.
    async fn decide(
        &mut self,
        prepared: PreparedCall,
        hooks: Option<HookDecision>,
        has_input: bool,
    ) -> PermittedCall {
        let CallPlan::Run { accesses, .. } = &prepared.plan else {
            return prepared.into();
        };
        let decision = self.settings.permissions.decide(&prepared.call, accesses);
        let hooks = hooks.map(|decision| (decision.behavior, decision.reason));
        let inquiry = match (decision, hooks) {
            (Decision::Deny(text), _) => return self.refused_call(&prepared.call, &text),
            // A hook's approval counts like an allow rule, no more: it answers a question to the user only if it
            // provides the input.
            (Decision::Ask(inquiry), Some((Behavior::Allow, _)))
                if inquiry.reason.is_none() && (inquiry.interaction.is_none() || has_input) =>
            {
                self.agree(inquiry.interaction.as_ref());
                return prepared.into();
            }
            (Decision::Ask(inquiry), _) => inquiry,
            (Decision::Allow, Some((Behavior::Ask, reason))) => Inquiry {
                reason: Some(format!("a hook requires approval: {reason}")),
                ..Inquiry::default()
            },
            (Decision::Allow, _) => {
                let reach = self.settings.permissions.reach(&prepared.call, accesses);
                return PreparedCall { reach, ..prepared }.into();
            }
        };
        let inquiry = match self.foreseen(&prepared, &inquiry).await {
            // Where a rule wants a question, an answer could tell what is in the file.
            Some(foreseen) if foreseen.is_error && inquiry.reason.is_none() => {
                let plan = CallPlan::Answer(foreseen);
                return PreparedCall { plan, ..prepared }.into();
            }
            Some(foreseen) => Inquiry {
                change: { foreseen.details.as_ref() }
                    .map(Hunk::of_details)
                    .unwrap_or_default(),
                ..inquiry
            },
            None => inquiry,
        };
        let interaction = inquiry.interaction.clone();
        let answer = self.inquire(&prepared, inquiry).await;
        match answer {
            PermissionAnswer::Allow { input, updates } => {
                let permitted = match input {
                    None => prepared.into(),
                    Some(input) => self.permit_changed(ToolUse {
                        input,
                        ..prepared.call
                    }),
                };
                for update in &updates {
                    self.update_permissions(update);
                }
                if permitted.prepared.runs() {
                    self.agree(interaction.as_ref());
                }
                self.tell_mode();
                permitted
            }
            PermissionAnswer::Deny { message, interrupt } => PermittedCall {
                ends: interrupt.then_some(ExitReason::Interrupted),
                ..self.refused_call(&prepared.call, &message)
            },
            PermissionAnswer::Over { message } => {
                let refused = self.refused_call(&prepared.call, &message);
                self.unanswered(refused, message)
            }
        }
    }

    /// Fails the run after a call that nobody can decide about, as it would be for each further one.
    fn unanswered(&mut self, denied: PermittedCall, reason: String) -> PermittedCall {
        self.unanswered = Some(reason);
        PermittedCall {
            ends: Some(ExitReason::Error),
            ..denied
        }
    }

    /// Returns the result that the call would have, found without changing anything: nobody is asked about a failure, and
    /// whoever is asked sees the change. Of what a rule hides, nothing is looked at.
    async fn foreseen(&self, prepared: &PreparedCall, inquiry: &Inquiry) -> Option<Output> {
        let CallPlan::Run { tool, accesses } = &prepared.plan else {
            return None;
        };
        let permissions = &self.settings.permissions;
        let hidden = permissions.hidden_from(&prepared.call, accesses);
        let mut touched = accesses.iter().filter_map(|access| match access {
            Access::Read(path) | Access::Write(path) | Access::Named(path) => Some(path),
            _ => None,
        });
        if inquiry.outside.is_some()
            || !permissions.may_see(&prepared.call, accesses)
            || touched.any(|path| hidden.hides(path))
        {
            return None;
        }
        let foreseen = tool.extras().foresight?.foreseen(&prepared.call).await;
        // It was found in what is on the disk.
        let unsaved = self.unsaved(&prepared.call, accesses).await;
        unsaved.is_empty().then_some(foreseen)
    }

    fn agree(&mut self, interaction: Option<&Interaction>) {
        if let Some(interaction) = interaction {
            self.settings.permissions.agree(interaction);
        }
    }

    /// Asks the hooks, and then the host if none has decided.
    async fn inquire(&mut self, prepared: &PreparedCall, inquiry: Inquiry) -> PermissionAnswer {
        let call = &prepared.call;
        let mut payload = call_payload(call);
        payload["permission_suggestions"] = json!(inquiry.suggestions);
        let verdict = self
            .ask_hooks(HookEvent::PermissionRequest, Some(prepared), payload)
            .await;
        match verdict.decision {
            Some(HookDecision {
                behavior: Behavior::Deny,
                reason: message,
            }) => {
                let interrupt = verdict.interrupt;
                return PermissionAnswer::Deny { message, interrupt };
            }
            Some(HookDecision {
                behavior: Behavior::Allow,
                ..
            }) => {
                return PermissionAnswer::Allow {
                    input: verdict.input,
                    updates: verdict.updates,
                };
            }
            Some(_) | None => {}
        }
        let notification = json!({
            "message": format!("permission to use {} is needed", call.name),
            "notification_type": "permission_prompt",
        });
        self.ask_hooks(HookEvent::Notification, None, notification)
            .await;
        let request = PermissionRequest {
            call: call.clone(),
            inquiry,
            agent: None,
        };
        self.ports.audience.host.permission(&request).await
    }

    /// Prepares a call approved with another input; deny rules still apply.
    fn permit_changed(&mut self, call: ToolUse) -> PermittedCall {
        let prepared = self.prepare(call);
        let CallPlan::Run { accesses, .. } = &prepared.plan else {
            return prepared.into();
        };
        match self.settings.permissions.decide(&prepared.call, accesses) {
            Decision::Allow | Decision::Ask(_) => prepared.into(),
            Decision::Deny(text) => self.refused_call(&prepared.call, &text),
        }
    }

    /// Denies a call for a reason that no hook gave.
    fn refused_call(&mut self, call: &ToolUse, text: &str) -> PermittedCall {
        let reason = Some(text);
        let update = SessionUpdate::Denied { call, reason };
        self.answer_denied(call, text, update)
    }

    pub(crate) fn denied(&mut self, call: &ToolUse, text: &str) -> PermittedCall {
        let update = SessionUpdate::Denied { call, reason: None };
        self.answer_denied(call, text, update)
    }

    fn answer_denied(
        &mut self,
        call: &ToolUse,
        text: &str,
        update: SessionUpdate<'_>,
    ) -> PermittedCall {
        self.ports.audience.update(update);
        self.denials.push(call.clone());
        PreparedCall::answered(call.clone(), text.to_owned()).into()
    }

    /// Changes the rules of the session, and saves the change if it is to last.
    pub(crate) fn update_permissions(&mut self, update: &PermissionUpdate) {
        if !self.settings.permissions.accepts(update) {
            let text = "mode `bypassPermissions` is not available: it was not enabled when the session began";
            self.ports.audience.notice(text);
            return;
        }
        let update = &without_links(update.clone());
        self.settings.permissions.apply(update);
        if update.destination() == Destination::Session {
            return;
        }
        if let Err(error) = self.ports.rules.save(update) {
            let text = format!("cannot save the rule, so it applies to this session only: {error}");
            self.ports.audience.notice(&text);
        }
    }
}

/// Resolves the symbolic links in the directories, as in the paths of calls.
fn without_links(mut update: PermissionUpdate) -> PermissionUpdate {
    if let PermissionUpdate::AddDirectories { directories, .. }
    | PermissionUpdate::RemoveDirectories { directories, .. } = &mut update
    {
        for folder in directories {
            if let Ok(real) = fs::canonicalize(&*folder) {
                *folder = real;
            }
        }
    }
    update
}

impl From<PreparedCall> for PermittedCall {
    fn from(prepared: PreparedCall) -> Self {
        Self {
            prepared,
            ends: None,
            is_deferred: false,
        }
    }
}
