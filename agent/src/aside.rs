//! A side question: one answer of the model behind what was said so far, which the conversation is never told of.

use std::sync::Arc;

use ah_conversation::{Clock, ContentBlock, Provider, Request, Store, StoreError};

use crate::request::{SentRequest, prompt};
use crate::{Session, SessionSettings};

/// What the model is told besides the question.
const ASIDE: &str = "[SIDE QUESTION] The user asks this beside the conversation; calls without a result are still running. Answer it \
                     briefly from what you know already, without calling tools. The question and the answer will not be part of \
                     the conversation.";

/// Asks side questions, also while the session runs: what has been said so far is read from the store, and nothing is written to it.
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

    /// Asks another model from now on.
    pub fn change_model(&mut self, provider: Arc<dyn Provider>) {
        self.provider = provider;
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
        let content = [ASIDE, question].map(ContentBlock::text).into();
        let message = prompt(&*self.clock, request.messages.last(), content);
        Arc::make_mut(&mut request.messages).push(Arc::new(message));
        Ok(Some(request))
    }
}

impl Session {
    /// Returns what asks side questions.
    pub fn side_questions(&self) -> SideQuestions {
        SideQuestions {
            store: self.ports.store.clone(),
            provider: self.ports.provider.clone(),
            clock: self.ports.clock.clone(),
            settings: self.settings.clone(),
        }
    }
}
