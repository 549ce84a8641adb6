//! Gets what is at an address: one host, so much time, so many bytes.

use std::sync::Arc;
use std::time::Duration;

use ah_http::outside::{self, AddressFilter};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};

use super::Web;
use super::address::Next;

/// How often a host may send elsewhere on itself.
const REDIRECTS: usize = 10;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much is read of an answer, unpacked.
pub const LONGEST: usize = 5_000_000;
const WANTED: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// What was found.
pub enum Found {
    /// An answer.
    Answer(Answer),
    /// The host sends to another.
    Moved { status: StatusCode, to: Url },
}

/// An answer as it came.
pub struct Answer {
    pub status: StatusCode,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
    /// Whether there was more than is read.
    pub is_cut: bool,
}

impl Web {
    /// Gets what is at `url`.
    pub(super) async fn get(&self, url: &Url) -> Result<Found, String> {
        let getting = self.follow(url.clone());
        match tokio::time::timeout(PATIENCE, getting).await {
            Ok(found) => found,
            Err(_) => Err(format!(
                "{url} did not answer whole within {} seconds",
                PATIENCE.as_secs()
            )),
        }
    }

    async fn follow(&self, mut url: Url) -> Result<Found, String> {
        for _ in 0..=REDIRECTS {
            self.reaches(&url)?;
            let client = self.client(&url)?;
            let request = client.get(url.clone()).header(ACCEPT, WANTED);
            let response = request.send().await.map_err(|fault| told(&url, &fault))?;
            let status = response.status();
            let location = { response.headers().get(LOCATION) }
                .filter(|_| status.is_redirection())
                .and_then(|location| location.to_str().ok());
            match location.map(|location| self.redirected(&url, location)) {
                None => return read(&url, response).await.map(Found::Answer),
                Some(Next::Follow(to)) => url = to,
                Some(Next::Elsewhere(to)) => return Ok(Found::Moved { status, to }),
                Some(Next::Nowhere) => {
                    return Err(format!("{url} sends to an address that cannot be fetched"));
                }
            }
        }
        Err(format!("{url} sends elsewhere again and again"))
    }

    /// A client for the host of `url`: by public addresses, unless the user has named it.
    pub(super) fn client(&self, url: &Url) -> Result<Client, String> {
        let permits: AddressFilter = match self.names(url) {
            true => Arc::new(|_| true),
            false => Arc::new(ah_process::is_public),
        };
        outside::client(&self.http, url, permits).map_err(|fault| match fault {
            ah_http::Error::NotPublic { .. } => not_public(&fault.to_string()),
            _ => fault.to_string(),
        })
    }
}

async fn read(url: &Url, mut response: Response) -> Result<Answer, String> {
    let status = response.status();
    let content_type = { response.headers().get(CONTENT_TYPE) }
        .and_then(|content_type| content_type.to_str().ok())
        .map(str::to_owned);
    let mut body = Vec::new();
    let mut is_cut = false;
    while let Some(piece) = response.chunk().await.map_err(|fault| told(url, &fault))? {
        let room = LONGEST - body.len();
        is_cut = piece.len() > room;
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if is_cut {
            break;
        }
    }
    Ok(Answer {
        status,
        content_type,
        body,
        is_cut,
    })
}

/// What went wrong, down to its cause.
pub fn told(url: &Url, fault: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = fault;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<ah_http::Error>() {
        Some(fault @ ah_http::Error::NotPublic { .. }) => not_public(&fault.to_string()),
        _ => format!("cannot fetch {url}: {cause}"),
    }
}

fn not_public(fault: &str) -> String {
    format!("{fault}; the user can name it in the setting `webPrivateHosts`")
}
