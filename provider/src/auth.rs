//! Credentials for servers. Secrets come from the environment or from a source that the caller gives. They appear in no
//! log, error or debug output, and requests identify themselves as `ah`, never as another client.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{Environment, ErrorClass, ProviderError};
use async_trait::async_trait;
use reqwest::header::{HeaderName, HeaderValue};

const OAUTH_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const BEARER_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const KEY: &str = "ANTHROPIC_API_KEY";
/// Beta without which the Messages API rejects OAuth tokens.
const OAUTH_BETA: &str = "oauth-2025-04-20";
/// The header whose value names the scheme: `Bearer …`.
pub(crate) const AUTHORIZATION: &str = "authorization";

/// A secret and the header that carries it.
#[derive(Debug, Clone)]
pub struct Key {
    /// The secret.
    pub secret: Secret,
    /// Name of the header; `None` for the usual one of the API.
    pub header: Option<String>,
}

/// A secret, or the source of one.
#[derive(Clone)]
pub enum Secret {
    /// The secret itself.
    Known(String),
    /// A source that is asked before the first request, and again after a server has rejected the secret.
    Source(Arc<dyn KeySource>),
}

/// A source of keys that change, such as a command.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// Returns the current key.
    async fn key(&self) -> Result<String, ProviderError>;
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The header that carries a key.
pub(crate) struct Authorization {
    name: HeaderName,
    /// Name of the setting that holds the key, for hints.
    credentials: String,
    source: Option<Arc<dyn KeySource>>,
    value: Mutex<Option<HeaderValue>>,
}

impl Authorization {
    /// Puts `key` into the header that it names, or else into `usual`. `credentials` names the setting that holds the key.
    pub(crate) fn new(key: Key, usual: &str, credentials: &str) -> Result<Self, ProviderError> {
        let mut authorization = Self {
            name: header_name(key.header.as_deref().unwrap_or(usual))?,
            credentials: credentials.to_owned(),
            source: None,
            value: Mutex::default(),
        };
        match key.secret {
            Secret::Known(secret) => {
                authorization.value = Mutex::new(Some(authorization.header_value(&secret)?));
            }
            Secret::Source(source) => authorization.source = Some(source),
        }
        Ok(authorization)
    }

    /// Returns the header, asking the source if there is no key yet.
    pub(crate) async fn header(&self) -> Result<(HeaderName, HeaderValue), ProviderError> {
        let value = match (self.known(), &self.source) {
            (Some(value), _) => value,
            (None, Some(source)) => self.ask(&**source).await?,
            (None, None) => unreachable!("a key is known or has a source"),
        };
        Ok((self.name.clone(), value))
    }

    /// Returns the header with a new key after the server has rejected `refused`, or `None` if there is no other key.
    pub(crate) async fn renewed(
        &self,
        refused: &HeaderValue,
    ) -> Result<Option<(HeaderName, HeaderValue)>, ProviderError> {
        let Some(source) = &self.source else {
            return Ok(None);
        };
        // Another request may have asked for it meanwhile.
        let value = match self.known().filter(|known| known != refused) {
            Some(known) => known,
            None => self.ask(&**source).await?,
        };
        Ok((value != *refused).then(|| (self.name.clone(), value)))
    }

    fn known(&self) -> Option<HeaderValue> {
        self.value
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn ask(&self, source: &dyn KeySource) -> Result<HeaderValue, ProviderError> {
        let value = self.header_value(&source.key().await?)?;
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.clone());
        Ok(value)
    }

    fn header_value(&self, secret: &str) -> Result<HeaderValue, ProviderError> {
        let text = if self.name == AUTHORIZATION {
            format!("Bearer {secret}")
        } else {
            secret.to_owned()
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| ProviderError {
            hint: Some(format!("check {}", self.credentials)),
            ..ProviderError::new(
                ErrorClass::Authentication,
                "the key holds characters that a header cannot",
            )
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Parses the name of a header that the user has set.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, ProviderError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        let message = format!("`{name}` is not a valid header name");
        ProviderError::new(ErrorClass::InvalidRequest, message)
    })
}

/// Credentials for the Messages API, from the environment.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// An OAuth token.
    OAuth(String),
    /// A bearer token, usually a gateway's.
    Bearer(String),
    /// An API key.
    Key(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.variable())
    }
}

impl Credentials {
    /// Returns the credentials in the environment, if there are any.
    pub fn find(environment: &Environment) -> Option<Self> {
        let variable = |name: &str| {
            let value = environment.get(name)?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        variable(OAUTH_TOKEN)
            .map(Self::OAuth)
            .or_else(|| variable(BEARER_TOKEN).map(Self::Bearer))
            .or_else(|| variable(KEY).map(Self::Key))
    }

    /// Returns a hint that names the variables.
    pub(crate) fn wanted() -> String {
        format!(
            "set {KEY}, {BEARER_TOKEN} or {OAUTH_TOKEN}, or write {KEY}=... into the .env of a folder you trust"
        )
    }

    /// Returns the name of the variable that they came from.
    pub fn variable(&self) -> &'static str {
        match self {
            Self::OAuth(_) => OAUTH_TOKEN,
            Self::Bearer(_) => BEARER_TOKEN,
            Self::Key(_) => KEY,
        }
    }

    /// Returns the beta feature that has to be requested with them.
    pub(crate) fn beta(&self) -> Option<&'static str> {
        matches!(self, Self::OAuth(_)).then_some(OAUTH_BETA)
    }

    /// Converts them into a key with its header.
    pub(crate) fn into_key(self) -> Key {
        let (secret, header) = match self {
            Self::OAuth(token) | Self::Bearer(token) => (token, Some(AUTHORIZATION.to_owned())),
            Self::Key(key) => (key, None),
        };
        Key {
            secret: Secret::Known(secret),
            header,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn find(variables: &[(&str, &str)]) -> Option<Credentials> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Credentials::find(&Environment::new(variables, PathBuf::new()))
    }

    #[test]
    fn the_first_variable_that_is_set_wins() {
        let all = [(KEY, "k"), (BEARER_TOKEN, "b"), (OAUTH_TOKEN, " o\n")];
        for (variables, expected) in [
            (&all[..], Some(Credentials::OAuth("o".to_owned()))),
            (&all[..2], Some(Credentials::Bearer("b".to_owned()))),
            (&all[..1], Some(Credentials::Key("k".to_owned()))),
            (&[(KEY, " ")], None),
        ] {
            assert_eq!(find(variables), expected);
        }
    }

    fn known(secret: &str) -> Key {
        Key {
            secret: Secret::Known(secret.to_owned()),
            header: None,
        }
    }

    #[tokio::test]
    async fn debug_output_and_errors_hold_no_secret() {
        let error = Authorization::new(known("secret\n\u{1}"), AUTHORIZATION, "THE_KEY")
            .err()
            .unwrap();
        assert!(!error.message.contains("secret"));
        assert_eq!(error.hint.as_deref(), Some("check THE_KEY"));
        let credentials = Credentials::Key("secret".to_owned());
        let header = Authorization::new(known("secret"), "x-api-key", "THE_KEY").unwrap();
        let header = header.header().await.unwrap();
        assert_eq!(header.1, "secret");
        let shown = format!("{credentials:?} {:?} {header:?}", known("secret"));
        assert!(!shown.contains("secret\""), "{shown}");
    }

    /// Returns `key 1`, `key 2` and so on, up to the given number.
    struct Numbered(AtomicUsize, usize);

    #[async_trait]
    impl KeySource for Numbered {
        async fn key(&self) -> Result<String, ProviderError> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            Ok(format!("key {}", number.min(self.1)))
        }
    }

    #[tokio::test]
    async fn a_key_source_is_asked_again_only_after_a_rejection() {
        let key = Key {
            secret: Secret::Source(Arc::new(Numbered(AtomicUsize::new(1), 2))),
            header: Some("x-key".to_owned()),
        };
        let authorization = Authorization::new(key, AUTHORIZATION, "a command").unwrap();
        let first = authorization.header().await.unwrap().1;
        assert_eq!(first, "key 1");
        assert_eq!(authorization.header().await.unwrap().1, first);
        let second = authorization.renewed(&first).await.unwrap().unwrap().1;
        assert_eq!(second, "key 2");
        // Another request was rejected with the old key.
        let same = authorization.renewed(&first).await.unwrap().unwrap().1;
        assert_eq!(same, second);
        assert!(authorization.renewed(&second).await.unwrap().is_none());
        let fixed = Authorization::new(known("k"), AUTHORIZATION, "THE_KEY").unwrap();
        assert!(fixed.renewed(&second).await.unwrap().is_none());
    }
}
