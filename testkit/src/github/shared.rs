//! What the server keeps, and what is alike in all dialects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use super::body::{Bodies, refusal};
use super::query::parameter;
use super::repository::{Issue, Pull, REPOSITORY};

/// User who may push to the repository.
pub const MAINTAINER: &str = "octo";

/// Whose API the server has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// GitHub's.
    #[default]
    GitHub,
    /// Forgejo's, which is Gitea's.
    Forgejo,
    /// GitLab's.
    GitLab,
}

impl Dialect {
    /// Returns the path of its API.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::GitHub => "",
            Self::Forgejo => "/api/v1",
            Self::GitLab => "/api/v4",
        }
    }
}

pub(super) struct Shared {
    pub(super) state: Mutex<RepositoryState>,
    pub(super) changed: Condvar,
    pub(super) remote: PathBuf,
    pub(super) dialect: Dialect,
    pub(super) bodies: Bodies,
    pub(super) is_stopped: AtomicBool,
}

#[derive(Default)]
pub(super) struct RepositoryState {
    pub(super) issues: BTreeMap<u64, Issue>,
    pub(super) labels: Vec<String>,
    pub(super) pulls: Vec<Pull>,
    /// Reviews of every pull request: user, text and commit.
    pub(super) reviews: Vec<(String, String, String)>,
    /// Rule for all branches, in the words of the dialect.
    pub(super) rule: Option<Value>,
    /// Whether the owner of the token may bypass it.
    pub(super) is_exempt: bool,
    /// User who opens pull requests.
    pub(super) author: String,
    pub(super) faults: Vec<Fault>,
    pub(super) exchanges: Vec<Exchange>,
    /// Upper limit of the page size, whatever a client asks for.
    pub(super) page: usize,
}

/// Error that the server returns on purpose.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Method of the requests that fail.
    pub method: &'static str,
    /// End of their path.
    pub path: &'static str,
    /// Status of the response.
    pub status: u16,
    /// Headers of the response.
    pub headers: Vec<(&'static str, String)>,
    /// Number of requests that fail.
    pub times: usize,
    /// Whether the request is carried out nevertheless.
    pub is_done: bool,
    /// Whether there is no response until the client disconnects.
    pub is_held: bool,
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            method: "GET",
            path: "",
            status: 502,
            headers: Vec::new(),
            times: 1,
            is_done: false,
            is_held: false,
        }
    }
}

/// A request and its response.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// Method, such as `POST`.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query.
    pub query: String,
    /// Body of the request; null if it is not JSON.
    pub sent: Value,
    /// Status of the response.
    pub status: u16,
    /// Body of the response.
    pub answer: Value,
    /// Whether it was a [`Fault`].
    pub is_fault: bool,
}

pub(super) struct Reply {
    pub(super) is_held: bool,
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self {
            is_held: false,
            status,
            headers: Vec::new(),
            body,
        }
    }
}

impl Shared {
    /// Returns the commit of a branch.
    pub(super) fn commit(&self, branch: &str) -> String {
        self.branch(branch).unwrap_or_else(|| "0".repeat(40))
    }

    fn branch(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        let loose = std::fs::read_to_string(self.remote.join(&name)).ok();
        let packed = || {
            let all = std::fs::read_to_string(self.remote.join("packed-refs")).ok()?;
            let mut lines = all.lines().filter_map(|line| line.split_once(' '));
            let (commit, _) = lines.find(|(_, known)| *known == name)?;
            Some(commit.to_owned())
        };
        loose.or_else(packed).map(|text| text.trim().to_owned())
    }

    pub(super) fn open_pull(&self, state: &mut RepositoryState, sent: &Value) -> Reply {
        let text = |key: &str| sent[key].as_str().unwrap_or_default().to_owned();
        let pull = Pull {
            head: text("head"),
            base: text("base"),
            title: text("title"),
            body: text("body"),
        };
        let has = |branch: &str| self.branch(branch).is_some();
        for (field, branch) in [("head", &pull.head), ("base", &pull.base)] {
            if branch.is_empty() || !has(branch) {
                return invalid("PullRequest", field, "invalid");
            }
        }
        if state.pulls.iter().any(|other| other.head == pull.head) {
            let owner = REPOSITORY.split('/').next().unwrap_or_default();
            let message = format!("A pull request already exists for {owner}:{}.", pull.head);
            let mut reply = invalid("PullRequest", "head", "custom");
            reply.body["errors"][0]["message"] = message.into();
            return reply;
        }
        let number = state.pulls.len() as u64 + 1;
        let mut body = self.bodies.pull(number, &pull, true);
        body["user"]["login"] = state.author.as_str().into();
        state.pulls.push(pull);
        Reply::new(201, body)
    }

    /// Returns one page of a list, with a link to the next.
    pub(super) fn page(&self, most: usize, path: &[&str], query: &str, all: Vec<Value>) -> Reply {
        let number = |name| parameter(query, name).and_then(|text| text.parse::<usize>().ok());
        let size = number("per_page").or(number("limit"));
        let size = size.unwrap_or(30).clamp(1, most);
        let page = number("page").unwrap_or(1).max(1);
        let has_more = all.len() > page * size;
        let items: Vec<_> = all.into_iter().skip((page - 1) * size).take(size).collect();
        let mut reply = Reply::new(200, items.into());
        if has_more {
            let others = query.split('&').filter(|pair| !pair.starts_with("page="));
            let query: Vec<_> = others.collect();
            let base = match self.dialect {
                Dialect::GitHub => self.bodies.repository_url(),
                Dialect::Forgejo => self.bodies.at(&format!("/api/v1/repos/{REPOSITORY}")),
                Dialect::GitLab => self.bodies.at("/api/v4/projects/octo%2Fgreet"),
            };
            let path = path.join("/");
            let (query, next) = (query.join("&"), page + 1);
            let link = format!("<{base}/{path}?{query}&page={next}>; rel=\"next\"");
            reply.headers.push(("link", link));
        }
        reply
    }
}

pub(super) fn invalid(resource: &str, field: &str, code: &str) -> Reply {
    let mut body = refusal("Validation Failed");
    body["errors"] = json!([{ "resource": resource, "field": field, "code": code }]);
    Reply::new(422, body)
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
