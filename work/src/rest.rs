//! Plain REST requests to a hub, with retries, limits and pages, which are alike on GitHub, GitLab and Forgejo. So they
//! use the proxies, certificates and time limits of the whole program; a client library would bring its own, for about a
//! dozen calls.

mod page;
mod shared;
mod wait;

use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ah_conversation::json;
use ah_http::Options;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::hub::HubError;
pub(crate) use page::escaped;
use page::{next_page, reason};
use wait::{RateLimit, RetryDecision};

/// Largest number of pages read of a list.
const MOST_PAGES: usize = 20;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
const RETRIES: u32 = 3;
/// Shortest wait that somebody is told about.
const NOTEWORTHY: Duration = Duration::from_secs(10);

/// How a hub is reached.
#[derive(Debug, Clone)]
pub struct Access {
    /// Base URL of its API.
    pub api: String,
    /// Repository, as `OWNER/NAME`; on GitLab with its groups.
    pub repository: String,
    /// Token.
    pub token: String,
}

/// How limits of a hub are waited for.
pub struct Patience {
    /// Longest wait for a limit.
    pub longest: Duration,
    /// Waits.
    pub sleep: fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Is told about a long wait before it begins.
    pub on_wait: Box<dyn Fn(Duration) + Send + Sync>,
}

impl Patience {
    /// Returns the one of an unattended program, which waits for at most `longest`.
    pub fn new(longest: Duration, on_wait: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self {
            longest,
            sleep: |time| Box::pin(tokio::time::sleep(time)),
            on_wait: Box::new(on_wait),
        }
    }
}

/// What differs between the hubs.
pub(crate) struct Manner {
    /// Media type of the responses.
    pub accept: &'static str,
    /// Further headers of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// Query that asks for the largest page.
    pub page: &'static str,
    /// Path of the repository, from its name.
    pub place: fn(&str) -> String,
    /// Advice if the token is not valid.
    pub login: &'static str,
    /// Advice if the token may not do something.
    pub permission: &'static str,
}

/// Client of one repository on a hub.
pub(crate) struct Rest {
    client: Client,
    /// Base URL, without a trailing slash.
    base: String,
    access: Access,
    manner: Manner,
    patience: Patience,
}

/// Whether a request is sent again although it may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Always: repeating it has no further effect.
    Always,
    /// Only if it was rejected by a rate limit.
    IfRefused,
}

impl Rest {
    /// Returns the client; fails if the URL or the network settings are invalid.
    pub(crate) fn new(
        options: &Options,
        access: Access,
        manner: Manner,
        patience: Patience,
    ) -> Result<Self, HubError> {
        let client = ah_http::client(options, &access.api).map_err(|error| HubError {
            hint: error.hint().map(str::to_owned),
            ..HubError::new(error.to_string())
        })?;
        Ok(Self {
            client,
            base: access.api.trim_end_matches('/').to_owned(),
            access,
            manner,
            patience,
        })
    }

    /// Returns the name of the repository.
    pub(crate) fn repository(&self) -> &str {
        &self.access.repository
    }

    /// Returns the URL of a place in the repository.
    pub(crate) fn url(&self, path: &str) -> String {
        let place = (self.manner.place)(&self.access.repository);
        format!("{}{place}{path}", self.base)
    }

    /// Sends a request, with retries.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        repeat: Repeat,
    ) -> Result<Response, HubError> {
        let request_name = format!("{method} {}", url.strip_prefix(&self.base).unwrap_or(url));
        let mut attempt = 0;
        loop {
            let (limits, error) = match self.request(&method, url, body).send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let limits = limits(response.status().as_u16(), response.headers());
                    (limits, self.refusal(&request_name, response).await)
                }
                Err(error) => {
                    let reason = error.without_url();
                    let error = HubError::new(format!("{request_name}: {}", chain(&reason)));
                    (RateLimit::no_response(), error)
                }
            };
            let is_repeated = match repeat {
                Repeat::Always => true,
                Repeat::IfRefused => limits.is_refused(),
            };
            match wait::decide(&limits, attempt, RETRIES, self.patience.longest) {
                RetryDecision::Wait(time) if is_repeated => {
                    if time >= NOTEWORTHY {
                        (self.patience.on_wait)(time);
                    }
                    (self.patience.sleep)(time).await;
                }
                RetryDecision::Wait(time) => {
                    return Err(HubError {
                        again_after: Some(time),
                        ..error
                    });
                }
                RetryDecision::GiveUp => return Err(error),
                RetryDecision::TooLong(time) => {
                    let seconds = time.as_secs();
                    return Err(
                        error.hint(format!("rate limit exceeded; it resets in {seconds} s"))
                    );
                }
            }
            attempt += 1;
        }
    }

    fn request(&self, method: &Method, url: &str, body: Option<&Value>) -> reqwest::RequestBuilder {
        let mut request = self
            .client
            .request(method.clone(), url)
            .bearer_auth(&self.access.token)
            .header("accept", self.manner.accept)
            .timeout(TIMEOUT);
        for (name, value) in self.manner.headers {
            request = request.header(*name, *value);
        }
        match body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(self.redacted(&body.to_string())),
            None => request,
        }
    }

    /// Asks for a JSON value.
    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, HubError> {
        let response = self.send(Method::GET, url, None, Repeat::Always).await?;
        read(url, response).await
    }

    /// Sends a JSON value, and returns the response.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        url: &str,
        body: &Value,
        repeat: Repeat,
    ) -> Result<T, HubError> {
        let response = self.send(Method::POST, url, Some(body), repeat).await?;
        read(url, response).await
    }

    /// Sends a request whose response does not matter, and whose repetition has no further effect.
    pub(crate) async fn make(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<(), HubError> {
        self.send(method, url, body, Repeat::Always).await.map(drop)
    }

    /// Reads the pages of a list until `is_enough` returns `true`.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        is_enough: impl Fn(&[T]) -> bool + Send,
    ) -> Result<Vec<T>, HubError> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let mut next = Some(format!("{}{sign}{}", self.url(path), self.manner.page));
        let mut all = Vec::new();
        let mut pages = 0;
        while let Some(url) = next.take() {
            let response = self.send(Method::GET, &url, None, Repeat::Always).await?;
            // Following a link to another server would leak the token.
            let own = format!("{}/", self.base);
            let next_page = response
                .headers()
                .get("link")
                .and_then(|link| link.to_str().ok())
                .and_then(next_page)
                .filter(|url| url.starts_with(&own))
                .map(str::to_owned);
            all.extend(read::<Vec<T>>(&url, response).await?);
            pages += 1;
            next = next_page.filter(|_| pages < MOST_PAGES && !is_enough(&all));
        }
        Ok(all)
    }

    /// Returns `text` without the token. Agents' texts are posted, and must not reveal a token that they found.
    fn redacted(&self, text: &str) -> String {
        match self.access.token.len() {
            0..8 => text.to_owned(),
            _ => text.replace(&self.access.token, "[token]"),
        }
    }

    /// Returns the error for a response with an error status.
    async fn refusal(&self, request_name: &str, response: Response) -> HubError {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        let reason = reason(&text);
        let error = HubError {
            status: Some(status.as_u16()),
            ..HubError::new(format!("{request_name}: {status}: {reason}"))
        };
        match status.as_u16() {
            401 => error.hint(format!("the token is not valid: {}", self.manner.login)),
            403 => error.hint(format!(
                "the token may lack permissions: {}",
                self.manner.permission
            )),
            404 => error.hint(
                "check the repository (`-r OWNER/NAME`) and whether the token has access to it",
            ),
            301 | 307 | 308 => error.hint("the repository has moved; name it with `-r OWNER/NAME`"),
            _ => error,
        }
    }
}

/// Returns the rate limit described by response headers. GitLab's names have no `x-`.
fn limits(status: u16, headers: &HeaderMap) -> RateLimit {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let either = |name: &str| number(name).or_else(|| number(name.trim_start_matches("x-")));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|now| now.as_secs())
        .unwrap_or_default();
    let reset = either("x-ratelimit-reset");
    RateLimit {
        status: Some(status),
        retry_after: number("retry-after"),
        remaining: either("x-ratelimit-remaining"),
        reset_in: reset.map(|reset| reset.saturating_sub(now)),
    }
}

async fn read<T: DeserializeOwned>(url: &str, response: Response) -> Result<T, HubError> {
    let bytes = response
        .bytes()
        .await
        .map_err(|error| HubError::new(error.without_url().to_string()))?;
    json::from_slice(&bytes)
        .map_err(|error| HubError::new(format!("cannot parse the response of {url}: {error}")))
}

/// Formats an error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
