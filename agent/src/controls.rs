//! What a host changes of a session while it is at work. Changes wait here until the session takes them up: before its
//! next step, and before the next call is judged.

use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{PermissionMode, PermissionUpdate, Provider, Thinking};

use crate::Session;

/// A handle on a session that is at work, for whoever may change how it goes on.
#[derive(Clone, Default)]
pub struct Controls {
    waiting: Arc<Mutex<Vec<Change>>>,
}

/// A change of how a session goes on.
pub enum Change {
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
    /// Asks for a change.
    pub fn request(&self, change: Change) {
        self.lock().push(change);
    }

    fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Change>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
                Change::Mode(mode) => self.settings.permissions.change_mode(mode),
                Change::Model(provider) => self.change_model(provider),
                Change::Thinking(thinking) => self.settings.thinking = thinking,
                Change::Permissions(update) => self.settings.permissions.apply(&update),
            }
        }
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
