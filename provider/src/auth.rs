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
    /// The credentials of the environment, else the key in `dotenv`, the text of the folder's `.env` file.
    pub fn find(environment: &Environment, dotenv: Option<&str>) -> Result<Self, ProviderError> {
        let variable = |name: &str| {
            let value = environment.get(name)?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        variable(OAUTH_TOKEN)
            .map(Self::OAuth)
            .or_else(|| variable(BEARER_TOKEN).map(Self::Bearer))
            .or_else(|| variable(KEY).map(Self::Key))
            .or_else(|| dotenv_value(dotenv?, KEY).map(Self::Key))
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

/// The value of `name` in the lines of a `.env` file: `NAME=value`, one layer of quotes around the value, `#` before
/// a comment, `export` before the name. The last line that sets it counts.
fn dotenv_value(text: &str, name: &str) -> Option<String> {
    let mut values = text.lines().rev().filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| unquoted(value.trim()))
    });
    let value = values.next()?;
    (!value.is_empty()).then(|| value.to_owned())
}

fn unquoted(value: &str) -> &str {
    let in_quotes = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    in_quotes('"')
        .or_else(|| in_quotes('\''))
        .unwrap_or(value)
        .trim()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn find(variables: &[(&str, &str)], dotenv: &str) -> Result<Credentials, ProviderError> {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Credentials::find(&Environment::new(variables, PathBuf::new()), Some(dotenv))
    }

    #[test]
    fn the_first_that_is_set_counts() {
        let all = [(KEY, "k"), (BEARER_TOKEN, "b"), (OAUTH_TOKEN, " o\n")];
        let env = "ANTHROPIC_API_KEY=file";
        for (variables, dotenv, expected) in [
            (&all[..], env, Credentials::OAuth("o".to_owned())),
            (&all[..2], env, Credentials::Bearer("b".to_owned())),
            (&all[..1], env, Credentials::Key("k".to_owned())),
            (&[(KEY, " ")], env, Credentials::Key("file".to_owned())),
            (&[], env, Credentials::Key("file".to_owned())),
        ] {
            assert_eq!(find(variables, dotenv).unwrap(), expected);
        }
    }

    #[test]
    fn lines_of_a_dotenv_file() {
        for (text, expected) in [
            ("ANTHROPIC_API_KEY=k", Some("k")),
            (
                "# a comment\n\n ANTHROPIC_API_KEY = \"k\" \r\nX=1",
                Some("k"),
            ),
            ("export ANTHROPIC_API_KEY='k'", Some("k")),
            ("ANTHROPIC_API_KEY=\"'k'\"", Some("'k'")),
            ("ANTHROPIC_API_KEY=a=b", Some("a=b")),
            ("#ANTHROPIC_API_KEY=k", None),
            ("MY_ANTHROPIC_API_KEY=k", None),
            ("ANTHROPIC_API_KEY=", None),
            ("ANTHROPIC_API_KEY=\"", Some("\"")),
            ("ANTHROPIC_API_KEY", None),
        ] {
            let found = find(&[], text).ok();
            assert_eq!(
                found,
                expected.map(|key| Credentials::Key(key.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_found_names_the_variables() {
        let error = find(&[], "").unwrap_err();
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
