//! Address, key and headers of a server, the same for every API.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::{ErrorClass, ProviderError};
use reqwest::Client;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::auth::{Authorization, Key, header_name};
use crate::exchange::{Endpoint, SettingNames, Timeouts};
use crate::fact::KeepFact;
use crate::note::Notes;

/// A server and the means to reach it.
#[derive(Clone)]
pub struct Server {
    /// HTTP client for it.
    pub client: Client,
    /// Options of the client, for connections of another kind.
    pub http: ah_http::Options,
    /// Address: the host, the API with its version, or the whole URL.
    pub base_url: String,
    /// Key for it.
    pub key: Option<Key>,
    /// Additional headers.
    pub headers: BTreeMap<String, String>,
    /// Names of the settings that it comes from, for hints.
    pub setting_names: SettingNames,
    /// Timeouts of its answers.
    pub timeouts: Timeouts,
    /// Keeps what it shows of its models.
    pub keep_fact: Option<KeepFact>,
    /// Keeps notes of the conversations that it holds.
    pub notes: Option<Arc<dyn Notes>>,
}

impl Server {
    /// Returns the endpoint at `url`. The key goes into the header `usual` unless it names another; `own` are headers that
    /// the API requires.
    pub(crate) fn endpoint(
        self,
        url: &str,
        usual: &str,
        own: HeaderMap,
    ) -> Result<Endpoint, ProviderError> {
        let mut headers = own;
        for (name, value) in &self.headers {
            headers.insert(header_name(name)?, header_value(name, value)?);
        }
        let credentials = &self.setting_names.credentials;
        let key = self
            .key
            .map(|key| Authorization::new(key, usual, credentials));
        Endpoint::new(
            (self.client, self.http.transport),
            url,
            headers,
            key.transpose()?,
            self.setting_names,
            self.timeouts,
        )
    }
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        let message =
            format!("the value of the header `{name}` holds characters that a header cannot");
        ProviderError::new(ErrorClass::InvalidRequest, message)
    })?;
    // It may be a secret.
    value.set_sensitive(true);
    Ok(value)
}

/// Returns `base` with the version of the API and `path` appended, unless it has them already.
pub(crate) fn address(base: &str, path: &str) -> String {
    let base = base.trim();
    let (base, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    let base = base.trim_end_matches('/');
    if base.ends_with(path) {
        return format!("{base}{query}");
    }
    let is_version = |part: &str| {
        let number = part.strip_prefix('v');
        number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    };
    // The first three parts are the scheme, an empty one and the host.
    let version = if base.split('/').skip(3).any(is_version) {
        ""
    } else {
        "/v1"
    };
    format!("{base}{version}/{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_path_are_added_unless_present() {
        let chat = "chat/completions";
        for (base, expected) in [
            ("http://h:4000", "http://h:4000/v1/chat/completions"),
            (" http://h:4000/ ", "http://h:4000/v1/chat/completions"),
            ("https://h/v1", "https://h/v1/chat/completions"),
            ("https://h/api/v1/", "https://h/api/v1/chat/completions"),
            (
                "https://h/api/paas/v4",
                "https://h/api/paas/v4/chat/completions",
            ),
            (
                "https://h/v1beta/openai",
                "https://h/v1beta/openai/chat/completions",
            ),
            ("https://v1.h", "https://v1.h/v1/chat/completions"),
            ("https://h/vendor", "https://h/vendor/v1/chat/completions"),
            (
                "https://h/x/chat/completions",
                "https://h/x/chat/completions",
            ),
            (
                "https://h/x/chat/completions?api-version=1",
                "https://h/x/chat/completions?api-version=1",
            ),
            ("https://h?a=b", "https://h/v1/chat/completions?a=b"),
        ] {
            assert_eq!(address(base, chat), expected, "{base}");
        }
        assert_eq!(
            address("https://h/v1", "responses"),
            "https://h/v1/responses"
        );
    }
}
