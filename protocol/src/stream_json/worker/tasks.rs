//! Runs without a prompt of the host: calls that an earlier run has left to this one, and tasks that still run when the host
//! has no more prompts.

use ah_agent::{RunOutcome, Stop};
use ah_conversation::{CallState, ExitReason, ModelUsage, StoreError};
use serde_json::json;

use super::Worker;
use crate::Engaged;
use crate::stream_json::totals::Totals;

impl Worker {
    /// Continues an answer whose calls a hook has deferred: the hook is asked again, before any prompt. If the program
    /// wants that, continues whatever was left unfinished.
    pub(super) async fn take_up(&mut self, engaged: &mut Engaged) -> Result<(), StoreError> {
        let is_wanted = self.resumes || engaged.session.has_deferred();
        if !is_wanted || !self.limit(engaged) {
            return Ok(());
        }
        let before = engaged.session.transcript().messages().len();
        let ticket = self.shared.queue.lead();
        let stop = Stop::interrupt(ticket.run.clone());
        engaged.session.take_changes();
        engaged.session.prepare_tools().await;
        self.speaker.state("running");
        self.begin(engaged, None);
        let transcript = engaged.session.transcript();
        let ended = { transcript.open_calls().into_iter() }
            .filter(|call| matches!(transcript.call(&call.id), Some(CallState::Finished(_))));
        self.speaker.has_told(ended.map(|call| call.id.clone()));
        let outcome = engaged.session.resume(&stop).await?;
        if self.shared.queue.waiting() == 0 {
            engaged.session.rest().await;
        }
        // A program that has asked for it waits for a result.
        let nothing = || RunOutcome::new(ExitReason::EndTurn);
        if let Some(mut outcome) = outcome.or_else(|| self.resumes.then(nothing)) {
            // What the model was asked before has been counted.
            let messages = engaged.session.transcript().messages();
            let new = messages.get(before..).unwrap_or_default();
            let counted = new.iter().map(|message| &**message);
            let models = Totals::of(counted, self.shared.link.ids.now()).shares;
            outcome.usage = ModelUsage::total(&models);
            outcome.models = models;
            self.ended_after(engaged, outcome, None, new);
        }
        let is_idle = self.shared.queue.waiting() == 0;
        self.shared.queue.leave();
        if is_idle {
            self.speaker.state("idle");
        }
        Ok(())
    }

    /// Waits for the tasks in the background, and lets the model say what it makes of each; those that take too long are
    /// ended.
    pub(super) async fn outlast(&mut self, engaged: &mut Engaged) -> Result<(), StoreError> {
        let stop = Stop::interrupt(self.stop.clone());
        let patience = engaged.task_patience;
        while engaged.session.await_task(patience, &stop).await && self.limit(engaged) {
            self.origin = Some(json!({"kind": "task-notification", "producer": "session-task"}));
            engaged.session.take_changes();
            self.speaker.state("running");
            self.begin(engaged, None);
            if let Some(outcome) = engaged.session.run_reports(&stop).await? {
                self.ended(engaged, outcome, None);
            }
            self.speaker.state("idle");
        }
        engaged.session.stop_tasks().await;
        Ok(())
    }
}
