//! Whether a call happens: hooks are asked before, then the rules decide, and where they say so hooks and somebody are
//! asked. An answer may bring another input, which is judged anew, and other rules, which are kept where they say.

use std::fs;

use ah_conversation::{
    Behavior, Decision, Destination, ExitReason, Inquiry, Interaction, PermissionAnswer,
    PermissionRequest, PermissionUpdate, ToolUse,
};
use serde_json::json;

use crate::Session;
use crate::hooks::{HookDecision, HookEvent, of_call};
use crate::tool_call::{Fate, Prepared};

/// What became of a call.
pub(crate) struct Permitted {
    /// The call as it will run, or with its answer.
    pub(crate) prepared: Prepared,
    /// Why the run ends, if it does.
    pub(crate) ends: Option<ExitReason>,
}

impl Session {
    /// Settles whether a call happens.
    pub(crate) async fn permit(&mut self, prepared: &Prepared) -> Permitted {
        let Fate::Run { .. } = &prepared.fate else {
            return prepared.clone().into();
        };
        let verdict = self
            .ask_hooks(
                HookEvent::PreToolUse,
                Some(&prepared.call),
                of_call(&prepared.call),
            )
            .await;
        let ends = verdict.ends.is_some().then_some(ExitReason::EndTurn);
        if let Some(reason) = verdict.denial() {
            let text = format!("PreToolUse:{} hook error: {reason}", prepared.call.name);
            let denied = self.denied(&prepared.call, text);
            return Permitted { ends, ..denied };
        }
        if let Some(reason) = verdict.ends {
            return Permitted {
                ends,
                ..self.denied(&prepared.call, reason)
            };
        }
        let has_input = verdict.input.is_some();
        let prepared = match verdict.input {
            Some(input) => self.prepare(ToolUse {
                input,
                ..prepared.call.clone()
            }),
            None => prepared.clone(),
        };
        self.decide(prepared, verdict.say, has_input).await
    }

    /// What the rules say of a call of which hooks have said `said`, and whose input they may have given.
    async fn decide(
        &mut self,
        prepared: Prepared,
        said: Option<HookDecision>,
        has_input: bool,
    ) -> Permitted {
        let Fate::Run { accesses, .. } = &prepared.fate else {
            return prepared.into();
        };
        let decision = self.settings.permissions.decide(&prepared.call, accesses);
        let said = said.map(|say| (say.behavior, say.reason));
        let inquiry = match (decision, said) {
            (Decision::Deny(text), _) => return self.denied(&prepared.call, text),
            // A hook's word stands for a rule that allows, and no more: it answers what a person is asked only where
            // it brings the answer.
            (Decision::Ask(inquiry), Some((Behavior::Allow, _)))
                if inquiry.reason.is_none() && (inquiry.interaction.is_none() || has_input) =>
            {
                self.agree(inquiry.interaction.as_ref());
                return prepared.into();
            }
            (Decision::Ask(inquiry), _) => inquiry,
            (Decision::Allow, Some((Behavior::Ask, reason))) => Inquiry {
                reason: Some(format!("a hook asks: {reason}")),
                ..Inquiry::default()
            },
            (Decision::Allow, _) => return prepared.into(),
        };
        let interaction = inquiry.interaction.clone();
        let answer = self.inquire(&prepared.call, inquiry).await;
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
                permitted
            }
            PermissionAnswer::Deny { message, interrupt } => Permitted {
                ends: interrupt.then_some(ExitReason::Interrupted),
                ..self.denied(&prepared.call, message)
            },
        }
    }

    fn agree(&mut self, interaction: Option<&Interaction>) {
        if let Some(interaction) = interaction {
            self.settings.permissions.agree(interaction);
        }
    }

    /// Asks hooks, and then the host, unless one of them has settled it.
    async fn inquire(&mut self, call: &ToolUse, inquiry: Inquiry) -> PermissionAnswer {
        let mut told = of_call(call);
        told["permission_suggestions"] = json!(inquiry.suggestions);
        let verdict = self
            .ask_hooks(HookEvent::PermissionRequest, Some(call), told)
            .await;
        match verdict.say {
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
        let question = PermissionRequest {
            call: call.clone(),
            inquiry,
            agent: None,
        };
        self.ports.frontend.permission(&question).await
    }

    /// A call that was allowed with another input: what is denied stays so.
    fn permit_changed(&mut self, call: ToolUse) -> Permitted {
        let prepared = self.prepare(call);
        let Fate::Run { accesses, .. } = &prepared.fate else {
            return prepared.into();
        };
        match self.settings.permissions.decide(&prepared.call, accesses) {
            Decision::Allow | Decision::Ask(_) => prepared.into(),
            Decision::Deny(text) => self.denied(&prepared.call, text),
        }
    }

    pub(crate) fn denied(&mut self, call: &ToolUse, text: String) -> Permitted {
        self.denials.push(call.clone());
        Prepared::answered(call.clone(), text).into()
    }

    /// Changes the rules of the session, and the settings where the change is to last.
    pub(crate) fn update_permissions(&mut self, update: &PermissionUpdate) {
        if !self.settings.permissions.accepts(update) {
            let text = "the mode `bypassPermissions` was not agreed to when the session began, so it is not chosen";
            self.ports.frontend.notice(text);
            return;
        }
        let update = &without_links(update.clone());
        self.settings.permissions.apply(update);
        if update.destination() == Destination::Session {
            return;
        }
        if let Err(fault) = self.ports.rules.save(update) {
            let text = format!("the rule holds for this session only: {fault}");
            self.ports.frontend.notice(&text);
        }
    }
}

/// The same change, its directories as the paths of calls will name them.
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

impl From<Prepared> for Permitted {
    fn from(prepared: Prepared) -> Self {
        Self {
            prepared,
            ends: None,
        }
    }
}
