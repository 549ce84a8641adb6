//! The Responses API, OpenAI's successor of chat completions. `encode` writes requests, `decode` reads answers; sending
//! and receiving is left to [`exchange`](crate::exchange).

mod decode;
mod encode;
mod wire;

use ah_conversation::ProviderError;
use reqwest::header::HeaderMap;

use self::decode::ResponseReader;
pub use self::encode::Encoder;
use crate::auth::AUTHORIZATION;
use crate::http_model::HttpModel;
use crate::server::{Server, address};

/// Decoder of answers.
pub type Decoder = crate::decode::Decoder<ResponseReader>;

/// A model behind the Responses API.
pub type Responses = HttpModel<Encoder, ResponseReader>;

impl Responses {
    /// A model of `server` whose requests `encoder` writes.
    pub fn new(server: Server, encoder: Encoder) -> Result<Self, ProviderError> {
        let url = address(&server.base_url, "responses");
        let endpoint = server.endpoint(&url, AUTHORIZATION, HeaderMap::new())?;
        Ok(Self::at(endpoint, encoder))
    }
}
