//! Credentials for servers. Secrets come from the environment or from a source that the caller gives. They appear in no
//! log, error or debug output, and requests identify themselves as `ah`, never as another client.

use std::fmt;
use std::sync::Arc;

use ah_conversation::{Environment, ErrorClass, ProviderError};
use async_trait::async_trait;
use parking_lot::Mutex;
use reqwest::StatusCode;
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

/// What shows a server who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A header that carries the key.
    Header(HeaderName, HeaderValue),
    /// Credentials that sign each request.
    Signature(crate::signing::Credentials),
}

impl Proof {
    /// Whether a refusal with `status` may mean that it has expired. AWS has another status for this.
    pub(crate) fn may_have_expired(&self, status: StatusCode) -> bool {
        match self {
            Self::Header(..) => status == StatusCode::UNAUTHORIZED,
            Self::Signature(_) => status == StatusCode::FORBIDDEN,
        }
    }
}

/// How requests show who asks.
pub(crate) struct Authorization {
    name: HeaderName,
    /// Name of the setting that holds the key, for hints.
    credentials: String,
    source: Option<Arc<dyn KeySource>>,
    proof: Mutex<Option<Proof>>,
}

impl Authorization {
    /// Puts `key` into the header that it names, or else into `usual`. `credentials` names the setting that holds the key.
    pub(crate) fn new(key: Key, usual: &str, credentials: &str) -> Result<Self, ProviderError> {
        let mut authorization = Self {
            name: header_name(key.header.as_deref().unwrap_or(usual))?,
            credentials: credentials.to_owned(),
            source: None,
            proof: Mutex::default(),
        };
        match key.secret {
            Secret::Known(secret) => {
                authorization.proof = Mutex::new(Some(authorization.proof_of(&secret)?));
            }
            Secret::Source(source) => authorization.source = Some(source),
        }
        Ok(authorization)
    }

    /// Returns the proof, asking the source if there is no key yet.
    pub(crate) async fn proof(&self) -> Result<Proof, ProviderError> {
        match (self.known(), &self.source) {
            (Some(proof), _) => Ok(proof),
            (None, Some(source)) => self.ask(&**source).await,
            (None, None) => unreachable!("a key is known or has a source"),
        }
    }

    /// Returns the proof by a new key after the server has rejected `refused`, or `None` if there is no other key.
    pub(crate) async fn renewed(&self, refused: &Proof) -> Result<Option<Proof>, ProviderError> {
        let Some(source) = &self.source else {
            return Ok(None);
        };
        // Another request may have asked for it meanwhile.
        let proof = match self.known().filter(|known| known != refused) {
            Some(known) => known,
            None => self.ask(&**source).await?,
        };
        Ok((proof != *refused).then_some(proof))
    }

    /// Whether a refusal with `status` may mean that the proof has expired, and there is a source of another.
    pub(crate) fn may_have_expired(&self, status: StatusCode) -> bool {
        let known = self.known();
        self.source.is_some() && known.is_some_and(|proof| proof.may_have_expired(status))
    }

    fn known(&self) -> Option<Proof> {
        self.proof.lock().clone()
    }

    async fn ask(&self, source: &dyn KeySource) -> Result<Proof, ProviderError> {
        let proof = self.proof_of(&source.key().await?)?;
        *self.proof.lock() = Some(proof.clone());
        Ok(proof)
    }

    fn proof_of(&self, secret: &str) -> Result<Proof, ProviderError> {
        if let Some(credentials) = crate::signing::Credentials::read(secret) {
            return Ok(Proof::Signature(credentials));
        }
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
        Ok(Proof::Header(self.name.clone(), value))
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
        let header = match header.proof().await.unwrap() {
            Proof::Header(_, value) => value,
            Proof::Signature(_) => panic!("a key is no signature"),
        };
        assert_eq!(header, "secret");
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
        let is = |proof: &Proof, key: &str| match proof {
            Proof::Header(name, value) => name == "x-key" && value == key,
            Proof::Signature(_) => false,
        };
        let first = authorization.proof().await.unwrap();
        assert!(is(&first, "key 1"));
        assert!(authorization.proof().await.unwrap() == first);
        let second = authorization.renewed(&first).await.unwrap().unwrap();
        assert!(is(&second, "key 2"));
        // Another request was rejected with the old key.
        let same = authorization.renewed(&first).await.unwrap().unwrap();
        assert!(same == second);
        assert!(authorization.renewed(&second).await.unwrap().is_none());
        let fixed = Authorization::new(known("k"), AUTHORIZATION, "THE_KEY").unwrap();
        assert!(fixed.renewed(&second).await.unwrap().is_none());
    }
}
