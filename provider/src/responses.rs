//! The Responses API, OpenAI's successor of chat completions. One call is one attempt; what the bytes mean is decided in
//! `encode` and `decode`, how they come and go in `exchange`.

mod decode;
mod encode;
mod wire;

use std::sync::{Mutex, PoisonError};

use ah_conversation::{EventStream, Model, Provider, ProviderError, Request};
use reqwest::header::HeaderMap;

pub use self::encode::Encoder;
use crate::auth::AUTHORIZATION;
use crate::exchange::Endpoint;
use crate::server::{Server, address};

/// Turns the bytes of an answer into events.
pub type Decoder = crate::decode::Decoder<decode::Answer>;

/// A model behind the Responses API.
pub struct Responses {
    model: Model,
    endpoint: Endpoint,
    encoder: Mutex<Encoder>,
}

impl Responses {
    /// A model of `server`, whose requests `encoder` writes.
    pub fn new(server: Server, encoder: Encoder) -> Result<Self, ProviderError> {
        let url = address(&server.base_url, "responses");
        Ok(Self {
            model: encoder.model().clone(),
            endpoint: server.endpoint(&url, AUTHORIZATION, HeaderMap::new())?,
            encoder: Mutex::new(encoder),
        })
    }
}

impl Provider for Responses {
    fn model(&self) -> &Model {
        &self.model
    }

    fn stream(&self, request: Request) -> EventStream {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let body = encoder.encode(&request);
        self.endpoint.ask::<decode::Answer>(body)
    }
}
