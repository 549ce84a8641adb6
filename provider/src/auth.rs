//! With what right a server is asked. Secrets come from the environment or from a source that is handed in, and are sent
//! as what they are and under our own name, never as another client's; they are shown nowhere.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{Environment, ErrorClass, ProviderError};
use async_trait::async_trait;
use reqwest::header::{HeaderName, HeaderValue};

const OAUTH_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const BEARER_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const KEY: &str = "ANTHROPIC_API_KEY";
/// Without it the Messages API takes no OAuth tokens.
const OAUTH_BETA: &str = "oauth-2025-04-20";
/// The header whose values say what kind of secret they are.
pub(crate) const AUTHORIZATION: &str = "authorization";

/// What lets us ask a server.
#[derive(Debug, Clone)]
pub struct Key {
    /// The secret.
    pub secret: Secret,
    /// The header that it is shown in, where it is not the usual one.
    pub header: Option<String>,
}

/// Something that nobody else may see.
#[derive(Clone)]
pub enum Secret {
    /// It is at hand.
    Known(String),
    /// It is asked for when it is needed, and again when a server no longer takes it.
    Asked(Arc<dyn KeySource>),
}

/// Where a key comes from that changes.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// The key as it is now.
    async fn key(&self) -> Result<String, ProviderError>;
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The header by which a key is shown.
pub(crate) struct Authorization {
    name: HeaderName,
    /// What the user has to look at if the key is refused.
    credentials: String,
    source: Option<Arc<dyn KeySource>>,
    value: Mutex<Option<HeaderValue>>,
}

impl Authorization {
    /// Shows `key` in the header that it names, or else in `usual`. `credentials` says where the key is set.
    pub(crate) fn new(key: Key, usual: &str, credentials: &str) -> Result<Self, ProviderError> {
        let mut authorization = Self {
            name: header_name(key.header.as_deref().unwrap_or(usual))?,
            credentials: credentials.to_owned(),
            source: None,
            value: Mutex::default(),
        };
        match key.secret {
            Secret::Known(secret) => {
                authorization.value = Mutex::new(Some(authorization.shown(&secret)?));
            }
            Secret::Asked(source) => authorization.source = Some(source),
        }
        Ok(authorization)
    }

    /// The header.
    pub(crate) async fn header(&self) -> Result<(HeaderName, HeaderValue), ProviderError> {
        let known = self.known();
        let value = match (known, &self.source) {
            (Some(value), _) => value,
            (None, Some(source)) => self.ask(&**source).await?,
            (None, None) => unreachable!("a key is known or has a source"),
        };
        Ok((self.name.clone(), value))
    }

    /// The header with another key than `refused`, if there is one by now.
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
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.clone()
    }

    async fn ask(&self, source: &dyn KeySource) -> Result<HeaderValue, ProviderError> {
        let value = self.shown(&source.key().await?)?;
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.clone());
        Ok(value)
    }

    fn shown(&self, secret: &str) -> Result<HeaderValue, ProviderError> {
        let value = match self.name == AUTHORIZATION {
            true => HeaderValue::from_str(&format!("Bearer {secret}")),
            false => HeaderValue::from_str(secret),
        };
        let mut value = value.map_err(|_| ProviderError {
            hint: Some(format!("check {}", self.credentials)),
            ..ProviderError::new(
                ErrorClass::Authentication,
                "the key holds characters that cannot be sent",
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

/// What the environment holds for the Messages API.
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
    /// The credentials that the environment holds, if any.
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

    /// The variables that they are looked for in, as a hint.
    pub(crate) fn wanted() -> String {
        format!("set {KEY}, {BEARER_TOKEN} or {OAUTH_TOKEN}, or write {KEY}=… into ./.env")
    }

    /// The variable that they came from.
    pub fn variable(&self) -> &'static str {
        match self {
            Self::OAuth(_) => OAUTH_TOKEN,
            Self::Bearer(_) => BEARER_TOKEN,
            Self::Key(_) => KEY,
        }
    }

    /// The feature of the API that must be asked for before it takes them.
    pub(crate) fn beta(&self) -> Option<&'static str> {
        matches!(self, Self::OAuth(_)).then_some(OAUTH_BETA)
    }

    /// How they are shown.
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
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Credentials::find(&Environment::new(variables, PathBuf::new()))
    }

    #[test]
    fn the_first_that_is_set_counts() {
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
    async fn no_secret_is_shown() {
        let error = Authorization::new(known("secret\n\u{1}"), AUTHORIZATION, "THE_KEY");
        let error = error.err().unwrap();
        assert!(!error.message.contains("secret"));
        assert_eq!(error.hint.as_deref(), Some("check THE_KEY"));
        let credentials = Credentials::Key("secret".to_owned());
        let header = Authorization::new(known("secret"), "x-api-key", "THE_KEY").unwrap();
        let header = header.header().await.unwrap();
        assert_eq!(header.1, "secret");
        let shown = format!("{credentials:?} {:?} {header:?}", known("secret"));
        assert!(!shown.contains("secret\""), "{shown}");
    }

    /// Gives `key 1` and so on, up to the last.
    struct Numbered(AtomicUsize, usize);

    #[async_trait]
    impl KeySource for Numbered {
        async fn key(&self) -> Result<String, ProviderError> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            Ok(format!("key {}", number.min(self.1)))
        }
    }

    #[tokio::test]
    async fn a_key_is_asked_for_again_only_when_it_was_refused() {
        let key = Key {
            secret: Secret::Asked(Arc::new(Numbered(AtomicUsize::new(1), 2))),
            header: Some("x-key".to_owned()),
        };
        let authorization = Authorization::new(key, AUTHORIZATION, "a command").unwrap();
        let first = authorization.header().await.unwrap().1;
        assert_eq!(first, "key 1");
        assert_eq!(authorization.header().await.unwrap().1, first);
        let second = authorization.renewed(&first).await.unwrap().unwrap().1;
        assert_eq!(second, "key 2");
        // Somebody else still had the old one.
        let same = authorization.renewed(&first).await.unwrap().unwrap().1;
        assert_eq!(same, second);
        assert!(authorization.renewed(&second).await.unwrap().is_none());
        let fixed = Authorization::new(known("k"), AUTHORIZATION, "THE_KEY").unwrap();
        assert!(fixed.renewed(&second).await.unwrap().is_none());
    }
}
