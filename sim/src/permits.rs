//! What hosts and hooks have said of calls, as a strict reader remembers it.

use std::collections::BTreeMap;

use ah_conversation::{ToolUse, ToolUseId};
use serde_json::Value;

use crate::around::Around;

/// What is known of calls.
#[derive(Default)]
pub(crate) struct Permits {
    known: BTreeMap<ToolUseId, Permit>,
    /// Whether each call that may change something needs somebody's consent.
    are_needed: bool,
    /// Whether hooks are asked about each call.
    are_hooked: bool,
}

/// What was said of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Permit {
    /// Nothing against it, with this input.
    Seen(Value),
    /// Somebody has to be asked about it, with this input.
    Asked(Value),
    /// It is allowed with this input.
    Allowed(Value),
    /// It is denied.
    Denied,
}

impl Permits {
    /// Returns what is known when a process begins.
    pub(crate) fn of(around: Around) -> Self {
        Self {
            known: BTreeMap::new(),
            are_needed: around.host,
            are_hooked: around.hooks,
        }
    }

    /// Notes what was said of a call.
    pub(crate) fn note(&mut self, call: &ToolUseId, permit: Permit) {
        self.known.insert(call.clone(), permit);
    }

    /// Returns why somebody must not be asked about a call with this input; `None` if all is well.
    pub(crate) fn question_fault(&self, call: &ToolUseId, input: &Value) -> Option<String> {
        match self.known.get(call) {
            Some(Permit::Denied) => Some(format!("{call} is denied, and asked about again")),
            Some(Permit::Seen(known) | Permit::Asked(known) | Permit::Allowed(known))
                if known != input =>
            {
                Some(format!(
                    "{call} is asked about with {input} in the place of {known}"
                ))
            }
            _ => None,
        }
    }

    /// Returns why a call that may change something must not run; `None` if it may.
    pub(crate) fn fault(&self, call: &ToolUse) -> Option<String> {
        let (id, input) = (&call.id, call.input.to_value());
        match self.known.get(id) {
            Some(Permit::Denied) => Some(format!("{id} was denied, and runs")),
            Some(Permit::Asked(_)) => Some(format!("nobody has allowed {id}, and it runs")),
            Some(Permit::Allowed(known) | Permit::Seen(known)) if *known != input => {
                Some(format!("{id} runs with {input} in the place of {known}"))
            }
            Some(Permit::Allowed(_)) => None,
            Some(Permit::Seen(_)) | None if self.are_needed => {
                Some(format!("{id} runs, and nobody was asked"))
            }
            None if self.are_hooked => Some(format!("{id} runs, and no hook has seen it")),
            Some(Permit::Seen(_)) | None => None,
        }
    }
}
