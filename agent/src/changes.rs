//! Changes of a running session: those requested through [`Controls`], and rules granted for a prompt.

use std::sync::Arc;

use ah_conversation::{Cost, Provider, Rule};

use crate::request::SentRequest;
use crate::{Controls, Session, SessionChange, SessionUpdate};

impl Session {
    /// Returns the handle to change this session.
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Applies the changes requested since the last call.
    pub fn take_changes(&mut self) {
        for change in self.controls.take() {
            match change {
                SessionChange::Mode(mode) => self.settings.permissions.change_mode(mode),
                SessionChange::Model(provider) => self.change_model(provider),
                SessionChange::Thinking(thinking) => self.settings.thinking = thinking,
                SessionChange::Permissions(update) => self.settings.permissions.apply(&update),
            }
        }
        self.follow_window();
        self.tell_mode();
    }

    /// Reports the permission mode if it has changed, which answers to questions and approved plans do too.
    pub(crate) fn tell_mode(&mut self) {
        let mode = self.settings.permissions.mode;
        if mode != self.shown_mode {
            self.shown_mode = mode;
            self.ports.audience.update(SessionUpdate::Mode(mode));
        }
    }

    /// Notes what it has spent in its run, and learns what others have spent.
    pub(crate) fn count_spending(&mut self) {
        let agent = self.ports.agent_id.as_ref();
        self.spending.note(agent, self.transcript.totals());
        self.settings.limits.spent_beside = self.spending.beside(agent);
    }

    /// Sets the cost limit of further runs, each for itself.
    pub fn limit_cost(&mut self, max: Option<Cost>) {
        self.settings.limits.max_budget = max;
    }

    /// Sets the source that SessionStart hooks are told, in the place of `startup` or `resume`.
    pub fn begins_by(&mut self, source: &'static str) {
        self.source = Some(source);
    }

    /// Returns the current provider.
    pub fn provider(&self) -> Arc<dyn Provider> {
        self.ports.provider.clone()
    }

    /// Allows further calls for a prompt; returns the rules that were not there yet, to be revoked after its run.
    pub fn grant(&mut self, rules: Vec<Rule>) -> Vec<Rule> {
        let allow = &mut self.settings.permissions.allow;
        let granted: Vec<_> = rules
            .into_iter()
            .filter(|rule| !allow.contains(rule))
            .collect();
        allow.extend(granted.iter().cloned());
        granted
    }

    /// Revokes rules added by [`grant`](Self::grant).
    pub fn revoke(&mut self, granted: &[Rule]) {
        let allow = &mut self.settings.permissions.allow;
        allow.retain(|rule| !granted.contains(rule));
    }

    /// Ends what the old model has begun. If it summarised its own conversation, so does the new one.
    fn change_model(&mut self, provider: Arc<dyn Provider>) {
        self.end_pause();
        let model = provider.model();
        self.window = model.context_window;
        self.settings.limits.context_window = model.context_window;
        self.settings.limits.reserved_output = model.max_output;
        if Arc::ptr_eq(&self.ports.summarizer, &self.ports.provider) {
            self.ports.summarizer = provider.clone();
        }
        self.ports.provider = provider;
        self.sent = SentRequest::default();
    }

    /// Keeps to the window of the model, if its server has named another one meanwhile.
    pub(crate) fn follow_window(&mut self) {
        let model = self.ports.provider.model();
        if model.context_window != self.window {
            self.window = model.context_window;
            self.settings.limits.context_window = model.context_window;
            self.settings.limits.reserved_output = model.max_output;
        }
    }
}
