//! A provider with a fallback: the second model answers if the first one fails or refuses to. The second may have a
//! fallback itself. Retries of the first are left to [`retry`](crate::retry).
//!
//! A refusal is answered here and not by the server (`fallbacks` of the Messages API, a beta): so any model may answer for
//! any other, and the conversation has no answers of two models in one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{
    CallReason, ErrorClass, EventStream, FallbackNotice, Message, Model, Origin, Provider,
    ProviderError, ProviderExtras, Request, StopReason, StreamEvent, UnseenUse, Usage,
};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;

/// Two models, of which the second answers if the first cannot answer, as its server is busy, fails, cannot be reached or
/// does not know it, or if the first refuses to.
pub struct Fallback {
    first: Arc<dyn Provider>,
    second: Arc<dyn Provider>,
    /// Whether the second model has taken over. It then answers for the rest of the run, so that its prompt cache is used
    /// and no time is lost with the first. The next prompt starts with the first again.
    has_taken_over: Arc<AtomicBool>,
    /// What the first model used for answers that it refused.
    refused: Arc<Mutex<Vec<Usage>>>,
}

impl Fallback {
    /// Asks `first`, and `second` if it fails.
    pub fn new(first: Arc<dyn Provider>, second: Arc<dyn Provider>) -> Self {
        Self {
            first,
            second,
            has_taken_over: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Returns what was used for refused answers, and what `of` returns of both models: the second may have answered last.
    fn unseen(
        &self,
        of: impl Fn(&dyn UnseenUse) -> Vec<(CallReason, Model, Usage)>,
    ) -> Vec<(CallReason, Model, Usage)> {
        let refused = &mut *self.refused.lock();
        let refused = std::mem::take(refused).into_iter();
        let of_first = |usage| (CallReason::Refused, self.model().clone(), usage);
        let mut used: Vec<_> = refused.map(of_first).collect();
        for model in [&self.first, &self.second] {
            used.extend(model.extras().unseen.map(&of).unwrap_or_default());
        }
        used
    }
}

impl Provider for Fallback {
    fn model(&self) -> &Model {
        self.first.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras {
            unseen: Some(self),
            ..self.first.extras()
        }
    }

    fn stream(&self, request: Request) -> EventStream {
        let is_update = |message: &&Arc<Message>| matches!(message.origin, Origin::Update(_));
        let said = request
            .messages
            .iter()
            .rev()
            .find(|message| !is_update(message));
        let begins_run = said.is_some_and(|last| last.origin == Origin::Prompt);
        if begins_run {
            self.has_taken_over.store(false, Ordering::Relaxed);
        }
        let call = FallbackCall {
            first: self.model().name.clone(),
            has_other_server: self.model().provider != self.second.model().provider,
            second: self.second.clone(),
            request: request.clone(),
            has_taken_over: self.has_taken_over.clone(),
            refused: self.refused.clone(),
        };
        if self.has_taken_over.load(Ordering::Relaxed) {
            return call.ask_second(None);
        }
        let first = self.first.stream(request);
        let state = (first, Some(call));
        Box::pin(stream::unfold(state, |(mut events, call)| async move {
            let event = events.next().await?;
            match (event, call) {
                (Err(error), Some(call))
                    if may_succeed_elsewhere(error.class, call.has_other_server) =>
                {
                    call.take_over(error.to_string()).await
                }
                (
                    Ok(StreamEvent::Stopping {
                        stop_reason: StopReason::Refusal,
                        usage,
                    }),
                    Some(call),
                ) => {
                    call.note_refusal(usage);
                    call.take_over("it refuses to answer".to_owned()).await
                }
                (event, call) => Some((event, (events, call))),
            }
        }))
    }
}

impl UnseenUse for Fallback {
    fn end_pause(&self) -> Vec<(CallReason, Model, Usage)> {
        self.unseen(|model| model.end_pause())
    }

    fn used(&self) -> Vec<(CallReason, Model, Usage)> {
        self.unseen(|model| model.used())
    }
}

/// Whether another model may succeed after this error. A key that is rejected is rejected for all models of its server.
fn may_succeed_elsewhere(class: ErrorClass, has_other_server: bool) -> bool {
    match class {
        ErrorClass::Overloaded
        | ErrorClass::Server
        | ErrorClass::RateLimit
        | ErrorClass::Network
        | ErrorClass::Stalled
        | ErrorClass::Protocol
        | ErrorClass::Billing
        | ErrorClass::ModelNotFound => true,
        ErrorClass::Authentication => has_other_server,
        ErrorClass::InvalidRequest
        | ErrorClass::ContextTooLong
        | ErrorClass::Script
        | ErrorClass::Unknown => false,
    }
}

/// A request that the second model may have to answer.
struct FallbackCall {
    /// Name of the first model.
    first: String,
    /// Whether the second model is asked of another server.
    has_other_server: bool,
    second: Arc<dyn Provider>,
    request: Request,
    has_taken_over: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<Usage>>>,
}

/// An event, and the state of the stream behind it.
type Next = (
    Result<StreamEvent, ProviderError>,
    (EventStream, Option<FallbackCall>),
);

impl FallbackCall {
    /// Has the second model answer from now on.
    async fn take_over(self, why: String) -> Option<Next> {
        self.has_taken_over.store(true, Ordering::Relaxed);
        let mut events = self.ask_second(Some(why));
        let event = events.next().await?;
        Some((event, (events, None)))
    }

    /// Keeps what a refused answer has used, which may be nothing.
    fn note_refusal(&self, usage: Usage) {
        if usage != Usage::default() {
            let mut refused = self.refused.lock();
            refused.push(usage);
        }
    }

    fn ask_second(self, error: Option<String>) -> EventStream {
        let model = self.second.model().clone();
        let request = Request {
            max_output: self.request.max_output.min(model.max_output),
            ..self.request
        };
        let notice = StreamEvent::Fallback(FallbackNotice {
            model: Box::new(model),
            instead_of: self.first,
            error,
        });
        let events = self.second.stream(request);
        Box::pin(stream::once(async { Ok(notice) }).chain(events))
    }
}
