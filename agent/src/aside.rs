//! A side question: one answer of the model on a branch of its own, or of none while the session runs. The conversation continues
//! from where it was, so that it is never told of it; what the answer has cost is counted like that of any other.

use std::sync::Arc;

use ah_conversation::{
    Clock, ContentBlock, ExitReason, Message, Origin, Provider, Request, Role, Store, StoreError,
};

use crate::request::SentRequest;
use crate::{RunFailure, RunOutcome, Session, SessionSettings, Stop};

/// What the model is told besides the question.
const ASIDE: &str = "[SIDE QUESTION] Answer this briefly from what you know already, without calling tools. The question and the \
                     answer will not be part of the conversation.";

/// What the model is told besides while the session runs.
const MEANWHILE: &str = "[SIDE QUESTION] The user asks this while you are still at work; calls without a result are running. Answer it \
                         briefly from what you know already, without calling tools. The question and the answer will not be part of \
                         the conversation.";

/// Asks side questions while the session runs: what has been said so far is read from the store, and nothing is written to it.
#[derive(Clone)]
pub struct SideQuestions {
    store: Arc<dyn Store>,
    provider: Arc<dyn Provider>,
    clock: Arc<dyn Clock>,
    settings: SessionSettings,
}

impl SideQuestions {
    /// Returns the model that is asked.
    pub fn model(&self) -> &dyn Provider {
        &*self.provider
    }

    /// Returns the request with a question behind what was said so far, which begins like those of the session; `None` if
    /// nothing has been asked yet.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be read.
    pub async fn request(&self, question: &str) -> Result<Option<Request>, StoreError> {
        let transcript = self.store.load().await?;
        let Some(prefix) = transcript.prefix() else {
            return Ok(None);
        };
        let binds_thinking = self.provider.extras().continuity.binds_thinking;
        let mut sent = SentRequest::default();
        let mut request = sent.request(&transcript, prefix, &self.settings, binds_thinking);
        let last = request.messages.last();
        let message = Message {
            id: self.clock.message_id(),
            parent: last.map(|last| last.id.clone()),
            seq: last.map_or(0, |last| last.seq + 1),
            role: Role::User,
            origin: Origin::Prompt,
            created_at: self.clock.now(),
            content: [MEANWHILE, question].map(ContentBlock::text).into(),
            response: None,
        };
        Arc::make_mut(&mut request.messages).push(Arc::new(message));
        Ok(Some(request))
    }
}

impl Session {
    /// Returns what asks side questions while the session runs.
    pub fn side_questions(&self) -> SideQuestions {
        SideQuestions {
            store: self.ports.store.clone(),
            provider: self.ports.provider.clone(),
            clock: self.ports.clock.clone(),
            settings: self.settings.clone(),
        }
    }

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
        self.is_aside = true;
        let answered = self.call_model(&stop).await;
        self.is_aside = false;
        let (reason, failure) = match answered {
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
