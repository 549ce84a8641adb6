//! Gemini's Interactions API. `encode` writes requests, `decode` reads answers; sending and receiving is left to
//! [`exchange`](crate::exchange).

mod decode;
mod encode;
mod wire;

use ah_conversation::ProviderError;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use self::decode::InteractionReader;
pub use self::encode::Encoder;
use crate::http_model::HttpModel;
use crate::server::{Server, address};

/// Header for the key.
const KEY: &str = "x-goog-api-key";
/// Header for the version of the API's JSON, and the version that is spoken here (npm `@google/genai` 2.32.0).
const REVISION: (&str, &str) = ("api-revision", "2026-05-20");
/// What stands at the end of the address of chat completions at the same server.
const CHAT: &str = "/openai";

/// Decoder of answers.
pub type Decoder = crate::decode::Decoder<InteractionReader>;

/// A model behind the Interactions API.
pub type Interactions = HttpModel<Encoder, InteractionReader>;

impl Interactions {
    /// A model of `server` whose requests `encoder` writes.
    pub fn new(server: Server, encoder: Encoder) -> Result<Self, ProviderError> {
        let base = server.base_url.trim().trim_end_matches('/');
        let url = address(base.strip_suffix(CHAT).unwrap_or(base), "interactions");
        let (keep, notes) = (server.keep_fact.clone(), server.notes.clone());
        let (name, revision) = REVISION;
        let own = [(
            HeaderName::from_static(name),
            HeaderValue::from_static(revision),
        )];
        let endpoint = server.endpoint(&url, KEY, HeaderMap::from_iter(own))?;
        Ok(Self::at(endpoint, encoder).keeping(keep).noting(notes))
    }
}
