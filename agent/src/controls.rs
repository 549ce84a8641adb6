//! Changes of a running session, requested by a host. They are queued until the session applies them: before its next
//! step, and before it decides about the next call.

use std::sync::{Arc, Weak};

use ah_conversation::{PermissionAnswer, PermissionMode, PermissionUpdate, Provider, Thinking};
use parking_lot::Mutex;

/// Handle to change a running session.
#[derive(Clone, Default)]
pub struct Controls(Arc<ChangeQueue>);

/// Queue of requested changes.
#[derive(Default)]
struct ChangeQueue {
    waiting: Mutex<Vec<SessionChange>>,
    /// Sessions of subagents, each with the mode of its definition.
    below: Mutex<Vec<(Weak<ChangeQueue>, Option<PermissionMode>)>>,
}

/// A change of a running session.
pub enum SessionChange {
    /// Permission mode.
    Mode(PermissionMode),
    /// Model, from the next request on.
    Model(Arc<dyn Provider>),
    /// Thinking budget, from the next request on.
    Thinking(Thinking),
    /// Permission update from an answer to a subagent's request.
    Permissions(PermissionUpdate),
}

impl Controls {
    /// Requests a change. A mode applies to running subagents as well.
    pub fn request(&self, change: SessionChange) {
        if let SessionChange::Mode(mode) = &change {
            for (below, own) in self.0.below.lock().iter() {
                if let Some(below) = below.upgrade() {
                    Self(below).request(SessionChange::Mode(mode_below(*mode, *own)));
                }
            }
        }
        self.0.waiting.lock().push(change);
    }

    /// Requests the changes of permissions that came with an answer to a session below.
    pub(crate) fn learn(&self, answer: &PermissionAnswer) {
        if let PermissionAnswer::Allow { updates, .. } = answer {
            for update in updates {
                self.request(SessionChange::Permissions(update.clone()));
            }
        }
    }

    /// Makes the session of `other`, whose definition may name a mode, follow the mode of this one, as long as both exist.
    pub(crate) fn lead(&self, other: &Self, own: Option<PermissionMode>) {
        let mut below = self.0.below.lock();
        below.retain(|(known, _)| known.strong_count() > 0);
        below.push((Arc::downgrade(&other.0), own));
    }

    /// Returns and removes the waiting changes.
    pub(crate) fn take(&self) -> Vec<SessionChange> {
        std::mem::take(&mut *self.0.waiting.lock())
    }
}

/// Returns the mode of a subagent below a session in `mode`: that of its definition, unless the session only plans, or allows at
/// least as much.
pub(crate) fn mode_below(mode: PermissionMode, own: Option<PermissionMode>) -> PermissionMode {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan, Sandboxed};
    own.filter(|own| match mode {
        BypassPermissions | Plan => false,
        Sandboxed => !matches!(own, Default | AcceptEdits | DontAsk),
        _ => true,
    })
    .unwrap_or(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_is_passed_on_to_live_subagents() {
        let [above, below, deeper, gone] = std::array::from_fn(|_| Controls::default());
        above.lead(&below, None);
        below.lead(&deeper, None);
        above.lead(&gone, None);
        drop(gone);
        above.request(SessionChange::Mode(PermissionMode::Plan));
        above.request(SessionChange::Thinking(Thinking::default()));
        let taken = [above, below, deeper].map(|controls| {
            let changes = controls.take().into_iter();
            changes
                .map(|change| matches!(change, SessionChange::Mode(PermissionMode::Plan)))
                .collect::<Vec<_>>()
        });
        assert_eq!(taken, [vec![true, false], vec![true], vec![true]]);
    }

    #[test]
    fn a_definition_names_the_mode_of_a_subagent_but_where_the_session_plans_or_allows_more() {
        use PermissionMode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan, Sandboxed};
        let [above, below] = [(); 2].map(|()| Controls::default());
        above.lead(&below, Some(AcceptEdits));
        for mode in [Plan, Default, BypassPermissions, Sandboxed, DontAsk] {
            above.request(SessionChange::Mode(mode));
        }
        let modes = below.take().into_iter().filter_map(|change| match change {
            SessionChange::Mode(mode) => Some(mode),
            _ => None,
        });
        let expected = [Plan, AcceptEdits, BypassPermissions, Sandboxed, AcceptEdits];
        assert_eq!(modes.collect::<Vec<_>>(), expected);
        for (mode, own, expected) in [
            (Default, Some(Plan), Plan),
            (Sandboxed, Some(Plan), Plan),
            (Plan, Some(DontAsk), Plan),
            (AcceptEdits, Some(Default), Default),
            (Plan, None, Plan),
        ] {
            assert_eq!(mode_below(mode, own), expected, "{mode:?} {own:?}");
        }
    }
}
