//! GitHub on the loopback interface, as far as work on issues needs it: one repository whose branches are those of a
//! bare repository on disk. It refuses what GitHub refuses, with the same messages. Its responses have the shape that
//! GitHub publishes, and every exchange is recorded so that a test can check it against the published schema. It can
//! speak as Forgejo and GitLab do, too.

mod body;
mod forgejo;
mod gitlab;
mod query;
mod repository;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ah_provider::script::format::Wire;
use serde_json::{Value, json};

use self::body::{Bodies, refusal};
use self::query::{parameter, unescaped};
pub use self::repository::{Issue, Pull, REPOSITORY};
use crate::server::http::{self, IncomingRequest, OutgoingResponse};
use crate::wait::HANG;

/// Token that it accepts.
pub const TOKEN: &str = "ghp_token_of_a_test_0123456789";

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
    fn path(self) -> &'static str {
        match self {
            Self::GitHub => "",
            Self::Forgejo => "/api/v1",
            Self::GitLab => "/api/v4",
        }
    }
}

/// Server that runs until it is dropped.
pub struct GitHub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<RepositoryState>,
    changed: Condvar,
    remote: PathBuf,
    dialect: Dialect,
    bodies: Bodies,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct RepositoryState {
    issues: BTreeMap<u64, Issue>,
    labels: Vec<String>,
    pulls: Vec<Pull>,
    /// Reviews of every pull request: user, text and commit.
    reviews: Vec<(String, String, String)>,
    /// Rule for all branches, in the words of the dialect.
    rule: Option<Value>,
    /// Whether the owner of the token may bypass it.
    is_exempt: bool,
    /// User who opens pull requests.
    author: String,
    faults: Vec<Fault>,
    exchanges: Vec<Exchange>,
    /// Upper limit of the page size, whatever a client asks for.
    page: usize,
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

struct Reply {
    is_held: bool,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Value,
}

impl Reply {
    fn new(status: u16, body: Value) -> Self {
        Self {
            is_held: false,
            status,
            headers: Vec::new(),
            body,
        }
    }
}

impl GitHub {
    /// Starts a server with no issues, whose branches are those of the bare repository `remote`.
    pub fn new(remote: &Path) -> Self {
        Self::speaking(Dialect::GitHub, remote)
    }

    /// Starts one that speaks as another hub.
    pub fn speaking(dialect: Dialect, remote: &Path) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_or_else(|error| panic!("{error}"));
        let address = listener
            .local_addr()
            .unwrap_or_else(|error| panic!("{error}"));
        let shared = Arc::new(Shared {
            state: Mutex::new(RepositoryState {
                page: 100,
                author: MAINTAINER.to_owned(),
                ..RepositoryState::default()
            }),
            changed: Condvar::new(),
            remote: remote.to_owned(),
            dialect,
            bodies: Bodies::new(format!("http://{address}")),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Returns the base URL, for `GITHUB_API_URL`.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.shared.dialect.path())
    }

    /// Opens an issue; those with higher numbers are younger.
    pub fn open(&self, number: u64, title: &str, body: &str, labels: &[&str]) {
        let issue = Issue {
            title: title.to_owned(),
            body: body.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..Issue::default()
        };
        let mut state = self.shared.state();
        if self.shared.dialect == Dialect::Forgejo {
            // Its issues name labels by their number.
            for label in &issue.labels {
                if !state.labels.contains(label) {
                    state.labels.push(label.clone());
                }
            }
        }
        state.issues.insert(number, issue);
    }

    /// Returns whose API it has.
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// Opens `count` pull requests of unrelated branches.
    pub fn open_pulls(&self, count: usize) {
        let pull = |number| Pull {
            head: format!("other-{number}"),
            base: "main".to_owned(),
            title: "Other".to_owned(),
            body: String::new(),
        };
        self.shared.state().pulls.extend((0..count).map(pull));
    }

    /// Asks for changes of the first pull request, as it is now.
    pub fn review(&self, by: &str, text: &str) {
        let mut state = self.shared.state();
        let commit = state
            .pulls
            .first()
            .map(|pull| self.shared.commit(&pull.head));
        let review = (by.to_owned(), text.to_owned(), commit.unwrap_or_default());
        state.reviews.push(review);
    }

    /// Comments on an issue, as the maintainer.
    pub fn comment(&self, number: u64, text: &str) {
        let mut state = self.shared.state();
        let issue = state.issues.entry(number).or_default();
        issue.comments.push(text.to_owned());
    }

    /// Makes matching requests fail.
    pub fn fails(&self, fault: Fault) {
        self.shared.state().faults.push(fault);
    }

    /// Has this rule for all branches, in the words of the hub.
    pub fn rules(&self, rule: Value, is_exempt: bool) {
        let mut state = self.shared.state();
        state.rule = Some(rule);
        state.is_exempt = is_exempt;
    }

    /// Opens pull requests as another user.
    pub fn is_used_by(&self, user: &str) {
        self.shared.state().author = user.to_owned();
    }

    /// Limits pages of lists to `count` entries.
    pub fn with_pages_of(&self, count: usize) {
        self.shared.state().page = count;
    }

    /// Returns the current state of an issue.
    pub fn issue(&self, number: u64) -> Issue {
        let state = self.shared.state();
        state.issues.get(&number).cloned().unwrap_or_default()
    }

    /// Returns the pull requests.
    pub fn pulls(&self) -> Vec<Pull> {
        self.shared.state().pulls.clone()
    }

    /// Waits for a request with this method and end of its path; panics after a minute.
    pub fn wait_for(&self, method: &str, path: &str) {
        let is_it = |one: &Exchange| one.method == method && one.path.ends_with(path);
        let (state, waited) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.state(), HANG, |state| {
                !state.exchanges.iter().any(is_it)
            })
            .unwrap_or_else(PoisonError::into_inner);
        let asked = &state.exchanges;
        assert!(
            !waited.timed_out(),
            "{method} {path} was not requested: {asked:?}"
        );
    }

    /// Returns all requests so far, with their responses.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.state().exchanges.clone()
    }
}

impl Drop for GitHub {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread; if it cannot be reached, it has ended.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        std::thread::spawn(move || shared.serve(&stream));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, RepositoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Ok(Some(asked)) = http::read(&mut reader) {
            let reply = self.exchange(&asked);
            if reply.is_held {
                // The client sends nothing more, so this returns when it disconnects.
                let _ = http::read(&mut reader);
                return;
            }
            let mut headers = vec![("content-type", "application/json; charset=utf-8".to_owned())];
            headers.extend(reply.headers);
            let wire = Wire::default();
            let mut answer = OutgoingResponse::new(stream, &wire, reply.status, &headers);
            let body = match reply.status {
                204 => String::new(),
                _ => reply.body.to_string(),
            };
            if answer
                .push(body.as_bytes())
                .and_then(|()| answer.finish())
                .is_err()
            {
                return;
            }
        }
    }

    fn exchange(&self, asked: &IncomingRequest) -> Reply {
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let sent: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let mut state = self.state();
        let fault = state.faults.iter_mut().find(|fault| {
            fault.times > 0 && fault.method == asked.method && path.ends_with(fault.path)
        });
        let fault = fault.map(|fault| {
            fault.times -= 1;
            fault.clone()
        });
        let mut reply = match &fault {
            Some(fault) if !fault.is_done => Reply::new(fault.status, Value::Null),
            _ => self.answer(&mut state, asked, path, query, &sent),
        };
        if let Some(fault) = &fault {
            reply = Reply {
                is_held: fault.is_held,
                status: fault.status,
                headers: fault.headers.clone(),
                body: refusal("Something is wrong here"),
            };
        }
        state.exchanges.push(Exchange {
            method: asked.method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            sent,
            status: reply.status,
            answer: reply.body.clone(),
            is_fault: fault.is_some(),
        });
        self.changed.notify_all();
        reply
    }

    fn answer(
        &self,
        state: &mut RepositoryState,
        asked: &IncomingRequest,
        path: &str,
        query: &str,
        sent: &Value,
    ) -> Reply {
        let token = asked.headers.get("authorization").map(String::as_str);
        if token != Some(&format!("Bearer {TOKEN}")) {
            return Reply::new(401, refusal("Bad credentials"));
        }
        if !asked.headers.contains_key("user-agent") {
            return Reply::new(403, refusal("Request forbidden by administrative rules."));
        }
        let parts: Vec<_> = path.split('/').skip(1).map(unescaped).collect();
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let repository: Vec<_> = REPOSITORY.split('/').collect();
        let method = &asked.method;
        match (self.dialect, parts.as_slice()) {
            (Dialect::GitHub, ["repos", owner, name, rest @ ..])
                if [*owner, *name] == *repository =>
            {
                self.in_repository(state, method, rest, query, sent)
            }
            (Dialect::Forgejo, ["api", "v1", "repos", owner, name, rest @ ..])
                if [*owner, *name] == *repository =>
            {
                forgejo::answer(self, state, (method, rest), query, sent)
            }
            (Dialect::GitLab, ["api", "v4", "projects", REPOSITORY, rest @ ..]) => {
                gitlab::answer(self, state, (method, rest), query, sent)
            }
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    fn in_repository(
        &self,
        state: &mut RepositoryState,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let bodies = &self.bodies;
        match (method, path) {
            ("GET", []) => Reply::new(200, bodies.repository()),
            ("GET", ["issues"]) => {
                let label = parameter(query, "labels");
                let issues = state.issues.iter().filter(|(_, issue)| {
                    let has = |label: &String| issue.labels.contains(label);
                    !issue.is_closed && label.as_ref().is_none_or(has)
                });
                let issues = issues.map(|(number, issue)| bodies.issue(*number, issue));
                self.page(state.page, path, query, issues.collect())
            }
            ("POST", ["issues"]) => match sent["title"].as_str() {
                Some(title) if !title.is_empty() => {
                    let number = state.issues.keys().last().unwrap_or(&0) + 1;
                    let issue = Issue {
                        title: title.to_owned(),
                        body: sent["body"].as_str().unwrap_or_default().to_owned(),
                        labels: texts(&sent["labels"]),
                        ..Issue::default()
                    };
                    let body = bodies.issue(number, &issue);
                    state.issues.insert(number, issue);
                    Reply::new(201, body)
                }
                _ => invalid("Issue", "title", "missing_field"),
            },
            ("GET", ["labels", name]) => {
                if state.labels.iter().any(|label| label == name) {
                    Reply::new(200, bodies.label(name))
                } else {
                    Reply::new(404, refusal("Not Found"))
                }
            }
            ("POST", ["labels"]) => {
                let name = sent["name"].as_str().unwrap_or_default().to_owned();
                let color = sent["color"].as_str().unwrap_or("ededed");
                if !color.bytes().all(|byte| byte.is_ascii_hexdigit()) || color.len() != 6 {
                    return invalid("Label", "color", "invalid");
                }
                if name.is_empty() || state.labels.contains(&name) {
                    return invalid("Label", "name", "already_exists");
                }
                let body = bodies.label(&name);
                state.labels.push(name);
                Reply::new(201, body)
            }
            (_, ["issues", number, rest @ ..]) => {
                let number: u64 = number.parse().unwrap_or(0);
                let page = state.page;
                match state.issues.get_mut(&number) {
                    Some(issue) => self.of_issue(issue, number, page, method, rest, query, sent),
                    None => Reply::new(404, refusal("Not Found")),
                }
            }
            ("GET", ["rules", "branches", _]) => {
                let rules = state.rule.clone().map(|mut rule| {
                    rule["ruleset_source_type"] = "Repository".into();
                    rule["ruleset_source"] = REPOSITORY.into();
                    rule["ruleset_id"] = 1.into();
                    rule
                });
                self.page(state.page, path, query, rules.into_iter().collect())
            }
            ("GET", ["rulesets", _]) => {
                let bypass = if state.is_exempt { "always" } else { "never" };
                Reply::new(
                    200,
                    json!({
                        "id": 1, "name": "all branches", "source": REPOSITORY,
                        "enforcement": "active", "current_user_can_bypass": bypass,
                    }),
                )
            }
            (_, ["pulls" | "collaborators", ..]) => self.of_pulls(state, method, path, query, sent),
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    fn of_pulls(
        &self,
        state: &mut RepositoryState,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let bodies = &self.bodies;
        match (method, path) {
            ("GET", ["pulls"]) => {
                let head = parameter(query, "head");
                let owner = REPOSITORY.split('/').next().unwrap_or_default();
                let pulls = (1..).zip(&state.pulls).filter(|(_, pull)| {
                    let own = format!("{owner}:{}", pull.head);
                    head.as_ref().is_none_or(|head| *head == own)
                });
                let author = &state.author;
                let pulls = pulls.map(|(number, pull)| {
                    let mut body = bodies.pull(number, pull, false);
                    body["user"]["login"] = author.as_str().into();
                    body["head"]["sha"] = self.commit(&pull.head).into();
                    body
                });
                self.page(state.page, path, query, pulls.collect())
            }
            ("POST", ["pulls"]) => self.open_pull(state, sent),
            ("GET", ["pulls", _, "reviews"]) => {
                let reviews = (1..).zip(&state.reviews);
                let reviews = reviews.map(|(at, (by, text, commit))| {
                    let mut body = bodies.review(at, by, text);
                    body["commit_id"] = commit.as_str().into();
                    body
                });
                self.page(state.page, path, query, reviews.collect())
            }
            ("GET", ["pulls", _, "comments"]) => self.page(state.page, path, query, Vec::new()),
            ("GET", ["collaborators", user, "permission"]) => {
                let permission = if *user == MAINTAINER { "write" } else { "read" };
                Reply::new(200, bodies.permission(user, permission))
            }
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a request has so many parts")]
    fn of_issue(
        &self,
        issue: &mut Issue,
        number: u64,
        page: usize,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let bodies = &self.bodies;
        match (method, path) {
            ("GET", []) => Reply::new(200, bodies.issue(number, issue)),
            ("PATCH", []) => {
                if let Some(state) = sent["state"].as_str() {
                    issue.is_closed = state == "closed";
                }
                Reply::new(200, bodies.issue(number, issue))
            }
            ("POST", ["labels"]) => {
                for label in texts(&sent["labels"]) {
                    if !issue.labels.contains(&label) {
                        issue.labels.push(label);
                    }
                }
                Reply::new(200, bodies.labels(&issue.labels))
            }
            ("DELETE", ["labels", name]) => {
                let count = issue.labels.len();
                issue.labels.retain(|label| label != name);
                if issue.labels.len() == count {
                    Reply::new(404, refusal("Label does not exist"))
                } else {
                    Reply::new(200, bodies.labels(&issue.labels))
                }
            }
            ("GET", ["comments"]) => {
                let comments = (1..)
                    .zip(&issue.comments)
                    .map(|(at, text)| bodies.comment(number, at, text));
                let path = ["issues", &number.to_string(), "comments"];
                self.page(page, &path, query, comments.collect())
            }
            ("POST", ["comments"]) => match sent["body"].as_str() {
                Some(text) if !text.is_empty() => {
                    issue.comments.push(text.to_owned());
                    let at = issue.comments.len() as u64;
                    Reply::new(201, bodies.comment(number, at, text))
                }
                _ => invalid("IssueComment", "body", "missing_field"),
            },
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    /// Returns the commit of a branch.
    fn commit(&self, branch: &str) -> String {
        let path = self.remote.join("refs/heads").join(branch);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        match text.trim() {
            "" => "0".repeat(40),
            commit => commit.to_owned(),
        }
    }

    fn open_pull(&self, state: &mut RepositoryState, sent: &Value) -> Reply {
        let text = |key: &str| sent[key].as_str().unwrap_or_default().to_owned();
        let pull = Pull {
            head: text("head"),
            base: text("base"),
            title: text("title"),
            body: text("body"),
        };
        let has = |branch: &str| self.remote.join("refs/heads").join(branch).is_file();
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
    fn page(&self, most: usize, path: &[&str], query: &str, all: Vec<Value>) -> Reply {
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

fn invalid(resource: &str, field: &str, code: &str) -> Reply {
    let mut body = refusal("Validation Failed");
    body["errors"] = json!([{ "resource": resource, "field": field, "code": code }]);
    Reply::new(422, body)
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
