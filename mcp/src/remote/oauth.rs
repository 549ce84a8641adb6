//! Tokens for requests to servers: the SDK's OAuth client, on connections and credentials of ours.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rmcp::transport::auth::{
    AuthorizationManager, OAuthClientConfig, OAuthHttpClient, OAuthHttpClientError,
    OAuthHttpClientFuture, OAuthHttpRequest,
};

use crate::config::Address;
use crate::key_store::CredentialPlace;
use crate::remote::credentials::Credentials;
use crate::remote::error::ServerError;
use crate::remote::name::clean_line;

/// Time for one request to an issuer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an issuer's answer in bytes.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// Sends the SDK's requests to issuers. Redirects are never followed: an answer from elsewhere could take a code or a
/// token along. The SDK itself follows those of descriptions within their origin.
struct Requests(ah_http::Options);

impl OAuthHttpClient for Requests {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut request = reqwest::Request::try_from(request.request)?;
            *request.timeout_mut() = Some(TIMEOUT);
            let client = ah_http::client(&self.0, request.url().as_str())?;
            let response = client.execute(request).await?;
            let mut answer = http::Response::builder().status(response.status());
            for (name, value) in response.headers() {
                answer = answer.header(name, value);
            }
            let (mut body, mut parts) = (Vec::new(), response.bytes_stream());
            while let Some(part) = parts.next().await {
                body.extend_from_slice(&part?);
                if body.len() > LARGEST_ANSWER {
                    return Err(OAuthHttpClientError::from("the answer is too large"));
                }
            }
            Ok(answer.body(body)?)
        })
    }
}

/// Returns the SDK's OAuth client for the server at `address`.
pub(crate) async fn manager(
    address: &Address,
    http: &ah_http::Options,
    credentials: &Credentials,
) -> Result<AuthorizationManager, ServerError> {
    let requests = Arc::new(Requests(http.clone()));
    let created = AuthorizationManager::new_with_oauth_http_client(&*address.url, requests).await;
    let mut manager = created.map_err(|error| ServerError::of(&error))?;
    manager.set_credential_store(credentials.clone());
    Ok(manager)
}

/// Returns the credentials of a server whose configuration has none of its own.
pub(crate) fn credentials(
    address: &Address,
    place: Option<&CredentialPlace>,
) -> Option<Credentials> {
    let mut names = address.headers.keys();
    let has_own = names.any(|name| name.eq_ignore_ascii_case("authorization"));
    let place = place.filter(|_| !has_own)?;
    Some(Credentials::new(place, &address.url))
}

/// Returns what adds tokens to the requests; `None` if the user has not signed in.
///
/// # Errors
///
/// If the issuer of the tokens is not the server's any more, or cannot be reached.
pub(crate) async fn tokens(
    address: &Address,
    http: &ah_http::Options,
    credentials: &Credentials,
) -> Result<Option<AuthorizationManager>, ServerError> {
    let entry = credentials.read().await;
    let entry = entry
        .map_err(|error| ServerError::permanent(format!("cannot read the credentials: {error}")))?;
    let Some(entry) = entry.filter(|entry| entry.tokens.is_some()) else {
        return Ok(None);
    };
    let mut manager = manager(address, http, credentials).await?;
    let is_ready = manager.initialize_from_store().await;
    if !is_ready.map_err(|error| ServerError::of(&error))? {
        return Err(ServerError::NeedsAuth { scope: None });
    }
    if let Some(secret) = entry.client_secret {
        let client = OAuthClientConfig::new(entry.client_id, address.url.clone());
        let configured = manager.configure_client(client.with_client_secret(secret));
        configured.map_err(|error| ServerError::of(&error))?;
    }
    Ok(Some(manager))
}

/// Explains to the model why a server has refused a request, and notes which scopes it wants for it.
pub(crate) async fn refused(
    scope: Option<&str>,
    server: &str,
    credentials: Option<&Credentials>,
) -> String {
    let Some(credentials) = credentials else {
        return "the server refuses the credentials of its configuration".to_owned();
    };
    note(scope, server, credentials).await;
    let sign_in = format!("the user can sign in with `ah mcp login {server}`");
    match scope {
        Some(scope) => {
            let scope = clean_line(scope, 500);
            format!("the server wants a sign-in with the rights `{scope}`; {sign_in}")
        }
        None => format!("the server wants a sign-in; {sign_in}"),
    }
}

/// Notes the scopes that a server wants of a user who has signed in. Before that, the sign-in itself asks for them.
pub(crate) async fn note(scope: Option<&str>, server: &str, credentials: &Credentials) {
    let entry = credentials.read().await.ok().flatten();
    let is_signed_in = entry.is_some_and(|it| it.tokens.is_some());
    let Some(scope) = scope.filter(|_| is_signed_in) else {
        return;
    };
    if let Err(error) = credentials.want(scope).await {
        tracing::warn!(server, "cannot note the scopes that it wants: {error}");
    }
}
