//! A server that the settings define.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::openai::Quirks;

/// Protocol of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// The Messages API.
    Anthropic,
    /// Chat completions.
    #[default]
    #[serde(rename = "openai")]
    OpenAi,
    /// The Responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// The Interactions API.
    #[serde(rename = "gemini-interactions")]
    Interactions,
}

impl Api {
    /// Returns the protocol whose path an address ends with, if it is the whole address of one.
    pub(crate) fn of_path(address: &str) -> Option<Self> {
        let path = address.split('?').next().unwrap_or_default();
        let path = path.trim().trim_end_matches('/');
        let of = [
            ("/chat/completions", Self::OpenAi),
            ("/responses", Self::OpenAiResponses),
            ("/v1/messages", Self::Anthropic),
            ("/interactions", Self::Interactions),
        ];
        let found = of.into_iter().find(|(ending, _)| path.ends_with(ending));
        found.map(|(_, api)| api)
    }
}

/// A server that the settings define. For a name that is known here, missing fields have the known values.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NamedServer {
    /// Protocol.
    pub api: Option<Api>,
    /// Address.
    pub base_url: Option<String>,
    /// Variable that holds the key.
    pub key_env: Option<String>,
    /// Command that prints the key; used if the variable is not set.
    pub key_command: Option<String>,
    /// Header for the key.
    pub key_header: Option<String>,
    /// Additional headers.
    pub headers: BTreeMap<String, String>,
    /// Additional fields of each request.
    pub extra_body: Map<String, Value>,
    /// Deviations from the usual protocol.
    pub quirks: Option<Quirks>,
}
