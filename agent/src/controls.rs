//! What a host changes of a session while it is at work. Changes wait here until the session takes them up: before its
//! next step, and before the next call is judged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ah_conversation::{PermissionMode, PermissionUpdate, Provider, Rule, Thinking};

use crate::{Session, SessionUpdate};

/// A handle on a session that is at work, for whoever may change how it goes on.
#[derive(Clone, Default)]
pub struct Controls(Arc<Wishes>);

/// What waits to be taken up.
#[derive(Default)]
struct Wishes {
    waiting: Mutex<Vec<SessionChange>>,
    /// Those of sessions below this one that work in its mode.
    below: Mutex<Vec<Weak<Wishes>>>,
}

/// A change of how a session goes on.
pub enum SessionChange {
    /// What is allowed where no rule says otherwise.
    Mode(PermissionMode),
    /// Who answers from the next request on.
    Model(Arc<dyn Provider>),
    /// How much is thought from the next request on.
    Thinking(Thinking),
    /// What somebody has changed of the permissions who was asked by a subagent.
    Permissions(PermissionUpdate),
}

impl Controls {
    /// Asks for a change. A mode holds for subagents at work as well.
    pub fn request(&self, change: SessionChange) {
        if let SessionChange::Mode(mode) = &change {
            for below in lock(&self.0.below).iter().filter_map(Weak::upgrade) {
                Self(below).request(SessionChange::Mode(*mode));
            }
        }
        lock(&self.0.waiting).push(change);
    }

    /// Has the mode of a session below follow that of this one, as long as both live.
    pub(crate) fn lead(&self, other: &Self) {
        let mut below = lock(&self.0.below);
        below.retain(|known| known.strong_count() > 0);
        below.push(Arc::downgrade(&other.0));
    }

    fn take(&self) -> Vec<SessionChange> {
        std::mem::take(&mut *lock(&self.0.waiting))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// The handle on this session.
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Takes up what was asked for since the last time.
    pub fn take_changes(&mut self) {
        for change in self.controls.take() {
            match change {
                SessionChange::Mode(mode) => self.settings.permissions.change_mode(mode),
                SessionChange::Model(provider) => self.change_model(provider),
                SessionChange::Thinking(thinking) => self.settings.thinking = thinking,
                SessionChange::Permissions(update) => self.settings.permissions.apply(&update),
            }
        }
        // It also changes by what was answered to a question, or by a plan that was approved.
        let mode = self.settings.permissions.mode;
        if mode != self.shown_mode {
            self.shown_mode = mode;
            self.ports.frontend.update(SessionUpdate::Mode(mode));
        }
    }

    /// Who answers now.
    pub fn answerer(&self) -> Arc<dyn Provider> {
        self.ports.provider.clone()
    }

    /// Adds to the calls that are allowed what a prompt says of them; gives those that were not allowed yet, to be taken
    /// back after its run.
    pub fn lend(&mut self, rules: Vec<Rule>) -> Vec<Rule> {
        let allow = &mut self.settings.permissions.allow;
        let lent: Vec<_> = { rules.into_iter() }
            .filter(|rule| !allow.contains(rule))
            .collect();
        allow.extend(lent.iter().cloned());
        lent
    }

    /// Takes back what was lent.
    pub fn take_back(&mut self, lent: &[Rule]) {
        let allow = &mut self.settings.permissions.allow;
        allow.retain(|rule| !lent.contains(rule));
    }

    /// A model that summarised its own conversation is followed by one that does.
    fn change_model(&mut self, provider: Arc<dyn Provider>) {
        let model = provider.model();
        self.settings.limits.context_window = model.context_window;
        self.settings.limits.reserved_output = model.max_output;
        if Arc::ptr_eq(&self.ports.summarizer, &self.ports.provider) {
            self.ports.summarizer = provider.clone();
        }
        self.ports.provider = provider;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_reaches_those_below_as_long_as_they_live_and_nothing_else_does() {
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
