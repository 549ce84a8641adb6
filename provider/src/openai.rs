//! Chat completions, the protocol of OpenAI and of the many servers that followed it. One call is one attempt; what the
//! bytes mean is decided in `encode` and `decode`, how they come and go in `exchange`.

pub(crate) mod calls;
mod decode;
pub(crate) mod encode;
pub(crate) mod messages;
mod quirks;
mod reasoning;
pub(crate) mod usage;
mod wire;

use std::sync::{Mutex, PoisonError};

use ah_conversation::{EventStream, Model, Provider, ProviderError, Request};
use reqwest::header::HeaderMap;

pub use self::encode::{Additions, Encoder};
pub use self::quirks::{OutputLimit, Quirks, ReturnedReasoning, ThinkingField, ToolCallIds};
use crate::auth::AUTHORIZATION;
use crate::exchange::Endpoint;
use crate::server::{Server, address};

/// Turns the bytes of an answer into events.
pub type Decoder = crate::decode::Decoder<decode::Answer>;

/// A model behind chat completions.
pub struct Chat {
    model: Model,
    endpoint: Endpoint,
    encoder: Mutex<Encoder>,
}

impl Chat {
    /// A model of `server`, whose requests `encoder` writes.
    pub fn new(server: Server, encoder: Encoder) -> Result<Self, ProviderError> {
        let url = address(&server.base_url, "chat/completions");
        Ok(Self {
            model: encoder.model().clone(),
            endpoint: server.endpoint(&url, AUTHORIZATION, HeaderMap::new())?,
            encoder: Mutex::new(encoder),
        })
    }
}

impl Provider for Chat {
    fn model(&self) -> &Model {
        &self.model
    }

    fn stream(&self, request: Request) -> EventStream {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let body = encoder.encode(&request);
        self.endpoint.ask::<decode::Answer>(body)
    }
}
