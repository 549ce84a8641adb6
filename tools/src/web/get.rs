//! Fetches an address from one host, within limits for time and size.

use std::sync::Arc;
use std::time::Duration;

use ah_http::outside::{self, AddressFilter};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};

use super::Web;
use super::address::Redirect;

/// Limit for redirections within a host.
const REDIRECTS: usize = 10;
/// Time limit for a fetch with its redirections.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit for the body of a response in bytes, decompressed.
pub const LONGEST: usize = 5_000_000;
const WANTED: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// Result of a request.
pub enum Fetched {
    Response(WebResponse),
    /// A redirection to another host, which was not followed.
    Moved {
        status: StatusCode,
        to: Url,
    },
}

/// Response of a server.
pub struct WebResponse {
    pub status: StatusCode,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
    /// Whether the body was longer than [`LONGEST`].
    pub is_cut: bool,
}

impl Web {
    /// Fetches `url`.
    pub(super) async fn get(&self, url: &Url) -> Result<Fetched, String> {
        let getting = self.follow(url.clone());
        match tokio::time::timeout(PATIENCE, getting).await {
            Ok(found) => found,
            Err(_) => Err(format!(
                "{url} was not fetched within {} seconds",
                PATIENCE.as_secs()
            )),
        }
    }

    async fn follow(&self, mut url: Url) -> Result<Fetched, String> {
        for _ in 0..=REDIRECTS {
            self.check_reach(&url)?;
            let client = self.client(&url)?;
            let request = client.get(url.clone()).header(ACCEPT, WANTED);
            let response = request
                .send()
                .await
                .map_err(|error| explain(&url, &error))?;
            let status = response.status();
            let location = header(&response, LOCATION).filter(|_| status.is_redirection());
            match location.map(|location| self.redirected(&url, location)) {
                None => return read(&url, response).await.map(Fetched::Response),
                Some(Redirect::SameHost(to)) => url = to,
                Some(Redirect::OtherHost(to)) => return Ok(Fetched::Moved { status, to }),
                Some(Redirect::Invalid) => {
                    return Err(format!(
                        "{url} redirects to an address that cannot be fetched"
                    ));
                }
            }
        }
        Err(format!("{url} redirects more than {REDIRECTS} times"))
    }

    /// Returns a client for the host of `url`, limited to public addresses unless the user has named the host.
    pub(super) fn client(&self, url: &Url) -> Result<Client, String> {
        let permits: AddressFilter = if self.names(url) {
            Arc::new(|_| true)
        } else {
            Arc::new(ah_process::is_public)
        };
        outside::client(&self.http, url, permits).map_err(|error| match error {
            ah_http::Error::NotPublic { .. } => not_public(&error.to_string()),
            _ => error.to_string(),
        })
    }
}

fn header(response: &Response, name: HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

async fn read(url: &Url, mut response: Response) -> Result<WebResponse, String> {
    let status = response.status();
    let content_type = header(&response, CONTENT_TYPE).map(str::to_owned);
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| explain(url, &error))?
    {
        let room = LONGEST - body.len();
        is_cut = piece.len() > room;
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if is_cut {
            break;
        }
    }
    Ok(WebResponse {
        status,
        content_type,
        body,
        is_cut,
    })
}

/// Returns the root cause of a failed request as text.
pub fn explain(url: &Url, error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<ah_http::Error>() {
        Some(error @ ah_http::Error::NotPublic { .. }) => not_public(&error.to_string()),
        _ => format!("cannot fetch {url}: {cause}"),
    }
}

fn not_public(error: &str) -> String {
    format!("{error}; the user can name it in the setting `web.privateHosts`")
}
