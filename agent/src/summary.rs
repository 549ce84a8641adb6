//! Summaries: when one is needed, requests for it, and the message that stands for what was said before.

use std::sync::Arc;

use ah_conversation::{
    ContentBlock, ErrorClass, EventKind, ExitReason, Message, Origin, Prefix, ProviderError,
    Request, Role, RunTotals, StoreError, Time, text_of,
};

use crate::compaction::discarded::{self, Discarded};
use crate::compaction::{
    MARKER, Split, WITHOUT_SUMMARY, short_summary, shorter_tail, split, whole,
};
use crate::model_call::{ModelReply, Purpose};
use crate::prefix::is_other_model;
use crate::{RunFailure, RunOutcome, Session, Stop};

impl Session {
    /// Makes room in a conversation that the server has refused as too long: by a summary, or by a shorter tail behind the
    /// last one.
    pub(crate) async fn make_room(
        &mut self,
        refusal: ProviderError,
        stop: &Stop,
    ) -> Result<(), RunFailure> {
        if let Some(last) = self.transcript.last().filter(|last| last.is_summary()) {
            let content = last.content.clone();
            let origin = shorter_tail(&self.transcript).ok_or(refusal)?;
            return Ok(self.append(origin, content).await?);
        }
        // Whatever the window is, the conversation is larger.
        let mut limits = self.settings.limits.clone();
        limits.context_window = { limits.context_window }.min(self.transcript.context_tokens());
        match split(&self.transcript, &limits) {
            Some(split) => self.summarize(split, None, stop).await,
            None => Err(refusal.into()),
        }
    }

    /// Requests a summary of the older messages and stores it; even without a summary, the older messages are left
    /// out of the view.
    pub(crate) async fn compact(&mut self, stop: &Stop) -> Result<(), RunFailure> {
        let limits = &self.settings.limits;
        let (input_tokens, context_limit) =
            (self.transcript.context_tokens(), limits.context_window);
        let Some(split) = split(&self.transcript, limits) else {
            return Err(RunFailure::Overflow {
                needed: input_tokens + limits.reserve(),
                window: context_limit,
            });
        };
        self.summarize(split, None, stop).await
    }

    /// Replaces the whole conversation by a summary, at the user's request. `wanted` are instructions for the
    /// summary.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored; every other failure is a [`RunOutcome`].
    pub async fn compact_all(
        &mut self,
        wanted: Option<&str>,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        let started = self.ports.clock.now();
        let before = self.transcript.count();
        self.take_changes();
        let done = match whole(&self.transcript) {
            Some(split) => {
                self.summarize(split, Some(wanted.unwrap_or_default()), stop)
                    .await
            }
            None => Ok(()),
        };
        let (reason, failure) = match (done, stop.reason(self.ports.clock.now())) {
            (Err(RunFailure::Store(error)), _) => return Err(error),
            (Err(failure), _) => (ExitReason::Error, Some(failure)),
            (Ok(()), Some(reason)) => (reason, None),
            (Ok(()), None) => (ExitReason::EndTurn, None),
        };
        let totals = RunTotals::of(self.transcript.since(before));
        Ok(RunOutcome {
            failure,
            usage: totals.usage,
            models: totals.models,
            api_ms: totals.api_ms,
            duration_ms: self.ports.clock.now().since(started),
            ..RunOutcome::new(reason)
        })
    }

    /// Requests a summary of the messages in `split` and stores it. `instructions` are those of the user, if the user
    /// asked for the summary.
    async fn summarize(
        &mut self,
        split: Split,
        instructions: Option<&str>,
        stop: &Stop,
    ) -> Result<(), RunFailure> {
        self.emit(&EventKind::CompactionTriggered {
            input_tokens: self.transcript.context_tokens(),
            context_limit: self.settings.limits.context_window,
        });
        let wanted = self.before_summary(instructions).await;
        let started = self.ports.clock.now();
        let mut discarded = Discarded::default();
        let mut reply = self
            .ask_own(&split, wanted.as_deref(), stop, &mut discarded)
            .await;
        if is_no_summary(&reply) {
            self.discard(&mut discarded, reply, started);
            let request = self.flattened(&split, wanted.as_deref());
            reply = match self.affords_more(&discarded) {
                true => self.ask(Purpose::Summary, request, stop).await,
                false => Err(discarded::used_up()),
            };
        }
        let error = match reply {
            Ok(ModelReply::Stopped(_)) => {
                self.discard(&mut discarded, reply, started);
                self.background.add_spent(discarded.usage());
                return Ok(());
            }
            Ok(ModelReply::Whole(answer)) => match summary_of(&answer.content) {
                Some(content) => {
                    let response = self.response(Purpose::Summary, &answer, started);
                    let response = discarded.with(response);
                    let text = text_of(&content);
                    let message = self.summary(split, content);
                    self.store_answer(message, response).await?;
                    self.emit(&EventKind::CompactionComplete {
                        input_tokens: answer.usage.effective_input(),
                        output_tokens: answer.usage.output_tokens,
                    });
                    return Ok(self.after_summary(instructions, &text).await?);
                }
                None => {
                    let reply = Ok(ModelReply::Whole(answer));
                    self.discard(&mut discarded, reply, started);
                    "the model sent an empty answer".to_owned()
                }
            },
            Err(error) => error.to_string(),
        };
        self.emit(&EventKind::Error {
            error: format!("cannot compact the conversation: {error}"),
        });
        let message = self.summary(split, vec![ContentBlock::text(WITHOUT_SUMMARY)]);
        match discarded.sum() {
            Some(response) => self.store_answer(message, response).await?,
            None => self.append_with(message, Vec::new()).await?,
        }
        Ok(self.after_summary(instructions, WITHOUT_SUMMARY).await?)
    }

    /// Requests a summary of the messages in `split`, behind the beginning of the requests before, so that it reads their
    /// cache: from the server itself if it writes summaries, else from the model. As text if there is no such cache:
    /// nothing was asked before, or another model was.
    async fn ask_own(
        &mut self,
        split: &Split,
        wanted: Option<&str>,
        stop: &Stop,
        discarded: &mut Discarded,
    ) -> Result<ModelReply, ProviderError> {
        let started = self.ports.clock.now();
        let model = self.ports.provider.model();
        let is_own = Arc::ptr_eq(&self.ports.summarizer, &self.ports.provider)
            && !is_other_model(&self.transcript, &model.provider, &model.name);
        let clock = self.ports.clock.clone();
        let Some(prefix) = self.transcript.prefix().filter(|_| is_own).cloned() else {
            let request = self.flattened(split, wanted);
            return self.ask(Purpose::Summary, request, stop).await;
        };
        if self.ports.provider.extras().continuity.summarizes {
            let request = Request {
                summary: Some(wanted.unwrap_or_default().to_owned()),
                ..self.request_of(split.older().to_vec(), &prefix)
            };
            let reply = self.ask(Purpose::Summary, request, stop).await;
            match &reply {
                // What lies between may not know the wish, and the model goes on with its work.
                Ok(ModelReply::Whole(answer)) if server_summary(&answer.content).is_none() => {}
                Err(error) if error.class == ErrorClass::InvalidRequest => {}
                _ => return reply,
            }
            self.discard(discarded, reply, started);
            if !self.affords_more(discarded) {
                return Err(discarded::used_up());
            }
        }
        let window = self.settings.limits.context_window;
        let room = Split::room(window);
        let messages = if self.transcript.context_tokens() <= room {
            self.transcript.view()
        } else if split.older_tokens <= room {
            split.older().to_vec()
        } else {
            let request = self.flattened(split, wanted);
            return self.ask(Purpose::Summary, request, stop).await;
        };
        let request = self.request_of(messages, &prefix);
        let request = Split::appended(request, &*clock, wanted, window);
        self.ask(Purpose::Summary, request, stop).await
    }

    /// Returns a request for a summary with the conversation as text.
    fn flattened(&self, split: &Split, wanted: Option<&str>) -> Request {
        let of_model = self.ports.summarizer.model().context_window;
        let window = match Arc::ptr_eq(&self.ports.summarizer, &self.ports.provider) {
            true => of_model.min(self.settings.limits.context_window),
            false => of_model,
        };
        split.flattened(&*self.ports.clock, wanted, window)
    }

    /// Returns a request with these messages of the view behind the beginning of the branch.
    fn request_of(&self, messages: Vec<Arc<Message>>, prefix: &Prefix) -> Request {
        self.sent.of(
            messages,
            &self.transcript,
            prefix,
            &self.settings,
            self.ports.provider.extras().continuity.binds_thinking,
        )
    }

    /// Keeps what an answer has cost that is no summary.
    fn discard(
        &self,
        discarded: &mut Discarded,
        reply: Result<ModelReply, ProviderError>,
        started: Time,
    ) {
        if let Ok(ModelReply::Whole(answer) | ModelReply::Stopped(Some(answer))) = reply {
            discarded.add(self.response(Purpose::Summary, &answer, started));
        }
    }

    /// Returns whether the run has anything left for another request.
    fn affords_more(&self, discarded: &Discarded) -> bool {
        discarded.leave_room(self.transcript.totals(), &self.settings.limits)
    }

    fn summary(&self, split: Split, mut content: Vec<ContentBlock>) -> Message {
        let origin = Origin::Summary {
            kept_from: split.kept_from,
            shortened_to: split.shortened_to,
        };
        if let Some(ContentBlock::Text { text }) = content.first_mut() {
            let summary = short_summary(text.trim(), self.settings.limits.context_window);
            *text = format!("{MARKER}\n{summary}");
        }
        self.message(Role::User, origin, content)
    }
}

/// Returns the block with a summary that the server wrote.
fn server_summary(content: &[ContentBlock]) -> Option<&ContentBlock> {
    let mut blocks = content.iter();
    blocks.find(|block| block.server_summary().is_some())
}

/// Returns the content of a summary: its text, and the block of a server that wrote it. `None` if there is no text.
fn summary_of(answer: &[ContentBlock]) -> Option<Vec<ContentBlock>> {
    let written = server_summary(answer);
    let text = match written.and_then(ContentBlock::server_summary) {
        Some(text) => text.to_owned(),
        None => text_of(answer),
    };
    let text = (!text.trim().is_empty()).then(|| ContentBlock::text(text))?;
    Some([text].into_iter().chain(written.cloned()).collect())
}

/// Whether the answer to a request for a summary makes another form of it worth trying: the model went on with its work
/// and only called tools, or the conversation is too long for it.
fn is_no_summary(reply: &Result<ModelReply, ProviderError>) -> bool {
    match reply {
        Ok(ModelReply::Whole(answer)) => {
            let is_call = |block: &ContentBlock| matches!(block, ContentBlock::ToolUse(_));
            answer.content.iter().any(is_call) && text_of(&answer.content).trim().is_empty()
        }
        Ok(ModelReply::Stopped(_)) => false,
        Err(error) => error.class == ErrorClass::ContextTooLong,
    }
}
