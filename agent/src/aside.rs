//! A side question: one answer of the model on a branch of its own. The conversation continues from where it was, so that it is
//! never told of it; what the answer has cost is counted like that of any other branch.

use ah_conversation::{ContentBlock, ExitReason, Origin, StoreError};

use crate::{RunFailure, RunOutcome, Session, Stop};

/// What the model is told besides the question.
const ASIDE: &str = "[SIDE QUESTION] Answer this briefly from what you know already, without calling tools. The question and the \
                     answer will not be part of the conversation.";

impl Session {
    /// Answers a question on a new branch, without running calls. Going back to the message before it is left to the caller.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored; every other failure is a [`RunOutcome`].
    pub async fn aside(&mut self, question: &str, stop: &Stop) -> Result<RunOutcome, StoreError> {
        let (started, stop) = self.begin_time(stop);
        self.announce(question.to_owned());
        let content = vec![ContentBlock::text(ASIDE), ContentBlock::text(question)];
        self.append(Origin::Prompt, content).await?;
        let (reason, failure) = match self.call_model(&stop).await {
            Ok(()) => {
                let stopped = stop.reason(self.ports.clock.now());
                (stopped.unwrap_or(ExitReason::EndTurn), None)
            }
            Err(RunFailure::Store(error)) => return Err(error),
            Err(failure) => {
                self.tell_failure(&failure).await;
                (ExitReason::Error, Some(failure))
            }
        };
        self.close_run(reason, failure, started).await
    }
}
