//! The servers that are known by what stands before the `/` of a model's name: where they are, with what right they are
//! asked, and what is peculiar about them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::{ErrorClass, Model, Provider, ProviderError};

use crate::catalog::Entry;
use crate::exchange::Settings;
use crate::openai::{Additions, Chat, Encoder, Key, Quirks, Server};
use crate::responses::{self, Responses};
use crate::retry::Retrying;
use crate::{Options, with_causes};

/// A kind of server that speaks a protocol of OpenAI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// A LiteLLM proxy.
    LiteLlm,
    /// OpenAI, or what `OPENAI_BASE_URL` names, by chat completions.
    OpenAi,
    /// The same by the Responses API.
    OpenAiResponses,
    /// Models on this machine.
    Ollama,
}

impl Vendor {
    /// The vendor with this name before the `/`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "litellm" => Self::LiteLlm,
            "openai" => Self::OpenAi,
            "openai-responses" => Self::OpenAiResponses,
            "ollama" => Self::Ollama,
            _ => return None,
        })
    }

    /// Its name before the `/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::LiteLlm => "litellm",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Ollama => "ollama",
        }
    }

    /// The variables that hold its address and its key, and the address where none is set.
    fn variables(self) -> (&'static str, &'static str, Option<&'static str>) {
        match self {
            Self::LiteLlm => ("LITELLM_BASE_URL", "LITELLM_API_KEY", None),
            Self::OpenAi | Self::OpenAiResponses => (
                "OPENAI_BASE_URL",
                "OPENAI_API_KEY",
                Some("https://api.openai.com"),
            ),
            Self::Ollama => (
                "OLLAMA_HOST",
                "OLLAMA_API_KEY",
                Some("http://127.0.0.1:11434"),
            ),
        }
    }

    fn quirks(self) -> Quirks {
        match self {
            Self::LiteLlm => Quirks::litellm(),
            Self::OpenAi | Self::OpenAiResponses => Quirks::openai(),
            Self::Ollama => Quirks::default(),
        }
    }
}

/// The model `name` of `vendor`, ready to be asked. Nothing is sent yet.
pub fn connect(
    vendor: Vendor,
    name: &str,
    options: &Options<'_>,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let server = server(vendor, options)?;
    let (model, entry) = model(vendor, name, options);
    let additions = Additions {
        betas: options.betas.to_vec(),
        ..Additions::default()
    };
    let quirks = vendor.quirks();
    let (retry, seed) = (options.retry, options.seed);
    Ok(match vendor {
        Vendor::OpenAiResponses => {
            let encoder = responses::Encoder::new(model, additions, quirks);
            Arc::new(Retrying::new(Responses::new(server, encoder)?, retry, seed))
        }
        Vendor::LiteLlm | Vendor::OpenAi | Vendor::Ollama => {
            let (limit, thinking) = (entry.max_output, entry.thinking);
            let encoder = Encoder::new(model, limit, thinking, additions, quirks);
            Arc::new(Retrying::new(Chat::new(server, encoder)?, retry, seed))
        }
    })
}

fn server(vendor: Vendor, options: &Options<'_>) -> Result<Server, ProviderError> {
    let (address, credentials, default) = vendor.variables();
    let variable = |name| {
        let value = options.environment.get(name).map(str::trim);
        value.filter(|value| !value.is_empty())
    };
    let base_url = variable(address).or(default).ok_or_else(|| ProviderError {
        hint: Some(format!("set {address} to the address of the server")),
        ..ProviderError::new(
            ErrorClass::InvalidRequest,
            format!("no address for `{}/` models", vendor.name()),
        )
    })?;
    let key = variable(credentials);
    if key.is_none() && Some(base_url) == default && vendor != Vendor::Ollama {
        return Err(ProviderError {
            hint: Some(format!("set {credentials}")),
            ..ProviderError::new(ErrorClass::Authentication, "no API key for OpenAI")
        });
    }
    let base_url = match vendor {
        Vendor::Ollama => ollama_address(base_url),
        Vendor::LiteLlm | Vendor::OpenAi | Vendor::OpenAiResponses => base_url.into(),
    };
    let client = ah_http::client(options.http, &base_url)
        .map_err(|error| ProviderError::new(ErrorClass::InvalidRequest, with_causes(&error)))?;
    Ok(Server {
        client,
        base_url: base_url.into_owned(),
        key: key.map(|secret| Key {
            secret: secret.to_owned(),
            header: None,
        }),
        headers: BTreeMap::new(),
        settings: Settings {
            address: address.to_owned(),
            credentials: credentials.to_owned(),
        },
        patience: options.patience,
    })
}

/// `OLLAMA_HOST` as an address: its own program takes a host alone, and one that stands for all hosts.
fn ollama_address(host: &str) -> Cow<'_, str> {
    if host.contains("://") {
        return host.into();
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => (name, port),
        _ => (host, "11434"),
    };
    let name = match name {
        "" | "0.0.0.0" => "127.0.0.1",
        name => name,
    };
    format!("http://{name}:{port}").into()
}

/// What is known of a model: under its whole name, or else under what a gateway has put other names before.
fn model(vendor: Vendor, name: &str, options: &Options<'_>) -> (Model, Entry) {
    let last = name.rsplit('/').next().unwrap_or(name);
    let catalog = options.catalog;
    let is_known = |name: &&str| catalog.entry(name) != Entry::default();
    let known = [name, last].into_iter().find(is_known).unwrap_or(name);
    let model = Model {
        name: name.to_owned(),
        ..catalog.model(vendor.name(), known)
    };
    (model, catalog.entry(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ollama() {
        for (host, expected) in [
            ("http://h:1/x", "http://h:1/x"),
            ("h", "http://h:11434"),
            ("h:1", "http://h:1"),
            (":1", "http://127.0.0.1:1"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
        ] {
            assert_eq!(ollama_address(host), expected);
        }
    }
}
