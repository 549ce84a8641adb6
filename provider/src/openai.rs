//! Chat completions, the protocol of OpenAI and of many other servers. `encode` writes requests, `decode` reads answers;
//! sending and receiving is left to [`exchange`](crate::exchange).

pub(crate) mod calls;
mod decode;
pub(crate) mod encode;
pub(crate) mod messages;
mod quirks;
mod reasoning;
mod tags;
mod text_calls;
pub(crate) mod usage;
mod wire;

use ah_conversation::ProviderError;
use reqwest::header::HeaderMap;

use self::decode::ChatReader;
pub use self::encode::{Additions, Encoder};
pub use self::quirks::{
    AnswerField, OutputLimit, Quirks, ReturnedReasoning, ThinkingField, ToolCallIds,
};
pub use self::tags::{TextTags, ThinkTags};
pub use self::text_calls::CallForm;
pub(crate) use self::wire::NOT_SIGNED;
use crate::auth::AUTHORIZATION;
use crate::http_model::HttpModel;
use crate::server::{Server, address};

/// Decoder of answers.
pub type Decoder = crate::decode::Decoder<ChatReader>;

/// A model behind chat completions.
pub type Chat = HttpModel<Encoder, ChatReader>;

impl Chat {
    /// A model of `server` whose requests `encoder` writes.
    pub fn new(server: Server, encoder: Encoder) -> Result<Self, ProviderError> {
        let (tags, keep) = (encoder.text_tags(), server.keep_fact.clone());
        let url = address(&server.base_url, "chat/completions");
        let endpoint = server.endpoint(&url, AUTHORIZATION, HeaderMap::new())?;
        let reader = move || ChatReader::reading(tags());
        Ok(Self::with_reader(endpoint, encoder, reader).keeping(keep))
    }
}
