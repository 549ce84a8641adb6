//! The Messages API: one call is one attempt. What the bytes mean is decided in `encode` and `decode`; how they come and
//! go in `exchange`.

mod decode;
pub(crate) mod encode;
pub(crate) mod wire;

use std::sync::{Mutex, PoisonError};

use ah_conversation::{EventStream, Model, Provider, ProviderError, Request};
use reqwest::Client;
use reqwest::header::HeaderValue;

pub use self::encode::Encoder;
use crate::auth::Credentials;
pub use crate::exchange::Patience;
use crate::exchange::{Endpoint, Settings};

/// Turns the bytes of an answer into events.
pub type Decoder = crate::decode::Decoder<decode::Answer>;

/// The server unless another is set.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";

/// A model behind the Messages API.
pub struct Anthropic {
    model: Model,
    endpoint: Endpoint,
    encoder: Mutex<Encoder>,
}

impl Anthropic {
    /// A model reached with `client` at `base_url`, whose requests `encoder` writes.
    pub fn new(
        client: Client,
        base_url: &str,
        credentials: &Credentials,
        betas: &[String],
        encoder: Encoder,
        patience: Patience,
    ) -> Result<Self, ProviderError> {
        let base_url = base_url.strip_suffix('/').unwrap_or(base_url);
        let mut headers = credentials.headers(betas)?;
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        let settings = Settings {
            address: "ANTHROPIC_BASE_URL".to_owned(),
            credentials: credentials.variable().to_owned(),
        };
        let url = format!("{base_url}/v1/messages");
        Ok(Self {
            model: encoder.model().clone(),
            endpoint: Endpoint::new(client, &url, headers, settings, patience)?,
            encoder: Mutex::new(encoder),
        })
    }
}

impl Provider for Anthropic {
    fn model(&self) -> &Model {
        &self.model
    }

    fn stream(&self, request: Request) -> EventStream {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let body = encoder.encode(&request);
        self.endpoint.ask::<decode::Answer>(body)
    }
}
