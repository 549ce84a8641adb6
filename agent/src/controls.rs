//! Changes of a running session, requested by a host. They are queued until the session applies them: before its next
//! step, and before it decides about the next call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ah_conversation::{PermissionAnswer, PermissionMode, PermissionUpdate, Provider, Thinking};

/// Handle to change a running session.
#[derive(Clone, Default)]
pub struct Controls(Arc<ChangeQueue>);

/// Queue of requested changes.
#[derive(Default)]
struct ChangeQueue {
    waiting: Mutex<Vec<SessionChange>>,
    /// Sessions of subagents that follow the mode of this one.
    below: Mutex<Vec<Weak<ChangeQueue>>>,
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
            for below in lock(&self.0.below).iter().filter_map(Weak::upgrade) {
                Self(below).request(SessionChange::Mode(*mode));
            }
        }
        lock(&self.0.waiting).push(change);
    }

    /// Requests the changes of permissions that came with an answer to a session below.
    pub(crate) fn learn(&self, answer: &PermissionAnswer) {
        if let PermissionAnswer::Allow { updates, .. } = answer {
            for update in updates {
                self.request(SessionChange::Permissions(update.clone()));
            }
        }
    }

    /// Makes the session of `other` follow the mode of this one, as long as both exist.
    pub(crate) fn lead(&self, other: &Self) {
        let mut below = lock(&self.0.below);
        below.retain(|known| known.strong_count() > 0);
        below.push(Arc::downgrade(&other.0));
    }

    /// Returns and removes the waiting changes.
    pub(crate) fn take(&self) -> Vec<SessionChange> {
        std::mem::take(&mut *lock(&self.0.waiting))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_is_passed_on_to_live_subagents() {
        let [above, below, deeper, gone] = std::array::from_fn(|_| Controls::default());
        above.lead(&below);
        below.lead(&deeper);
        above.lead(&gone);
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
}
