//! With what right the Messages API is asked. The values come from the environment that is handed in, and are sent as
//! they are: as what they are and under our own name, never as another client's.

use ah_conversation::{Environment, ErrorClass, ProviderError};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

const OAUTH_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const BEARER_TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
const KEY: &str = "ANTHROPIC_API_KEY";
/// Without it the API takes no OAuth tokens.
const OAUTH_BETA: &str = "oauth-2025-04-20";

/// What is shown to the Messages API.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// An OAuth token.
    OAuth(String),
    /// A bearer token, usually a gateway's.
    Bearer(String),
    /// An API key.
    Key(String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.variable())
    }
}

impl Credentials {
    /// The credentials that the environment holds.
    pub fn find(environment: &Environment) -> Result<Self, ProviderError> {
        let variable = |name: &str| {
            let value = environment.get(name)?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        variable(OAUTH_TOKEN)
            .map(Self::OAuth)
            .or_else(|| variable(BEARER_TOKEN).map(Self::Bearer))
            .or_else(|| variable(KEY).map(Self::Key))
            .ok_or_else(|| ProviderError {
                hint: Some(format!(
                    "set {KEY}, {BEARER_TOKEN} or {OAUTH_TOKEN}, or write {KEY}=… into ./.env"
                )),
                ..ProviderError::new(
                    ErrorClass::Authentication,
                    "no API key for the Messages API",
                )
            })
    }

    /// The variable that they came from.
    pub fn variable(&self) -> &'static str {
        match self {
            Self::OAuth(_) => OAUTH_TOKEN,
            Self::Bearer(_) => BEARER_TOKEN,
            Self::Key(_) => KEY,
        }
    }

    /// The headers that show them, with the betas that are asked for.
    pub(crate) fn headers(&self, betas: &[String]) -> Result<HeaderMap, ProviderError> {
        let (name, value) = match self {
            Self::OAuth(token) | Self::Bearer(token) => (AUTHORIZATION, format!("Bearer {token}")),
            Self::Key(key) => (HeaderName::from_static("x-api-key"), key.clone()),
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| ProviderError {
            hint: Some(format!("check {}", self.variable())),
            ..ProviderError::new(
                ErrorClass::Authentication,
                format!("{} holds characters that cannot be sent", self.variable()),
            )
        })?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::from_iter([(name, value)]);
        let own = matches!(self, Self::OAuth(_)).then_some(OAUTH_BETA);
        let betas: Vec<_> = own
            .into_iter()
            .chain(betas.iter().map(String::as_str))
            .collect();
        if !betas.is_empty() {
            let value = HeaderValue::from_str(&betas.join(",")).map_err(|_| {
                ProviderError::new(
                    ErrorClass::InvalidRequest,
                    format!("`{}` cannot be sent as betas", betas.join(",")),
                )
            })?;
            headers.insert("anthropic-beta", value);
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Credentials, ProviderError> {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Credentials::find(&Environment::new(variables, PathBuf::new()))
    }

    #[test]
    fn the_first_that_is_set_counts() {
        let all = [(KEY, "k"), (BEARER_TOKEN, "b"), (OAUTH_TOKEN, " o\n")];
        for (variables, expected) in [
            (&all[..], Credentials::OAuth("o".to_owned())),
            (&all[..2], Credentials::Bearer("b".to_owned())),
            (&all[..1], Credentials::Key("k".to_owned())),
        ] {
            assert_eq!(find(variables).unwrap(), expected);
        }
    }

    #[test]
    fn nothing_found_names_the_variables() {
        let error = find(&[(KEY, " ")]).unwrap_err();
        assert_eq!(error.class, ErrorClass::Authentication);
        assert!(error.hint.unwrap().contains(KEY));
    }

    #[test]
    fn no_secret_is_shown() {
        let error = Credentials::Key("secret\n\u{1}".to_owned()).headers(&[]);
        assert!(!error.unwrap_err().message.contains("secret"));
        let key = Credentials::Key("secret".to_owned());
        let headers = key.headers(&["x-1".to_owned()]).unwrap();
        let shown = format!("{key:?} {headers:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(headers["anthropic-beta"], "x-1");
    }
}
