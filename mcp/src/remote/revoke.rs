//! Tokens that a user no longer wants: their issuer is told to end them (RFC 7009).

use http::StatusCode;
use reqwest::Url;
use serde_json::Value;

use crate::config::Address;
use crate::remote::credentials::{Credentials, Entry};
use crate::remote::name::clean_line;
use crate::remote::oauth;
use crate::remote::redirect::is_safe;

/// What is to end.
pub(crate) struct Ended {
    issuer: Option<String>,
    client_id: String,
    client_secret: Option<String>,
    /// Each with the kind that the issuer calls it; the one that makes others comes first.
    tokens: Vec<(String, &'static str)>,
}

impl Ended {
    /// Returns the tokens of an entry; `None` if it has none.
    pub(crate) fn of(entry: Entry) -> Option<Self> {
        // The types of the library behind the SDK's have no name here.
        let tokens = serde_json::to_value(entry.tokens?).ok()?;
        let kinds = ["refresh_token", "access_token"];
        let tokens = kinds.into_iter().filter_map(|kind| {
            let token = tokens[kind].as_str()?;
            Some((token.to_owned(), kind))
        });
        Some(Self {
            issuer: entry.issuer,
            client_id: entry.client_id,
            client_secret: entry.client_secret,
            tokens: tokens.collect(),
        })
    }

    fn form(&self, token: &str, kind: &str, secret: Option<&str>) -> String {
        let pairs = [
            ("token", Some(token)),
            ("token_type_hint", Some(kind)),
            ("client_id", Some(&*self.client_id)),
            ("client_secret", secret),
        ];
        let pairs = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        // A query has the form of a form.
        let url = Url::parse_with_params("http://form", pairs);
        let query = url.ok().and_then(|url| url.query().map(str::to_owned));
        query.unwrap_or_default()
    }
}

/// Has the issuer end tokens.
///
/// # Errors
///
/// If it is not the issuer of these tokens any more, has no place for this, or refuses; the text is for the user.
pub(crate) async fn revoke(
    address: &Address,
    http: &ah_http::Options,
    credentials: &Credentials,
    ended: &Ended,
) -> Result<(), String> {
    let manager = oauth::manager(address, http, credentials).await;
    let manager = manager.map_err(|error| error.to_string())?;
    let metadata = manager.resolve_metadata_from_challenge(None).await;
    let metadata = metadata
        .map_err(|error| clean_line(&error.to_string(), 300))?
        .metadata;
    if metadata.issuer != ended.issuer {
        return Err("the server names another issuer now".to_owned());
    }
    let named = metadata.additional_fields.get("revocation_endpoint");
    let url = named
        .and_then(Value::as_str)
        .and_then(|url| Url::parse(url).ok());
    let url = url.filter(is_safe);
    let url = url.ok_or("the issuer names no address for it")?;
    let client = ah_http::client(http, url.as_str()).map_err(|error| error.to_string())?;
    for (token, kind) in &ended.tokens {
        let send = async |secret| {
            let request = client
                .post(url.clone())
                .header("content-type", "application/x-www-form-urlencoded")
                .body(ended.form(token, kind, secret));
            let response = request.send().await;
            response.map_err(|error| clean_line(&error.to_string(), 300))
        };
        let mut response = send(ended.client_secret.as_deref()).await?;
        // Issuers on the Python SDK want the field of clients that have no secret, too.
        if response.status() == StatusCode::BAD_REQUEST && ended.client_secret.is_none() {
            response = send(Some("")).await?;
        }
        if !response.status().is_success() {
            return Err(format!("the issuer answers {}", response.status()));
        }
    }
    Ok(())
}
