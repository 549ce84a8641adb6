//! Finds the server of a model by the part of the model's name before the `/`: a server that the settings define, or one
//! that is known here.

use std::borrow::Cow;
use std::sync::Arc;

use ah_conversation::{ErrorClass, Model, Provider, ProviderError, Request};

use crate::anthropic::{self, Anthropic};
use crate::auth::{Credentials, Key, Secret};
use crate::exchange::SettingNames;
use crate::failure::with_causes;
use crate::keep_warm::KeepWarm;
use crate::named_server::{Api, NamedServer};
use crate::openai::{self, Additions, Chat, Quirks, ThinkingField};
use crate::options::Options;
use crate::responses::{self, Responses};
use crate::retry::Retrying;
use crate::server::Server;

/// Variable that names the small model of the Messages API.
const SMALL_MODEL: &str = "ANTHROPIC_SMALL_FAST_MODEL";
/// Variable that names the model behind the alias `haiku`.
const HAIKU_MODEL: &str = "ANTHROPIC_DEFAULT_HAIKU_MODEL";
/// Beta for a context window of a million tokens, for Sonnet models.
pub(crate) const WIDE_WINDOW: &str = "context-1m-2025-08-07";

/// Defaults of a server whose name is known.
struct KnownServer {
    api: Api,
    /// Variable that holds the address.
    address: &'static str,
    /// Address if the variable is not set.
    default: Option<&'static str>,
    /// Variable that holds the key; `None` where [`Credentials`] finds it.
    key: Option<&'static str>,
    quirks: Quirks,
}

impl KnownServer {
    fn of(name: &str) -> Option<Self> {
        let (api, address, default, key, quirks) = match name {
            "anthropic" => (
                Api::Anthropic,
                "ANTHROPIC_BASE_URL",
                Some(anthropic::DEFAULT_BASE_URL),
                None,
                Quirks::default(),
            ),
            "litellm" => (
                Api::OpenAi,
                "LITELLM_BASE_URL",
                None,
                Some("LITELLM_API_KEY"),
                Quirks::litellm(),
            ),
            "openai" | "openai-responses" => (
                match name {
                    "openai" => Api::OpenAi,
                    _ => Api::OpenAiResponses,
                },
                "OPENAI_BASE_URL",
                Some("https://api.openai.com"),
                Some("OPENAI_API_KEY"),
                Quirks::openai(),
            ),
            "ollama" => (
                Api::OpenAi,
                "OLLAMA_HOST",
                Some("http://127.0.0.1:11434"),
                Some("OLLAMA_API_KEY"),
                Quirks::default(),
            ),
            _ => return None,
        };
        Some(Self {
            api,
            address,
            default,
            key,
            quirks,
        })
    }
}

/// A server and the options to reach it.
pub(crate) struct Route<'a> {
    name: &'a str,
    settings: Cow<'a, NamedServer>,
    usual: Option<KnownServer>,
    options: &'a Options<'a>,
}

impl<'a> Route<'a> {
    /// Returns the server of this name, if there is one.
    pub(crate) fn to(name: &'a str, options: &'a Options<'a>) -> Option<Self> {
        let (settings, usual) = (options.servers.get(name), KnownServer::of(name));
        (settings.is_some() || usual.is_some()).then(|| Self {
            name,
            settings: settings.map_or_else(Cow::default, Cow::Borrowed),
            usual,
            options,
        })
    }

    /// Returns a provider for the model that the server calls `name`.
    pub(crate) fn connect(&self, name: &str) -> Result<Arc<dyn Provider>, ProviderError> {
        let Options {
            retry,
            seed,
            cache_ttl: ttl,
            ..
        } = *self.options;
        let keep_warm = KeepWarm {
            ttl,
            times: self.options.keep_warm,
        };
        let mut model = self.options.catalog.model(self.name, name);
        model.context_window = window(&model, self.options.betas);
        let entry = self.options.catalog.entry(self.name, name);
        if let Some(wanted) = self.options.max_output {
            model.max_output = wanted.min(entry.abilities.max_output.unwrap_or(wanted));
        }
        let abilities = entry.abilities;
        let (server, beta) = self.server()?;
        let betas: Vec<_> = beta
            .map(str::to_owned)
            .into_iter()
            .chain(self.options.betas.iter().cloned())
            .collect();
        let quirks = self.quirks();
        let additions = Additions {
            body: self.settings.extra_body.clone(),
            headers: self.settings.headers.clone(),
            betas: betas.clone(),
        };
        Ok(match self.api() {
            Api::Anthropic => {
                let encoder = anthropic::Encoder::new(model, abilities)
                    .cached_for(ttl)
                    .summarizing(self.options.server_compaction);
                Arc::new(Retrying::new(
                    Anthropic::new(server, &betas, encoder, keep_warm)?,
                    retry,
                    seed,
                ))
            }
            Api::OpenAi => {
                let encoder = openai::Encoder::new(model, abilities, additions, quirks);
                let encoder = encoder.cached_for(ttl);
                Arc::new(Retrying::new(Chat::new(server, encoder)?, retry, seed))
            }
            Api::OpenAiResponses => {
                let encoder = responses::Encoder::new(model, abilities, additions, quirks);
                Arc::new(Retrying::new(Responses::new(server, encoder)?, retry, seed))
            }
        })
    }

    /// Returns the name of the setting that holds the key, if there is a key.
    pub(crate) fn credentials(&self) -> Result<Option<String>, ProviderError> {
        let (base_url, _) = self.address()?;
        let (key, credentials, _) = self.key(&base_url)?;
        Ok(key.map(|_| credentials))
    }

    /// Returns the names of the settings in `request` that are not sent to the model `name`.
    pub(crate) fn left_out(&self, name: &str, request: &Request) -> Vec<&'static str> {
        let abilities = self.options.catalog.entry(self.name, name).abilities;
        let field = match self.api() {
            Api::Anthropic => ThinkingField::Thinking,
            Api::OpenAi | Api::OpenAiResponses => self.quirks().thinking,
        };
        let mut settings = abilities.effective(request, field);
        if self.api() == Api::OpenAiResponses {
            settings.stop = &[];
        }
        settings.left_out(request)
    }

    /// Returns whether requests go to the vendor itself.
    pub(crate) fn is_of_vendor(&self) -> bool {
        let usual = self.usual.as_ref().and_then(|usual| usual.default);
        self.address()
            .is_ok_and(|(address, _)| usual == Some(&*address))
    }

    /// Returns whether the server can search the web.
    pub(crate) fn searches(&self) -> bool {
        self.is_of_vendor() && self.api() == Api::Anthropic
    }

    /// Returns the small model: the one that a variable names, or else the vendor's.
    pub(crate) fn small(&self) -> Option<String> {
        let is_vendor = self.is_of_vendor();
        match self.name {
            "anthropic" => match self.variable(SMALL_MODEL) {
                Some(name) => Some(name.to_owned()),
                None => {
                    (is_vendor || self.variable(HAIKU_MODEL).is_some()).then(|| "haiku".to_owned())
                }
            },
            server @ ("openai" | "openai-responses") if is_vendor => {
                let small = self.options.catalog.newest_mini()?;
                Some(format!("{server}/{small}"))
            }
            _ => None,
        }
    }

    /// Returns whether the server is set up: it is in the settings, or its address or a key is set.
    pub(crate) fn is_configured(&self) -> bool {
        let usual = self.usual.as_ref();
        let has_address = usual.is_none_or(|usual| self.variable(usual.address).is_some());
        let is_in_settings = self.options.servers.contains_key(self.name);
        is_in_settings || has_address || matches!(self.credentials(), Ok(Some(_)))
    }

    /// Returns whether answers may say what they cost.
    pub(crate) fn may_report_cost(&self) -> bool {
        self.api() != Api::Anthropic && !self.is_of_vendor()
    }

    /// Returns the name of the server.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the name of the variable or setting that holds the address.
    pub(crate) fn address_setting(&self) -> String {
        match (&self.settings.base_url, &self.usual) {
            (None, Some(usual)) => usual.address.to_owned(),
            _ => format!("providers.{}.baseUrl", self.name),
        }
    }

    fn quirks(&self) -> Quirks {
        let quirks = self.settings.quirks.clone();
        let usual = || self.usual.as_ref().map(|usual| usual.quirks.clone());
        quirks.or_else(usual).unwrap_or_default()
    }

    /// Returns the protocol of the server.
    pub(crate) fn api(&self) -> Api {
        let usual = self.usual.as_ref().map(|usual| usual.api);
        self.settings.api.or(usual).unwrap_or_default()
    }

    /// The server, and the beta that its key requires.
    pub(crate) fn server(&self) -> Result<(Server, Option<&'static str>), ProviderError> {
        let (base_url, address) = self.address()?;
        let (key, credentials, beta) = self.key(&base_url)?;
        let client =
            ah_http::client(self.options.http, &base_url).map_err(|error| ProviderError {
                hint: match error {
                    ah_http::Error::Address { .. } => {
                        Some(format!("set {address} to the address of the server"))
                    }
                    _ => error.hint().map(str::to_owned),
                },
                ..ProviderError::new(ErrorClass::InvalidRequest, with_causes(&error))
            })?;
        let server = Server {
            client,
            base_url: base_url.into_owned(),
            key,
            headers: self.settings.headers.clone(),
            setting_names: SettingNames {
                address,
                credentials,
            },
            timeouts: self.options.timeouts,
        };
        Ok((server, beta))
    }

    /// The address, and the name of the setting that holds it.
    fn address(&self) -> Result<(Cow<'_, str>, String), ProviderError> {
        let setting = self.address_setting();
        if let Some(address) = &self.settings.base_url {
            return Ok((address.trim().into(), setting));
        }
        let Some(usual) = &self.usual else {
            return Err(self.no_address(&format!("set {setting} to the address of the server")));
        };
        let address = self
            .variable(usual.address)
            .or(usual.default)
            .ok_or_else(|| {
                let hint = format!("set {setting} to the address of the server");
                self.no_address(&hint)
            })?;
        let address = match self.name {
            "ollama" => ollama_address(address),
            _ => address.into(),
        };
        Ok((address, setting))
    }

    fn no_address(&self, hint: &str) -> ProviderError {
        let message = format!("no address for `{}/` models", self.name);
        ProviderError {
            hint: Some(hint.to_owned()),
            ..ProviderError::new(ErrorClass::InvalidRequest, message)
        }
    }

    /// The key, the name of its setting, and the beta that it requires. A missing key is an error only at a vendor's
    /// server, since other servers often need none.
    fn key(
        &self,
        base_url: &str,
    ) -> Result<(Option<Key>, String, Option<&'static str>), ProviderError> {
        let header = self.settings.key_header.clone();
        let key = |secret| Key {
            secret,
            header: header.clone(),
        };
        let of_variable = |name: &str| Some(key(Secret::Known(self.variable(name)?.to_owned())));
        let (variable, command) = (&self.settings.key_env, &self.settings.key_command);
        let named = variable
            .as_deref()
            .and_then(|name| Some((of_variable(name)?, name)));
        if let Some((key, name)) = named {
            return Ok((Some(key), name.to_owned(), None));
        }
        if let Some(command) = command {
            let setting = format!("providers.{}.keyCommand", self.name);
            let source = (self.options.key_source)(command, &setting);
            return Ok((Some(key(Secret::Source(source))), setting, None));
        }
        if let Some(name) = variable {
            return Err(self.no_key(format!("set {name}")));
        }
        let Some(usual) = &self.usual else {
            let setting = format!("providers.{}.keyEnv", self.name);
            return Ok((None, setting, None));
        };
        let is_vendor = usual.default == Some(base_url);
        let Some(name) = usual.key else {
            return match Credentials::find(self.options.environment) {
                Some(found) => {
                    let (name, beta) = (found.variable().to_owned(), found.beta());
                    Ok((Some(found.into_key()), name, beta))
                }
                None if self.settings.base_url.is_some() => {
                    Ok((None, format!("providers.{}.keyEnv", self.name), None))
                }
                None => Err(self.no_key(Credentials::wanted())),
            };
        };
        match of_variable(name) {
            None if is_vendor && self.name != "ollama" => Err(self.no_key(format!("set {name}"))),
            key => Ok((key, name.to_owned(), None)),
        }
    }

    fn no_key(&self, wanted: String) -> ProviderError {
        let whose = match self.name {
            "anthropic" => "the Messages API".to_owned(),
            "openai" | "openai-responses" => "OpenAI".to_owned(),
            name => format!("`{name}/` models"),
        };
        let elsewhere = self.elsewhere();
        let hint = if elsewhere.is_empty() {
            wanted
        } else {
            format!(
                "{wanted}; or use a server that is configured: {}",
                elsewhere.join(", ")
            )
        };
        ProviderError {
            hint: Some(hint),
            ..ProviderError::new(
                ErrorClass::Authentication,
                format!("no API key for {whose}"),
            )
        }
    }

    /// Command-line options for models of servers that are configured.
    fn elsewhere(&self) -> Vec<String> {
        let is_configured = |name: &str| {
            let is = |variable: &str| self.variable(variable).is_some();
            match name {
                "litellm" => is("LITELLM_BASE_URL"),
                "openai" => is("OPENAI_API_KEY") || is("OPENAI_BASE_URL"),
                _ => is("OLLAMA_HOST"),
            }
        };
        let known = ["litellm", "openai", "ollama"]
            .into_iter()
            .filter(|name| is_configured(name));
        let named = self.options.servers.keys().map(String::as_str);
        let mut names: Vec<_> = known
            .chain(named)
            .filter(|name| *name != self.name)
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        let option = |name| format!("`--model {name}/NAME`");
        names.into_iter().map(option).collect()
    }

    fn variable(&self, name: &str) -> Option<&'a str> {
        variable(self.options, name)
    }
}

/// Returns the server that is configured for models whose names say none: the one of `ANTHROPIC_BASE_URL` unless that is
/// the vendor's, else of `LITELLM_BASE_URL`, else of `OPENAI_BASE_URL`, else the only one of the settings.
pub(crate) fn configured<'a>(options: &'a Options<'a>) -> Option<&'a str> {
    let is_set = |server: &&str| {
        let usual = KnownServer::of(server);
        let is_set = usual.is_some_and(|usual| variable(options, usual.address).is_some());
        is_set && Route::to(server, options).is_some_and(|route| !route.is_of_vendor())
    };
    let mut named = options.servers.keys();
    let only = match (named.next(), named.next()) {
        (Some(name), None) => Some(name.as_str()),
        _ => None,
    };
    let known = ["anthropic", "litellm", "openai"];
    known.into_iter().find(is_set).or(only)
}

fn variable<'a>(options: &'a Options<'a>, name: &str) -> Option<&'a str> {
    let value = options.environment.get(name)?.trim();
    (!value.is_empty()).then_some(value)
}

/// Converts `OLLAMA_HOST` to an address: Ollama also accepts a host alone, and `0.0.0.0` for all interfaces.
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

/// The context window of `model` with `betas`.
fn window(model: &Model, betas: &[String]) -> u64 {
    let is_wide = model.name.contains("sonnet") && betas.iter().any(|beta| beta == WIDE_WINDOW);
    model
        .context_window
        .max(if is_wide { 1_000_000 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beta_widens_the_window_of_sonnet_models_alone() {
        let catalog = crate::catalog::Catalog::built_in();
        let wide = [WIDE_WINDOW.to_owned()];
        for (name, betas, expected) in [
            ("claude-sonnet-4-5-20250929", &wide[..], 1_000_000),
            ("claude-sonnet-4-5-20250929", &[], 200_000),
            ("claude-haiku-4-5-20251001", &wide[..], 200_000),
        ] {
            let model = catalog.model("anthropic", name);
            assert_eq!(window(&model, betas), expected, "{name} {betas:?}");
        }
    }

    #[test]
    fn a_host_of_ollama_becomes_an_address() {
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
