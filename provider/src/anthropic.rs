//! The Messages API. `encode` writes requests, `decode` reads answers; sending and receiving is left to
//! [`exchange`](crate::exchange).

mod address;
mod decode;
pub(crate) mod encode;
mod messages;
mod search;
pub(crate) mod wire;

use ah_conversation::{
    ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras, Request, SearchesWeb,
    Searching, WebSearch,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use self::address::address;
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
    let (keep, notes) = (server.keep_fact.clone(), server.notes.clone());
    let endpoint = server.endpoint(&url, KEY_HEADER, headers)?;
    Ok(HttpModel::at(endpoint, encoder).keeping(keep).noting(notes))
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

impl Provider for Anthropic {
    fn model(&self) -> &Model {
        // Without fast mode, the price is another.
        self.0.current().model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras {
            search: Some(self),
            ..self.0.extras()
        }
    }

    fn stream(&self, request: Request) -> EventStream {
        self.0.stream(request)
    }
}

impl SearchesWeb for Anthropic {
    fn search(&self, search: &WebSearch) -> Searching {
        let body = search::encode(self.model(), search);
        let answer = self.0.current().ask(vec![body]);
        Box::pin(search::findings(self.model().clone(), answer))
    }
}
