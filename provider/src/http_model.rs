//! A model behind an HTTP API, as far as all APIs are alike: an encoder writes the body of each request, and a reader
//! turns the answer into stream events. One call of [`Provider::stream`] is one attempt; retries are left to
//! [`retry`](crate::retry).

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use ah_conversation::{Continuity, EventStream, Model, Provider, Request};
use bytes::Bytes;

use crate::decode::AnswerReader;
use crate::exchange::Endpoint;

/// Writes the bodies of requests to one model.
pub trait RequestEncoder: Send + 'static {
    /// The model that the requests are for.
    fn model(&self) -> &Model;

    /// Returns how the model takes changes in a conversation.
    fn continuity(&self) -> Continuity {
        Continuity::default()
    }

    /// Returns the body of `request` in pieces, which share memory with those of earlier requests.
    fn encode(&mut self, request: &Request) -> Vec<Bytes>;
}

/// A model whose requests `E` encodes and whose answers `R` reads.
pub struct HttpModel<E, R> {
    model: Model,
    endpoint: Endpoint,
    encoder: Mutex<E>,
    reader: PhantomData<fn() -> R>,
}

impl<E: RequestEncoder, R: AnswerReader> HttpModel<E, R> {
    /// A model at `endpoint`.
    pub(crate) fn at(endpoint: Endpoint, encoder: E) -> Self {
        Self {
            model: encoder.model().clone(),
            endpoint,
            encoder: Mutex::new(encoder),
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
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask(encoder.encode(&request))
    }
}
