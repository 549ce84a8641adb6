//! GitHub as a hub, through plain REST requests. So it uses the proxies, certificates and time limits of the whole
//! program; a client library would bring its own, for about a dozen calls.

mod wait;
mod wire;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ah_http::Options;
use async_trait::async_trait;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::hub::{Comment, Hub, HubError, NewPull};
use crate::issue::Issue;
use wait::{RateLimit, RetryDecision};

/// Default address of the API.
pub const API: &str = "https://api.github.com";
/// API version of the requests.
const VERSION: &str = "2022-11-28";
const PER_PAGE: usize = 100;
/// Largest number of pages read of a list.
const MOST_PAGES: usize = 20;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
const RETRIES: u32 = 3;

/// Repository on GitHub, or on a server with the same API.
pub struct GitHub {
    client: Client,
    /// Base URL, without a trailing slash.
    base: String,
    repository: String,
    token: String,
}

/// Whether a request is sent again although it may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Always: repeating it has no further effect.
    Always,
    /// Only if it was rejected by a rate limit.
    IfRefused,
}

impl GitHub {
    /// Returns the repository `OWNER/NAME` on the API at `base`.
    ///
    /// # Errors
    ///
    /// If `base` is not a valid URL, or the network settings are invalid.
    pub fn new(
        options: &Options,
        base: &str,
        repository: &str,
        token: &str,
    ) -> Result<Self, HubError> {
        let client = ah_http::client(options, base).map_err(|error| HubError {
            hint: error.hint().map(str::to_owned),
            ..HubError::new(error.to_string())
        })?;
        Ok(Self {
            client,
            base: base.trim_end_matches('/').to_owned(),
            repository: repository.to_owned(),
            token: token.to_owned(),
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}/repos/{}{path}", self.base, self.repository)
    }

    /// Sends a request, with retries.
    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
        repeat: Repeat,
    ) -> Result<Response, HubError> {
        let request_name = format!("{method} {}", url.strip_prefix(&self.base).unwrap_or(url));
        let mut attempt = 0;
        loop {
            let mut request = self
                .client
                .request(method.clone(), url)
                .bearer_auth(&self.token)
                .header("accept", "application/vnd.github+json")
                .header("x-github-api-version", VERSION)
                .timeout(TIMEOUT);
            if let Some(body) = body {
                request = request
                    .header("content-type", "application/json")
                    .body(self.redacted(&body.to_string()));
            }
            let (limits, error) = match request.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let limits = limits(response.status().as_u16(), response.headers());
                    (limits, refusal(&request_name, response).await)
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
            match wait::decide(&limits, attempt, RETRIES) {
                RetryDecision::Wait(time) if is_repeated => tokio::time::sleep(time).await,
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

    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, HubError> {
        let response = self.send(Method::GET, url, None, Repeat::Always).await?;
        read(url, response).await
    }

    /// Reads the pages of a list until `is_enough` returns `true`.
    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        is_enough: impl Fn(&[T]) -> bool + Send,
    ) -> Result<Vec<T>, HubError> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let mut next = Some(format!("{}{sign}per_page={PER_PAGE}", self.url(path)));
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
                .and_then(wire::next_page)
                .filter(|url| url.starts_with(&own))
                .map(str::to_owned);
            all.extend(read::<Vec<T>>(&url, response).await?);
            pages += 1;
            next = next_page.filter(|_| pages < MOST_PAGES && !is_enough(&all));
        }
        Ok(all)
    }

    /// Returns the open pull request for this branch.
    async fn pull(&self, branch: &str) -> Result<Option<wire::Pull>, HubError> {
        let owner = self.repository.split('/').next().unwrap_or_default();
        let head = wire::escaped(&format!("{owner}:{branch}"));
        let path = format!("/pulls?state=open&head={head}");
        let pulls = self.list::<wire::Pull>(&path, |_| true).await?;
        // Servers that ignore `head` list all pull requests.
        Ok(pulls.into_iter().find(|pull| pull.head.name == branch))
    }

    /// Returns `text` without the token. Agents' texts are posted, and must not reveal a token that they found.
    fn redacted(&self, text: &str) -> String {
        match self.token.len() {
            0..8 => text.to_owned(),
            _ => text.replace(&self.token, "[token]"),
        }
    }
}

/// Returns the rate limit described by response headers.
fn limits(status: u16, headers: &HeaderMap) -> RateLimit {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|now| now.as_secs())
        .unwrap_or_default();
    let reset = number("x-ratelimit-reset");
    RateLimit {
        status: Some(status),
        retry_after: number("retry-after"),
        remaining: number("x-ratelimit-remaining"),
        reset_in: reset.map(|reset| reset.saturating_sub(now)),
    }
}

/// Returns the error for a response with an error status.
async fn refusal(request_name: &str, response: Response) -> HubError {
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    let reason = wire::reason(&text);
    let error = HubError {
        status: Some(status.as_u16()),
        ..HubError::new(format!("{request_name}: {status}: {reason}"))
    };
    match status.as_u16() {
        401 => error.hint("the token is not valid: set GH_TOKEN, or run `gh auth login`"),
        403 => {
            error.hint("the token may lack permissions: contents, issues and pull requests (write)")
        }
        404 => error
            .hint("check the repository (`-r OWNER/NAME`) and whether the token has access to it"),
        301 | 307 | 308 => error.hint("the repository has moved; name it with `-r OWNER/NAME`"),
        _ => error,
    }
}

async fn read<T: DeserializeOwned>(url: &str, response: Response) -> Result<T, HubError> {
    let bytes = response
        .bytes()
        .await
        .map_err(|error| HubError::new(error.without_url().to_string()))?;
    serde_json::from_slice(&bytes)
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

#[async_trait]
impl Hub for GitHub {
    async fn issues(&self, label: &str) -> Result<Vec<Issue>, HubError> {
        let label = wire::escaped(label);
        let path = format!("/issues?state=open&labels={label}&sort=created&direction=asc");
        let found = self.list::<wire::Issue>(&path, |_| false).await?;
        let issues = found
            .into_iter()
            .filter(|issue| issue.pull_request.is_none());
        Ok(issues.map(Issue::from).collect())
    }

    async fn issue(&self, number: u64) -> Result<Issue, HubError> {
        let url = self.url(&format!("/issues/{number}"));
        let issue: wire::Issue = self.get(&url).await?;
        match issue.pull_request {
            None => Ok(issue.into()),
            Some(_) => Err(HubError::new(format!("#{number} is a pull request"))),
        }
    }

    async fn open_issue(&self, title: &str, body: &str, label: &str) -> Result<Issue, HubError> {
        let body = json!({ "title": title, "body": body, "labels": [label] });
        let url = self.url("/issues");
        let response = self
            .send(Method::POST, &url, Some(&body), Repeat::IfRefused)
            .await?;
        read::<wire::Issue>(&url, response).await.map(Issue::from)
    }

    async fn ensure_label(&self, name: &str, colour: &str, meaning: &str) -> Result<(), HubError> {
        let url = self.url(&format!("/labels/{}", wire::escaped(name)));
        match self.get::<Value>(&url).await {
            Ok(_) => return Ok(()),
            Err(error) if error.status == Some(404) => {}
            Err(error) => return Err(error),
        }
        let body = json!({ "name": name, "color": colour, "description": meaning });
        let url = self.url("/labels");
        let made = self
            .send(Method::POST, &url, Some(&body), Repeat::Always)
            .await;
        match made {
            // Created by someone else, or by our first request whose response was lost.
            Err(error) if error.status == Some(422) => Ok(()),
            made => made.map(drop),
        }
    }

    async fn add_labels(&self, number: u64, labels: &[String]) -> Result<(), HubError> {
        let url = self.url(&format!("/issues/{number}/labels"));
        let body = json!({ "labels": labels });
        self.send(Method::POST, &url, Some(&body), Repeat::Always)
            .await
            .map(drop)
    }

    async fn remove_label(&self, number: u64, label: &str) -> Result<(), HubError> {
        let label = wire::escaped(label);
        let url = self.url(&format!("/issues/{number}/labels/{label}"));
        match self.send(Method::DELETE, &url, None, Repeat::Always).await {
            Err(error) if error.status == Some(404) => Ok(()),
            removed => removed.map(drop),
        }
    }

    async fn comments(&self, number: u64) -> Result<Vec<Comment>, HubError> {
        let path = format!("/issues/{number}/comments");
        let comments = self.list::<wire::Comment>(&path, |_| false).await?;
        Ok(comments.into_iter().map(Comment::from).collect())
    }

    async fn reviews(&self, branch: &str) -> Result<Vec<Comment>, HubError> {
        let Some(pull) = self.pull(branch).await? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for kind in ["reviews", "comments"] {
            let path = format!("/pulls/{}/{kind}", pull.number);
            let some = self.list::<wire::Comment>(&path, |_| false).await?;
            all.extend(some.into_iter().map(Comment::from));
        }
        all.sort_by(|one, other| one.at.cmp(&other.at));
        Ok(all)
    }

    async fn is_sent_back(&self, branch: &str) -> Result<bool, HubError> {
        let Some(pull) = self.pull(branch).await? else {
            return Ok(false);
        };
        let path = format!("/pulls/{}/reviews", pull.number);
        let reviews = self.list::<wire::Comment>(&path, |_| false).await?;
        for user in wire::asking(&reviews, &pull.head.sha) {
            if self.may_push(&user).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn may_push(&self, user: &str) -> Result<bool, HubError> {
        let user = wire::escaped(user);
        let url = self.url(&format!("/collaborators/{user}/permission"));
        match self.get::<wire::Permission>(&url).await {
            Ok(given) => Ok(matches!(given.permission.as_str(), "admin" | "write")),
            Err(error) if matches!(error.status, Some(403 | 404)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn comment(&self, number: u64, body: &str) -> Result<(), HubError> {
        let url = self.url(&format!("/issues/{number}/comments"));
        let body = json!({ "body": body });
        self.send(Method::POST, &url, Some(&body), Repeat::IfRefused)
            .await
            .map(drop)
    }

    async fn close(&self, number: u64) -> Result<(), HubError> {
        let url = self.url(&format!("/issues/{number}"));
        let body = json!({ "state": "closed", "state_reason": "completed" });
        self.send(Method::PATCH, &url, Some(&body), Repeat::Always)
            .await
            .map(drop)
    }

    async fn open_pulls(&self, enough: usize) -> Result<usize, HubError> {
        let is_enough = |found: &[Value]| found.len() >= enough;
        let pulls = self.list::<Value>("/pulls?state=open", is_enough).await?;
        Ok(pulls.len())
    }

    async fn pull_of(&self, branch: &str) -> Result<Option<String>, HubError> {
        Ok(self.pull(branch).await?.map(|pull| pull.html_url))
    }

    async fn open_pull(&self, pull: &NewPull<'_>) -> Result<String, HubError> {
        let url = self.url("/pulls");
        let body = json!({
            "head": pull.branch, "base": pull.base, "title": pull.title, "body": pull.body,
        });
        let response = self
            .send(Method::POST, &url, Some(&body), Repeat::IfRefused)
            .await?;
        let pull: wire::Pull = read(&url, response).await?;
        Ok(pull.html_url)
    }

    async fn default_branch(&self) -> Result<String, HubError> {
        let repository: wire::Repository = self.get(&self.url("")).await?;
        Ok(repository.default_branch)
    }
}
