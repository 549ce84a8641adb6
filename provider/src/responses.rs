//! The Responses API, OpenAI's successor of chat completions. `encode` writes requests, `decode` reads answers; sending
//! and receiving is left to [`exchange`](crate::exchange).

mod decode;
pub(crate) mod encode;
mod generation;
mod wire;

use ah_conversation::ProviderError;
use reqwest::header::HeaderMap;

use self::decode::ResponseReader;
pub use self::encode::Encoder;
use crate::auth::AUTHORIZATION;
use crate::featured::Featured;
use crate::http_model::HttpModel;
use crate::request_encoder::RequestEncoder as _;
use crate::server::{Server, address};
use crate::socket::Sockets;

/// Words of an error that is about features which only newer servers know.
const FEATURE_WORDS: [&str; 4] = [
    "additional_tools",
    "configuration_update",
    "message role",
    "prompt_cache",
];

/// Decoder of answers.
pub type Decoder = crate::decode::Decoder<ResponseReader>;

/// A model behind the Responses API.
pub type Responses = Featured<Encoder, ResponseReader>;

impl Responses {
    /// A model of `server` whose requests `encoder` writes.
    pub fn new(server: Server, encoder: Encoder) -> Result<Self, ProviderError> {
        let plain = match encoder.plain() {
            (plain, true) => Some(model(server.clone(), plain)?),
            (_, false) => None,
        };
        Ok(Self::with(model(server, encoder)?, plain, refuses_features))
    }
}

fn model(
    server: Server,
    encoder: Encoder,
) -> Result<HttpModel<Encoder, ResponseReader>, ProviderError> {
    let url = address(&server.base_url, "responses");
    let (keep, notes) = (server.keep_fact.clone(), server.notes.clone());
    let sockets = encoder.needs_sockets().then(|| server.http.clone());
    let endpoint = server.endpoint(&url, AUTHORIZATION, HeaderMap::new())?;
    let model = HttpModel::at(endpoint, encoder).keeping(keep).noting(notes);
    Ok(model.over(sockets.map(Sockets::new)))
}

/// Whether a server may have refused the features that only newer servers know.
fn refuses_features(error: &ProviderError) -> bool {
    let text = error.message.to_lowercase();
    let is_of_features = FEATURE_WORDS.iter().any(|word| text.contains(word));
    matches!(error.status, Some(400 | 422)) && is_of_features
}
