//! The Messages API. `encode` writes requests, `decode` reads answers; sending and receiving is left to
//! [`exchange`](crate::exchange).

mod decode;
pub(crate) mod encode;
mod search;
pub(crate) mod wire;

use ah_conversation::{
    Continuity, ErrorClass, EventStream, Model, Provider, ProviderError, Request, Searching,
    WebSearch,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use self::decode::MessageReader;
pub use self::encode::Encoder;
use crate::http_model::HttpModel;
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

/// A model behind the Messages API.
pub struct Anthropic(HttpModel<Encoder, MessageReader>);

impl Anthropic {
    /// A model of `server` whose requests `encoder` writes; `betas` are beta features to request.
    pub fn new(server: Server, betas: &[String], encoder: Encoder) -> Result<Self, ProviderError> {
        let own = encoder.betas().map(str::to_owned);
        let betas: Vec<_> = betas.iter().cloned().chain(own).collect();
        let mut headers = version();
        if !betas.is_empty() {
            let betas = betas.join(",");
            let value = HeaderValue::from_str(&betas).map_err(|_| {
                let message =
                    format!("the beta names `{betas}` hold characters that a header cannot");
                ProviderError::new(ErrorClass::InvalidRequest, message)
            })?;
            headers.insert(BETA_HEADER, value);
        }
        let url = address(&server.base_url);
        let endpoint = server.endpoint(&url, KEY_HEADER, headers)?;
        Ok(Self(HttpModel::at(endpoint, encoder)))
    }
}

/// Returns the header with the version of the API.
pub(crate) fn version() -> HeaderMap {
    HeaderMap::from_iter([(VERSION_HEADER, HeaderValue::from_static(VERSION))])
}

/// Returns the address of the API below `base`. A version within the path is kept, since it may belong to a gateway.
pub(crate) fn address(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/messages").unwrap_or(base);
    let base = base.strip_suffix("/v1").unwrap_or(base);
    format!("{base}/v1/messages")
}

impl Provider for Anthropic {
    fn model(&self) -> &Model {
        self.0.model()
    }

    fn continuity(&self) -> Continuity {
        self.0.continuity()
    }

    fn stream(&self, request: Request) -> EventStream {
        self.0.stream(request)
    }

    fn search(&self, search: &WebSearch) -> Option<Searching> {
        let body = search::encode(self.model(), search);
        Some(Box::pin(search::findings(self.0.ask(vec![body]))))
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
    }
}
