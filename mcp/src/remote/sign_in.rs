//! Signs the user in to a server over HTTP: from the server's refusal to a stored token.
//!
//! The protocol is the SDK's (discovery, registration, PKCE, the check of the issuer). What is decided here: which name
//! this program goes by, which scopes are asked for, and which addresses a browser is sent to.

use std::time::Duration;

use reqwest::Url;
use rmcp::service::ClientServiceExt as _;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{
    AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, OAuthClientConfig,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;
use tokio::time::timeout;

use crate::config::{Address, SignInSettings};
use crate::key_store::CredentialPlace;
use crate::remote::credentials::{Credentials, Entry};
use crate::remote::name::clean_line;
use crate::remote::oauth;
use crate::remote::redirect::{Redirect, code, is_safe, value};
use crate::remote::revision::Beginning;
use crate::remote::revoke::{Ended, revoke};

/// Time for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(30);

/// A sign-in for which a browser is awaited.
pub struct SignIn {
    manager: AuthorizationManager,
    credentials: Credentials,
    client: OAuthClientConfig,
    redirect: Redirect,
    url: String,
    state: String,
}

/// Where a server is and where its credentials are.
#[derive(Debug, Clone)]
pub struct SignInPlace {
    /// The server.
    pub address: Address,
    /// Where the credentials are.
    pub kept: CredentialPlace,
    /// Options of connections.
    pub http: ah_http::Options,
}

/// What is known of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Issuer of the tokens, if it names itself.
    pub issuer: Option<String>,
    /// Scopes that were granted.
    pub scopes: Vec<String>,
    /// Scopes that the server has asked for since.
    pub wanted: Vec<String>,
    /// End of the access token in seconds since 1970, if it has one.
    pub expires_at: Option<u64>,
    /// Whether the access token is renewed without the user.
    pub is_renewed: bool,
}

/// End of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedOut {
    /// Whether there was one.
    pub was_there: bool,
    /// Why its tokens are still valid, if they may be.
    pub left: Option<String>,
}

impl SignInPlace {
    /// Returns what is known of the user's sign-in; `None` without one.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn signed_in(&self) -> std::io::Result<Option<SignedIn>> {
        let entry = self.credentials().read().await?;
        Ok(entry.and_then(|entry| SignedIn::of(&entry)))
    }

    /// Forgets the user's sign-in and has its issuer end the tokens, if it can (RFC 7009).
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub async fn sign_out(&self) -> std::io::Result<SignedOut> {
        let credentials = self.credentials();
        let entry = credentials.read().await?;
        // Nothing that the issuer says keeps them here.
        let was_there = credentials.remove().await?;
        let revoked = match entry.and_then(Ended::of) {
            Some(ended) => {
                let revoked = revoke(&self.address, &self.http, &credentials, &ended);
                timeout(PATIENCE, revoked).await
            }
            None => Ok(Ok(())),
        };
        let left = match revoked {
            Ok(revoked) => revoked.err(),
            Err(_) => Some("the issuer does not answer".to_owned()),
        };
        Ok(SignedOut { was_there, left })
    }

    fn credentials(&self) -> Credentials {
        Credentials::new(&self.kept, &self.address.url)
    }

    /// Begins a sign-in with the scopes that the server wants, or with `scopes` if there are any. What was granted before
    /// is asked for again.
    ///
    /// # Errors
    ///
    /// If the server or its issuer cannot be reached, offers no sign-in, or says something that is not allowed.
    pub async fn begin(&self, scopes: &[String]) -> Result<SignIn, String> {
        let credentials = self.credentials();
        let before = credentials.read().await;
        let before = before
            .map_err(|error| format!("cannot read `{}`: {error}", self.kept.file.display()))?;
        let challenge = self.challenge().await?;
        let mut manager = { oauth::manager(&self.address, &self.http, &credentials).await }
            .map_err(|error| error.to_string())?;
        let resolved = manager
            .resolve_metadata_from_challenge(challenge.as_deref())
            .await
            .map_err(|error| plain(&error))?;
        let is_guess = resolved.source == AuthorizationMetadataSource::LegacyEndpointFallback;
        if is_guess && challenge.is_none() {
            return Err("the server offers no sign-in".to_owned());
        }
        let metadata = resolved.metadata;
        manager.set_metadata(metadata.clone());
        let settings = &self.address.sign_in;
        let scopes = wished(&manager, settings, scopes, before).await;
        let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
        let redirect = { Redirect::listen(settings.callback_port.unwrap_or_default()).await }
            .map_err(|error| format!("cannot listen for the browser: {error}"))?;
        let client = match known_client(settings, &metadata, &redirect.uri) {
            Some(client) => client,
            None => { manager.register_client("ah", &redirect.uri, &scopes).await }
                .map_err(|error| plain(&error))?,
        };
        { manager.configure_client(client.clone()) }.map_err(|error| plain(&error))?;
        let url = { manager.get_authorization_url(&scopes).await }.map_err(|e| plain(&e))?;
        let state = checked(&url)?;
        Ok(SignIn {
            manager,
            credentials,
            client,
            redirect,
            url,
            state,
        })
    }

    /// Returns the refusal of requests without credentials; `None` if the server accepts them. Some servers let anybody
    /// begin, and refuse the first request after that.
    async fn challenge(&self) -> Result<Option<String>, String> {
        let client =
            ah_http::client(&self.http, &self.address.url).map_err(|error| error.to_string())?;
        for beginning in [Beginning::Discovery, Beginning::Handshake] {
            let config = StreamableHttpClientTransportConfig::with_uri(&*self.address.url);
            let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
            let begun = timeout(
                PATIENCE,
                ().serve_with_lifecycle(transport, beginning.mode()),
            );
            let begun = begun.await.map_err(|_| "the server does not answer");
            let refusal = match begun? {
                Ok(server) => {
                    let listed = timeout(PATIENCE, server.list_tools(None)).await;
                    let refusal = listed.ok().and_then(Result::err);
                    return Ok(refusal.and_then(|error| error.auth_challenge().map(str::to_owned)));
                }
                Err(error) => error.auth_challenge().map(str::to_owned),
            };
            if refusal.is_some() {
                return Ok(refusal);
            }
        }
        // One of another transport says nothing here, and may offer a sign-in all the same.
        Ok(None)
    }
}

impl SignIn {
    /// Address for the user's browser; it is `http` or `https`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until the browser has returned; returns the address to which it did, for [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// If the port can no longer be listened on.
    pub async fn returned(&self) -> Result<String, String> {
        let visited = self.redirect.visited(&self.state).await;
        visited.map_err(|error| format!("cannot listen for the browser: {error}"))
    }

    /// Exchanges the code in `address`, to which the browser returned, for tokens, and stores them.
    ///
    /// # Errors
    ///
    /// If the address is not of this sign-in, names another issuer, or the issuer refuses.
    pub async fn finish(&self, address: &str) -> Result<SignedIn, String> {
        let address = address.trim();
        if value(address, "state").as_deref() != Some(&*self.state) {
            return Err("this is not the address that the sign-in ended at".to_owned());
        }
        let Some(code) = code(address) else {
            let reason = ["error_description", "error"];
            let reason = reason.iter().find_map(|name| value(address, name));
            let reason = clean_line(&reason.unwrap_or_default(), 300);
            return Err(format!("the sign-in was refused: {reason}"));
        };
        let issuer = value(address, "iss");
        self.manager
            .exchange_code_for_token_with_issuer(&code, &self.state, issuer.as_deref())
            .await
            .map_err(|error| plain(&error))?;
        let stored = self.credentials.change(|entry| {
            entry.client_secret.clone_from(&self.client.client_secret);
            entry.wanted.clear();
        });
        let stored = stored.await;
        stored.map_err(|error| format!("cannot store the credentials: {error}"))?;
        let entry = self.credentials.read().await.ok().flatten();
        let known = entry.and_then(|entry| SignedIn::of(&entry));
        known.ok_or_else(|| "the credentials are gone".to_owned())
    }
}

impl SignedIn {
    fn of(entry: &Entry) -> Option<Self> {
        // The types of the library behind the SDK's have no name here.
        let tokens = serde_json::to_value(entry.tokens.as_ref()?).ok()?;
        let lasts = tokens["expires_in"].as_u64();
        let shown = |list: &[String]| list.iter().map(|it| clean_line(it, 200)).collect();
        Some(Self {
            issuer: entry.issuer.as_ref().map(|issuer| clean_line(issuer, 500)),
            scopes: shown(&entry.granted),
            wanted: shown(&entry.wanted),
            expires_at: lasts.zip(entry.received_at).map(|(a, b)| a + b),
            is_renewed: tokens["refresh_token"].is_string(),
        })
    }
}

/// Returns the scopes to ask for: those given, else those of the settings, else those that the server names; with all that
/// were granted before, and those for which the server has refused a request.
async fn wished(
    manager: &AuthorizationManager,
    settings: &SignInSettings,
    given: &[String],
    before: Option<Entry>,
) -> Vec<String> {
    let mut scopes = match (given, settings.scopes.as_slice()) {
        ([], []) => manager.select_initial_scopes(&[]).await,
        ([], set) => set.to_vec(),
        (given, _) => given.to_vec(),
    };
    let before = before.unwrap_or_default();
    for scope in before.granted.into_iter().chain(before.wanted) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

/// Returns the name that this program goes by without a registration: the user's, or that of the document about it.
fn known_client(
    settings: &SignInSettings,
    metadata: &AuthorizationMetadata,
    redirect: &str,
) -> Option<OAuthClientConfig> {
    if let Some(id) = &settings.client_id {
        let client = OAuthClientConfig::new(id, redirect);
        return Some(match &settings.client_secret {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        });
    }
    let document = settings.client_metadata_url.as_ref()?;
    let is_taken = metadata
        .additional_fields
        .get("client_id_metadata_document_supported");
    (document.starts_with("https://") && is_taken == Some(&Value::Bool(true)))
        .then(|| OAuthClientConfig::new(document, redirect))
}

/// Returns the state in an address for the browser, if the browser may be sent there. Anything but a web page could start
/// a program or run a script.
fn checked(url: &str) -> Result<String, String> {
    let parsed = Url::parse(url).ok().filter(is_safe);
    parsed
        .and_then(|_| value(url, "state"))
        .ok_or_else(|| "the server's sign-in page is not at an https address".to_owned())
}

/// Words of the SDK with their causes, in one line.
fn plain(error: &dyn std::error::Error) -> String {
    crate::remote::error::ServerError::of(error).to_string()
}
