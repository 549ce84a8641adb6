//! Model calls: requests for an answer, and what is common to all requests. Summaries are in [`summary`](crate::summary).

use std::pin::pin;
use std::sync::Arc;

use ah_conversation::{
    CallReason, Cost, ErrorClass, EventKind, Message, MessageId, Model, Origin, PermissionMode,
    Prefix, PrefixBreak, Provider, ProviderError, Request, Response, Role, StoreError, StreamEvent,
    Time, UnseenUse, Usage,
};
use futures_util::StreamExt;

use crate::prefix::{Due, Present, brings_names, due, is_other_model};
use crate::prompt::{Fact, SystemPrompt};
use crate::response::{Assembly, ModelAnswer};
use crate::{RunFailure, Session, SessionUpdate, Stop};

/// Request bodies above this size in bytes cause a warning.
const PAYLOAD_WARN: u64 = 800_000;

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The next answer, streamed to the audience.
    Answer,
    /// A summary of older messages, not displayed.
    Summary,
}

/// Result of a request.
pub(crate) enum ModelReply {
    /// Complete.
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
        let audience = self.ports.audience.clone();
        let appends = self.ports.provider.extras().continuity.appends_tools;
        tokio::select! {
            biased;
            // The request below sees the stop as well.
            () = stop.wait(&*clock) => {}
            () = self.tools.catch_up(appends, |notice| audience.notice(notice)) => {}
        }
        // The frontend knows the message's id in advance.
        let id = clock.message_id();
        let prefix = self.settle(&id).await?;
        let continuity = self.ports.provider.extras().continuity;
        let request = self.sent.request(
            &self.transcript,
            &prefix,
            &self.settings,
            continuity.binds_thinking,
        );
        if let Some(left_out) = self.sent.left_out_anew() {
            self.emit(&EventKind::PrefixBroken {
                message_id: id.clone(),
                reason: PrefixBreak::Trimmed,
            });
            let limit = self.settings.max_messages.unwrap_or_default();
            self.ports.audience.notice(&format!(
                "{left_out} older messages are left out (maxConversationMessages is {limit})"
            ));
        }
        self.ports.audience.update(SessionUpdate::Asking {
            model: self.ports.provider.model(),
            message: &id,
        });
        let answer = match self.ask_for_answer(request, stop).await {
            // Whoever resumes the run asks again.
            Ok(ModelReply::Stopped(Some(answer))) if stop.is_left() => {
                let model = self.ports.provider.model().clone();
                self.emit_unsaid(CallReason::Abandoned, &model, answer.usage);
                return Ok(());
            }
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
            self.emit(&EventKind::CacheMissed {
                message_id: id.clone(),
                expected_tokens: miss.expected,
                read_tokens: miss.read,
                change: miss.change,
            });
        }
        for reason in answer.dropped {
            self.emit(&EventKind::PrefixBroken {
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
                appends_thinking: self.ports.provider.extras().continuity.appends_thinking,
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
        let appends_tools = self.ports.provider.extras().continuity.appends_tools;
        if !appends_tools && brings_names(&self.transcript) {
            broken = broken.or(Some(PrefixBreak::Tools));
        }
        if let Some(reason) = broken {
            self.emit(&EventKind::PrefixBroken {
                message_id: id.clone(),
                reason,
            });
        }
        Ok(self.transcript.prefix().cloned().unwrap_or_default())
    }

    pub(crate) fn response(
        &self,
        purpose: Purpose,
        answer: &ModelAnswer,
        started: Time,
    ) -> Response {
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

    /// Stores an answer with its usage.
    pub(crate) async fn store_answer(
        &mut self,
        message: Message,
        response: Response,
    ) -> Result<(), StoreError> {
        let message = Message {
            response: Some(response),
            ..message
        };
        self.append_with(message, Vec::new()).await
    }

    pub(crate) fn provider_for(&self, purpose: Purpose) -> &dyn Provider {
        match purpose {
            Purpose::Answer => &*self.ports.provider,
            Purpose::Summary => &*self.ports.summarizer,
        }
    }

    /// Sends a request and assembles the answer.
    pub(crate) async fn ask(
        &mut self,
        purpose: Purpose,
        request: Request,
        stop: &Stop,
    ) -> Result<ModelReply, ProviderError> {
        let request = Request {
            precedes_pause: purpose == Purpose::Answer && self.is_main(),
            ..request
        };
        self.end_pause();
        let mut stream = self.provider_for(purpose).stream(request);
        let clock = self.ports.clock.clone();
        let mut stopped = pin!(stop.wait(&*clock));
        let mut assembly = Assembly::default();
        let audience = self.ports.audience.clone();
        // Nothing is received before the frontend can show it.
        let mut next = async || {
            audience.ready().await;
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
            let repeats = self.settings.limits.ends_chants && assembly.repeats(&event);
            self.relay(purpose, &assembly, &event);
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
        let unseen = self.ports.provider.extras().unseen;
        let unseen = match self.is_main() {
            true => unseen.map(UnseenUse::end_pause),
            // The model is also that of the session that waits.
            false => unseen.map(UnseenUse::used),
        };
        let unseen = unseen.unwrap_or_default();
        for (reason, model, usage) in unseen {
            self.emit_unsaid(reason, &model, usage);
        }
    }

    /// Whether a person continues this conversation: it is no subagent's.
    fn is_main(&self) -> bool {
        self.ports.agent_id.is_none() && self.origin_prompt.is_none()
    }

    /// Records what a request has used of which no message is kept.
    fn emit_unsaid(&mut self, reason: CallReason, model: &Model, usage: Usage) {
        let event = EventKind::ApiCallEnd {
            message_id: self.ports.clock.message_id(),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
            api_latency_ms: 0,
            model: model.name.clone(),
            cost_usd: model.cost(&usage).map(Cost::usd),
            reason: Some(reason),
        };
        self.emit(&event);
    }

    /// Tells of a streamed event, after the block that it completes. Of a summary, only what is an event is told.
    fn relay(&mut self, purpose: Purpose, assembly: &Assembly, piece: &StreamEvent) {
        let update = SessionUpdate::Piece(piece);
        match purpose {
            Purpose::Answer => {
                if let StreamEvent::BlockStopped { index } = piece
                    && let Some(block) = assembly.block(*index)
                {
                    self.tell(SessionUpdate::Block(&block));
                }
                self.tell(update);
            }
            Purpose::Summary if update.text().is_some() => {}
            Purpose::Summary => {
                if let Some(event) = update.event() {
                    self.emit(&event);
                }
            }
        }
        match piece {
            StreamEvent::Sent {
                payload_bytes,
                held_bytes,
            } => {
                let payload_bytes = *payload_bytes;
                if let Some(held_bytes) = *held_bytes {
                    self.emit(&EventKind::ConversationHeld {
                        payload_bytes,
                        held_bytes,
                    });
                }
                if payload_bytes > PAYLOAD_WARN {
                    self.emit(&EventKind::PayloadWarn {
                        payload_bytes,
                        threshold: PAYLOAD_WARN,
                    });
                }
            }
            StreamEvent::LeftOut { notice } => self.ports.audience.notice(notice),
            _ => {}
        }
    }
}
