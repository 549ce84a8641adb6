//! A model behind an HTTP API, as far as all APIs are alike: an encoder writes the body of each request, and a reader
//! turns the answer into stream events. One call of [`Provider::stream`] is one attempt; retries are left to
//! [`retry`](crate::retry). Only a request for more output than the server allows is sent again here, once, with the
//! limit that the server names.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{
    Continuity, EventStream, Model, Provider, ProviderError, Request, StreamEvent,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::abilities::Abilities;
use crate::decode::AnswerReader;
use crate::exchange::Endpoint;
use crate::limit::{self, Limit, MIN_OUTPUT};

/// Writes the bodies of requests to one model.
pub trait RequestEncoder: Send + 'static {
    /// The model that the requests are for.
    fn model(&self) -> &Model;

    /// Returns how the model takes changes in a conversation.
    fn continuity(&self) -> Continuity {
        Continuity::default()
    }

    /// Returns the abilities of the model, to which what is learned of it is added.
    fn abilities(&mut self) -> &mut Abilities;

    /// Returns the body of `request` in pieces, which share memory with those of earlier requests.
    fn encode(&mut self, request: &Request) -> Vec<Bytes>;
}

/// A model whose requests `E` encodes and whose answers `R` reads.
pub struct HttpModel<E, R> {
    model: Model,
    endpoint: Endpoint,
    encoder: Arc<Mutex<E>>,
    reader: PhantomData<fn() -> R>,
}

impl<E: RequestEncoder, R: AnswerReader> HttpModel<E, R> {
    /// A model at `endpoint`.
    pub(crate) fn at(endpoint: Endpoint, encoder: E) -> Self {
        Self {
            model: encoder.model().clone(),
            endpoint,
            encoder: Arc::new(Mutex::new(encoder)),
            reader: PhantomData,
        }
    }

    /// Sends `body` as a request of its own.
    pub(crate) fn ask(&self, body: Vec<Bytes>) -> EventStream {
        self.endpoint.ask::<R>(body)
    }
}

impl<E: RequestEncoder, R: AnswerReader> Provider for HttpModel<E, R> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn continuity(&self) -> Continuity {
        let encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        encoder.continuity()
    }

    fn stream(&self, request: Request) -> EventStream {
        let body = encode(&self.encoder, &request);
        let again = Again {
            endpoint: self.endpoint.clone(),
            encoder: self.encoder.clone(),
            request,
        };
        let state = (self.ask(body), Some(again));
        Box::pin(stream::unfold(state, |(mut events, again)| async move {
            let event = events.next().await?;
            let again = match (&event, again) {
                (Ok(StreamEvent::Sent { .. }), again) => return Some((event, (events, again))),
                (Err(error), Some(again)) => again.learn(error),
                _ => None,
            };
            let Some(again) = again else {
                return Some((event, (events, None)));
            };
            let body = encode(&again.encoder, &again.request);
            let mut events = again.endpoint.ask::<R>(body);
            let event = events.next().await?;
            Some((event, (events, None)))
        }))
    }
}

fn encode<E: RequestEncoder>(encoder: &Mutex<E>, request: &Request) -> Vec<Bytes> {
    let mut encoder = encoder.lock().unwrap_or_else(PoisonError::into_inner);
    encoder.encode(request)
}

/// A request that may be sent again.
struct Again<E> {
    endpoint: Endpoint,
    encoder: Arc<Mutex<E>>,
    request: Request,
}

impl<E: RequestEncoder> Again<E> {
    /// Learns the limit that `error` names; returns the request with less output, unless that is no help.
    fn learn(mut self, error: &ProviderError) -> Option<Self> {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let abilities = encoder.abilities();
        let known = abilities.max_output.unwrap_or(u64::MAX);
        let wanted = self.request.max_output.min(known);
        match limit::named(&error.message)? {
            Limit::Output(limit) if limit < known => abilities.max_output = Some(limit),
            Limit::Window { window, room } if (MIN_OUTPUT..wanted).contains(&room) => {
                // Later requests have longer inputs, and are to fit as well.
                let limit = (window / 4).max(MIN_OUTPUT);
                if limit < wanted {
                    abilities.max_output = Some(limit);
                }
                self.request.max_output = room;
            }
            Limit::Output(_) | Limit::Window { .. } => return None,
        }
        drop(encoder);
        Some(self)
    }
}
