//! Whether a call happens: the rules decide, and where they say so somebody is asked. The answer may bring another
//! input, which is judged anew, and other rules, which are kept where they say.

use ah_conversation::{
    Answer, Decision, Destination, ExitReason, PermissionUpdate, Question, ToolUse,
};

use crate::Session;
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
        let Prepared { call, fate } = prepared;
        let Fate::Run { accesses, .. } = fate else {
            return prepared.clone().into();
        };
        let inquiry = match self.settings.permissions.decide(call, accesses) {
            Decision::Allow => return prepared.clone().into(),
            Decision::Deny(text) => return self.denied(call, text),
            Decision::Ask(inquiry) => inquiry,
        };
        let question = Question {
            call: call.clone(),
            inquiry,
        };
        match self.ports.frontend.permission(&question).await {
            Answer::Allow { input, updates } => {
                for update in &updates {
                    self.update_permissions(update);
                }
                match input {
                    None => prepared.clone().into(),
                    Some(input) => self.permit_changed(ToolUse {
                        input,
                        ..call.clone()
                    }),
                }
            }
            Answer::Deny { message, interrupt } => Permitted {
                ends: interrupt.then_some(ExitReason::Interrupted),
                ..self.denied(call, message)
            },
        }
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

impl From<Prepared> for Permitted {
    fn from(prepared: Prepared) -> Self {
        Self {
            prepared,
            ends: None,
        }
    }
}
