//! The permissions and the model that a prompt's command brings along, for its run.

use std::sync::Arc;

use ah_agent::{RunFailure, RunOutcome, SessionChange, Stop};
use ah_conversation::{ContentBlock, ExitReason, StoreError};
use ah_desk::ExpandedPrompt;

use super::Worker;
use crate::Engaged;

impl Worker {
    /// Runs a prompt with what its command brings along. Afterwards the session is as before, unless the host has chosen
    /// another model meanwhile.
    pub(super) async fn run_with(
        &mut self,
        engaged: &mut Engaged,
        content: Vec<ContentBlock>,
        lent: &ExpandedPrompt,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        for notice in &lent.notices {
            self.speaker.notice(notice);
        }
        let own = match lent
            .model
            .as_deref()
            .map(|name| engaged.models.connect(Some(name)))
        {
            None => None,
            Some(Ok(own)) => Some(own),
            Some(Err(error)) => {
                let mut failed = RunOutcome::new(ExitReason::Error);
                failed.failure = Some(RunFailure::Provider(error));
                return Ok(failed);
            }
        };
        let session = &mut engaged.session;
        let former = session.provider();
        if let Some(own) = &own {
            session
                .controls()
                .request(SessionChange::Model(own.clone()));
        }
        let granted = session.grant(lent.allow.clone());
        let outcome = self.run(engaged, content, stop).await;
        let session = &mut engaged.session;
        session.take_changes();
        session.revoke(&granted);
        if own.is_some_and(|own| Arc::ptr_eq(&own, &session.provider())) {
            session.controls().request(SessionChange::Model(former));
            session.take_changes();
        }
        outcome
    }
}
