//! Model calls: requests for an answer, and for a summary of older messages.

use std::pin::pin;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Cost, Delta, ErrorClass, EventKind, ExitReason, FallbackNotice, Message,
    MessageId, Origin, PermissionMode, Prefix, PrefixBreak, Provider, ProviderError, Request,
    Response, RetryNotice, Role, RunTotals, StoreError, StreamEvent, Time, text_of,
};
use futures_util::StreamExt;

use crate::compaction::discarded::{self, Discarded};
use crate::compaction::{
    MARKER, Split, WITHOUT_SUMMARY, short_summary, shorter_tail, split, whole,
};
use crate::prefix::{Due, Present, brings_names, due, is_other_model};
use crate::prompt::{Fact, SystemPrompt};
use crate::response::{Assembly, ModelAnswer};
use crate::{RunFailure, RunOutcome, Session, SessionUpdate, Stop};

/// Request bodies above this size in bytes cause a warning.
const PAYLOAD_WARN: u64 = 800_000;

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The next answer, streamed to the frontend.
    Answer,
    /// A summary of older messages, not displayed.
    Summary,
}

/// Result of a request.
enum ModelReply {
    Whole(ModelAnswer),
    /// Stopped from outside, with the part of the answer to keep.
    Stopped(Option<ModelAnswer>),
}

impl Session {
    /// Requests the next answer and stores it, complete or interrupted. If the server rejects the conversation as too
    /// long, requests a summary instead, unless there was one just before.
    pub(crate) async fn call_model(&mut self, stop: &Stop) -> Result<(), RunFailure> {
        if let Some(files) = &self.ports.command_files {
            files.told();
        }
        let started = self.ports.clock.now();
        let clock = self.ports.clock.clone();
        let frontend = self.ports.frontend.clone();
        let appends = self.ports.provider.continuity().appends_tools;
        tokio::select! {
            biased;
            // The request below sees the stop as well.
            () = stop.wait(&*clock) => {}
            () = self.tools.catch_up(appends, |notice| frontend.notice(notice)) => {}
        }
        // The frontend knows the message's id in advance.
        let id = clock.message_id();
        let prefix = self.settle(&id).await?;
        let continuity = self.ports.provider.continuity();
        let request = self.sent.request(
            &self.transcript,
            &prefix,
            &self.settings,
            continuity.binds_thinking,
        );
        if let Some(left_out) = self.sent.left_out_anew() {
            self.emit(EventKind::PrefixBroken {
                message_id: id.clone(),
                reason: PrefixBreak::Trimmed,
            });
            let limit = self.settings.max_messages.unwrap_or_default();
            self.ports.frontend.notice(&format!(
                "{left_out} older messages are left out (maxConversationMessages is {limit})"
            ));
        }
        self.ports.frontend.update(SessionUpdate::Asking {
            model: self.ports.provider.model(),
            message: &id,
        });
        let answer = match self.ask_for_answer(request, stop).await {
            Ok(ModelReply::Whole(answer) | ModelReply::Stopped(Some(answer))) => answer,
            Ok(ModelReply::Stopped(None)) => return Ok(()),
            Err(error) if error.class == ErrorClass::ContextTooLong => {
                self.follow_window();
                return self.make_room(error, stop).await;
            }
            Err(error) => return Err(error.into()),
        };
        let response = self.response(Purpose::Answer, &answer, started);
        // A server says what an answer costs at its end.
        let is_unpriced = response.cost.is_none() && stop.reason(self.ports.clock.now()).is_none();
        if let Some(miss) = answer.cache_miss {
            self.emit(EventKind::CacheMissed {
                message_id: id.clone(),
                expected_tokens: miss.expected,
                read_tokens: miss.read,
                change: miss.change,
            });
        }
        for reason in answer.dropped {
            self.emit(EventKind::PrefixBroken {
                message_id: id.clone(),
                reason,
            });
        }
        let message = self.message_of(id, Role::Assistant, Origin::Model, answer.content);
        self.store_answer(message, response).await?;
        match self.settings.limits.max_budget {
            Some(_) if is_unpriced => Err(RunFailure::Unpriced),
            _ => Ok(()),
        }
    }

    /// Sends a request for the next answer, in the form that is owed if one is; a server that refuses to hold the model to it
    /// is asked without.
    async fn ask_for_answer(
        &mut self,
        request: Request,
        stop: &Stop,
    ) -> Result<ModelReply, ProviderError> {
        let form = self.settings.answer_form.as_ref();
        let Some(answer) = form.and_then(|form| form.demand(self.transcript.run())) else {
            return self.ask(Purpose::Answer, request, stop).await;
        };
        let demanding = Request {
            answer: Some(answer),
            ..request.clone()
        };
        match self.ask(Purpose::Answer, demanding, stop).await {
            Err(error) if error.class == ErrorClass::InvalidRequest => {
                self.ask(Purpose::Answer, request, stop).await
            }
            reply => reply,
        }
    }

    /// Returns what has to be stored before the next request.
    fn due(&self, prompt: &SystemPrompt) -> Due {
        let mode = self.settings.permissions.mode;
        let instructions = self.settings.plan_instructions.as_ref();
        let plan = instructions.filter(|_| mode == PermissionMode::Plan);
        due(
            &self.transcript,
            &Present {
                prompt,
                tools: &self.tools.known(&self.transcript),
                withdrawn: self.tools.withdrawn(),
                mode,
                thinking: self.settings.thinking,
                appends_thinking: self.ports.provider.continuity().appends_thinking,
                plan: plan.map(|text| Fact {
                    name: "plan mode".to_owned(),
                    text: text.clone(),
                    is_apart: true,
                }),
            },
        )
    }

    /// Stores what the model has to be told before the next request, and returns the beginning of that request. `id` will
    /// be its answer.
    async fn settle(&mut self, id: &MessageId) -> Result<Arc<Prefix>, StoreError> {
        let prompt = self
            .prompt
            .take()
            .unwrap_or_else(|| self.settings.prompt.now());
        let model = self.ports.provider.model();
        let mut broken = is_other_model(&self.transcript, &model.provider, &model.name)
            .then_some(PrefixBreak::Model);
        let mut due = self.due(&prompt);
        if let Due::Begin(prefix) = due {
            broken = prefix.broken.or(broken);
            self.begin_prefix(prefix);
            // Some facts are not part of the beginning.
            due = self.due(&prompt);
        }
        if let Due::Tell(update, content) = due {
            self.append(Origin::Update(Box::new(update)), content)
                .await?;
        }
        self.prompt = Some(prompt);
        let appends_tools = self.ports.provider.continuity().appends_tools;
        if !appends_tools && brings_names(&self.transcript) {
            broken = broken.or(Some(PrefixBreak::Tools));
        }
        if let Some(reason) = broken {
            self.emit(EventKind::PrefixBroken {
                message_id: id.clone(),
                reason,
            });
        }
        Ok(self.transcript.prefix().cloned().unwrap_or_default())
    }

    /// Makes room in a conversation that the server has refused as too long: by a summary, or by a shorter tail behind the
    /// last one.
    async fn make_room(&mut self, refusal: ProviderError, stop: &Stop) -> Result<(), RunFailure> {
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
        self.emit(EventKind::CompactionTriggered {
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
                    self.emit(EventKind::CompactionComplete {
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
        self.emit(EventKind::Error {
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
        if self.ports.provider.continuity().summarizes {
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
            self.ports.provider.continuity().binds_thinking,
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

    fn response(&self, purpose: Purpose, answer: &ModelAnswer, started: Time) -> Response {
        let requested = self.provider_for(purpose).model();
        let model = answer.model.as_ref().unwrap_or(requested);
        Response {
            stop_reason: answer.stop_reason.clone(),
            usage: answer.usage,
            cost: answer.cost.or_else(|| model.cost(&answer.usage)),
            model: model.name.clone(),
            provider: model.provider.clone(),
            latency_ms: self.ports.clock.now().since(started),
            request_id: answer.request_id.clone(),
            opaque: { Some(&answer.opaque) }
                .filter(|opaque| purpose == Purpose::Answer && !opaque.is_empty())
                .map(|opaque| Box::new(opaque.clone())),
        }
    }

    /// Stores an answer, then reports its usage.
    async fn store_answer(
        &mut self,
        message: Message,
        response: Response,
    ) -> Result<(), StoreError> {
        let event = self.event(EventKind::ApiCallEnd {
            message_id: message.id.clone(),
            input_tokens: response.usage.input_tokens,
            output_tokens: response.usage.output_tokens,
            cache_creation_input_tokens: response.usage.cache_creation_input_tokens,
            cache_read_input_tokens: response.usage.cache_read_input_tokens,
            api_latency_ms: response.latency_ms,
            model: response.model.clone(),
            cost_usd: response.cost.map(Cost::usd),
        });
        self.keep(event.clone());
        let message = Message {
            response: Some(response),
            ..message
        };
        self.append_with(message, Vec::new()).await?;
        self.ports.frontend.show(&event);
        Ok(())
    }

    fn provider_for(&self, purpose: Purpose) -> &dyn Provider {
        match purpose {
            Purpose::Answer => &*self.ports.provider,
            Purpose::Summary => &*self.ports.summarizer,
        }
    }

    /// Sends a request and assembles the answer.
    async fn ask(
        &mut self,
        purpose: Purpose,
        request: Request,
        stop: &Stop,
    ) -> Result<ModelReply, ProviderError> {
        self.end_pause();
        let mut stream = self.provider_for(purpose).stream(request);
        let clock = self.ports.clock.clone();
        let mut stopped = pin!(stop.wait(&*clock));
        let mut assembly = Assembly::default();
        let frontend = self.ports.frontend.clone();
        // Nothing is received before the frontend can show it.
        let mut next = async || {
            frontend.ready().await;
            stream.next().await
        };
        loop {
            let event = tokio::select! {
                biased;
                () = &mut stopped => return Ok(ModelReply::Stopped(assembly.into_interrupted())),
                event = next() => event,
            };
            let event = match event {
                Some(event) => event?,
                None => break,
            };
            assembly.push(&event);
            if purpose == Purpose::Answer {
                self.relay(&assembly, &event);
            }
            let repeats = assembly.repeats(&event);
            self.tell(purpose, event);
            if repeats {
                return match assembly.into_repetitive() {
                    Some(answer) if purpose == Purpose::Answer => Ok(ModelReply::Whole(answer)),
                    _ => Err(ProviderError::new(
                        ErrorClass::Protocol,
                        "the model repeats itself",
                    )),
                };
            }
        }
        if assembly.is_whole() {
            Ok(ModelReply::Whole(assembly.into_answer()))
        } else {
            Err(ProviderError::new(
                ErrorClass::Protocol,
                "the answer ended early",
            ))
        }
    }

    /// Records the requests that kept the conversation in the prompt cache since the last answer, or were refused, as calls
    /// without a message: nothing was said.
    pub(crate) fn end_pause(&mut self) {
        for usage in self.ports.provider.end_pause() {
            let model = self.ports.provider.model();
            let event = EventKind::ApiCallEnd {
                message_id: self.ports.clock.message_id(),
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_creation_input_tokens: usage.cache_creation_input_tokens,
                cache_read_input_tokens: usage.cache_read_input_tokens,
                api_latency_ms: 0,
                model: model.name.clone(),
                cost_usd: model.cost(&usage).map(Cost::usd),
            };
            self.emit(event);
        }
    }

    /// Sends a streamed event to the frontend, after the block that it completes.
    fn relay(&self, assembly: &Assembly, event: &StreamEvent) {
        let frontend = &self.ports.frontend;
        if let StreamEvent::BlockStopped { index } = event
            && let Some(block) = assembly.block(*index)
        {
            frontend.update(SessionUpdate::Block(&block));
        }
        frontend.update(SessionUpdate::Piece(event));
    }

    fn tell(&mut self, purpose: Purpose, event: StreamEvent) {
        match event {
            StreamEvent::Sent { payload_bytes } => {
                self.emit(EventKind::ApiCallStart { payload_bytes });
                if payload_bytes > PAYLOAD_WARN {
                    self.emit(EventKind::PayloadWarn {
                        payload_bytes,
                        threshold: PAYLOAD_WARN,
                    });
                }
            }
            StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            } if purpose == Purpose::Answer => self.emit(EventKind::TextDelta { text }),
            StreamEvent::LeftOut { notice } => self.ports.frontend.notice(&notice),
            StreamEvent::Fallback(FallbackNotice {
                model,
                instead_of,
                error: Some(error),
            }) => self.emit(EventKind::Fallback {
                from_model: instead_of,
                to_model: model.name,
                error,
            }),
            StreamEvent::Retry(RetryNotice {
                attempt,
                delay,
                status,
                error,
                ..
            }) => self.emit(EventKind::Retry {
                attempt,
                delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                status: status.unwrap_or(0),
                error,
            }),
            _ => {}
        }
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
