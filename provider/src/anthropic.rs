//! The Messages API. `encode` writes requests, `decode` reads answers; sending and receiving is left to
//! [`exchange`](crate::exchange).

mod decode;
pub(crate) mod encode;
mod search;
pub(crate) mod wire;

use ah_conversation::{
    Continuity, ErrorClass, EventStream, Model, Provider, ProviderError, Request, Searching, Usage,
    WebSearch,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use self::decode::MessageReader;
pub use self::encode::Encoder;
use crate::featured::Featured;
use crate::http_model::HttpModel;
use crate::keep_warm::KeepWarm;
use crate::server::Server;

/// Decoder of answers.
pub type Decoder = crate::decode::Decoder<MessageReader>;

/// Address of the vendor's server, the default.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
const VERSION_HEADER: HeaderName = HeaderName::from_static("anthropic-version");
const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");
/// Usual header of the key.
pub(crate) const KEY_HEADER: &str = "x-api-key";
/// Words of an error that is about features which only newer servers know.
const FEATURE_WORDS: [&str; 11] = [
    "anthropic-beta",
    "beta flag",
    "beta header",
    "block_binding",
    "compaction",
    "display",
    "fast mode",
    "speed",
    "tool_addition",
    "unexpected role",
    "unexpected value",
];

/// A model behind the Messages API.
pub struct Anthropic(Featured<Encoder, MessageReader>);

type Messages = HttpModel<Encoder, MessageReader>;

impl Anthropic {
    /// A model of `server` whose requests `encoder` writes; `betas` are beta features to request. `keep_warm` says
    /// whether the last conversation is kept in the prompt cache.
    pub fn new(
        server: Server,
        betas: &[String],
        encoder: Encoder,
        keep_warm: KeepWarm,
    ) -> Result<Self, ProviderError> {
        let plain = match encoder.plain() {
            (plain, true) => Some(model(server.clone(), betas, plain)?.kept_warm(keep_warm)),
            (_, false) => None,
        };
        let whole = model(server, betas, encoder)?.kept_warm(keep_warm);
        Ok(Self(Featured::with(whole, plain, refuses_features)))
    }
}

fn model(server: Server, betas: &[String], encoder: Encoder) -> Result<Messages, ProviderError> {
    let mut headers = version(None);
    let own = encoder.betas().map(str::to_owned);
    let betas: Vec<_> = betas.iter().cloned().chain(own).collect();
    if !betas.is_empty() {
        let betas = betas.join(",");
        let value = HeaderValue::from_str(&betas).map_err(|_| {
            let message = format!("the beta names `{betas}` hold characters that a header cannot");
            ProviderError::new(ErrorClass::InvalidRequest, message)
        })?;
        headers.insert(BETA_HEADER, value);
    }
    let url = encoder.address(&server.base_url);
    let endpoint = server.endpoint(&url, KEY_HEADER, headers)?;
    Ok(HttpModel::at(endpoint, encoder))
}

/// Whether a server may have refused the features that only newer servers know.
fn refuses_features(error: &ProviderError) -> bool {
    let text = error.message.to_lowercase();
    let is_of_features = FEATURE_WORDS.iter().any(|word| text.contains(word));
    error.status == Some(400) && is_of_features && !text.contains("different conversation")
}

/// Returns the header with the version of the API.
pub(crate) fn version(beta: Option<&'static str>) -> HeaderMap {
    let version = (VERSION_HEADER, HeaderValue::from_static(VERSION));
    let beta = beta.map(|beta| (BETA_HEADER, HeaderValue::from_static(beta)));
    std::iter::once(version).chain(beta).collect()
}

/// Returns the address of the API below `base`. A version within the path is kept, since it may belong to a gateway.
pub(crate) fn address(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/messages").unwrap_or(base);
    let base = base.strip_suffix("/v1").unwrap_or(base);
    format!("{base}/v1/messages")
}

/// Returns the address of a model below `base`, where the path has its name.
fn address_of_model(base: &str, model: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/models").unwrap_or(base);
    format!("{base}/models/{model}:streamRawPredict")
}

impl Provider for Anthropic {
    fn model(&self) -> &Model {
        // Without fast mode, the price is another.
        self.0.current().model()
    }

    fn continuity(&self) -> Continuity {
        self.0.continuity()
    }

    fn end_pause(&self) -> Vec<Usage> {
        self.0.end_pause()
    }

    fn stream(&self, request: Request) -> EventStream {
        self.0.stream(request)
    }

    fn search(&self, search: &WebSearch) -> Option<Searching> {
        let body = search::encode(self.model(), search);
        let answer = self.0.current().ask(vec![body]);
        Some(Box::pin(search::findings(self.model().clone(), answer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (base, expected) in [
            ("http://h:4000", "http://h:4000/v1/messages"),
            (" http://h/v1/ ", "http://h/v1/messages"),
            ("http://h/v1/messages", "http://h/v1/messages"),
            ("https://h/api", "https://h/api/v1/messages"),
            ("https://h/v1/a/vendor", "https://h/v1/a/vendor/v1/messages"),
        ] {
            assert_eq!(address(base), expected);
        }
        for base in [
            "http://h/v1/publishers/a",
            "http://h/v1/publishers/a/models/",
        ] {
            let expected = "http://h/v1/publishers/a/models/m@1:streamRawPredict";
            assert_eq!(address_of_model(base, "m@1"), expected);
        }
    }
}
