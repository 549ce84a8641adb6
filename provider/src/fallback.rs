//! A provider with a fallback: the second model answers if the first one fails. The second may have a fallback itself.
//! Retries of the first are left to [`retry`](crate::retry).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{
    Continuity, ErrorClass, EventStream, FallbackNotice, Message, Model, Origin, Provider, Request,
    Searching, StreamEvent, Usage, WebSearch,
};
use futures_util::{StreamExt, stream};

/// Two models, of which the second answers if the first cannot answer: its server is busy, fails, cannot be reached or does not know it.
pub struct Fallback {
    first: Arc<dyn Provider>,
    second: Arc<dyn Provider>,
    /// Whether the second model has taken over. It then answers for the rest of the run, so that its prompt cache is used
    /// and no time is lost with the first. The next prompt starts with the first again.
    has_taken_over: Arc<AtomicBool>,
}

impl Fallback {
    /// Asks `first`, and `second` if it fails.
    pub fn new(first: Arc<dyn Provider>, second: Arc<dyn Provider>) -> Self {
        Self {
            first,
            second,
            has_taken_over: Arc::default(),
        }
    }
}

impl Provider for Fallback {
    fn model(&self) -> &Model {
        self.first.model()
    }

    fn continuity(&self) -> Continuity {
        self.first.continuity()
    }

    fn search(&self, search: &WebSearch) -> Option<Searching> {
        self.first.search(search)
    }

    fn end_pause(&self) -> Vec<Usage> {
        self.first.end_pause()
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
                    call.has_taken_over.store(true, Ordering::Relaxed);
                    let mut events = call.ask_second(Some(error.to_string()));
                    let event = events.next().await?;
                    Some((event, (events, None)))
                }
                (event, call) => Some((event, (events, call))),
            }
        }))
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
}

impl FallbackCall {
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
