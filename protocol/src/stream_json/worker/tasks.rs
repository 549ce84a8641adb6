//! Tasks that still run when the host has no more prompts.

use ah_agent::Stop;
use ah_conversation::StoreError;
use serde_json::json;

use super::Worker;
use crate::Engaged;

impl Worker {
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
