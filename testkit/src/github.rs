//! GitHub on the loopback interface, as far as work on issues needs it: one repository whose branches are those of a
//! bare one on disk. It refuses what the real one refuses, in its words; what it says has the shape that GitHub
//! publishes, and every exchange is kept so that a test can hold it against that.

mod answers;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_provider::script::format::Wire;
use serde_json::{Value, json};

use crate::server::http::{self, Answer, Asked};
use answers::{Answers, refusal};

/// The token that it takes.
pub const TOKEN: &str = "ghp_token_of_a_test_0123456789";
/// The repository that it has.
pub const REPOSITORY: &str = "octo/greet";

/// How long is waited before a test counts as hung.
const HUNG: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
pub struct GitHub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    remote: PathBuf,
    answers: Answers,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    issues: BTreeMap<u64, Issue>,
    labels: Vec<String>,
    pulls: Vec<Pull>,
    faults: Vec<Fault>,
    exchanges: Vec<Exchange>,
    /// Lists are cut into pages of so many, whatever a client wishes.
    page: usize,
}

/// An issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issue {
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// What was said below it.
    pub comments: Vec<String>,
    /// Whether it was closed.
    pub is_closed: bool,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// The branch with the commits.
    pub head: String,
    /// The branch that they are for.
    pub base: String,
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
}

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub struct Fault {
    /// `POST` …
    pub method: &'static str,
    /// What the path ends with.
    pub path: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// How often.
    pub times: usize,
    /// Whether what was asked for is done all the same.
    pub is_done: bool,
    /// Whether there is no answer at all, until the client goes.
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

/// A request and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// `POST` …
    pub method: String,
    /// The path, without its query.
    pub path: String,
    /// The query.
    pub query: String,
    /// What was sent; null where it is not JSON.
    pub sent: Value,
    /// The status of the answer.
    pub status: u16,
    /// The answer.
    pub answer: Value,
    /// Whether a [`Fault`] answered.
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
    /// A repository without issues, whose branches are those of the bare repository `remote`.
    pub fn new(remote: &Path) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.unwrap_or_else(|error| panic!("{error}"));
        let address = listener
            .local_addr()
            .unwrap_or_else(|error| panic!("{error}"));
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                page: 100,
                ..State::default()
            }),
            changed: Condvar::new(),
            remote: remote.to_owned(),
            answers: Answers::new(format!("http://{address}")),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Where it listens, as `GITHUB_API_URL` wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Opens an issue; those with higher numbers are younger.
    pub fn open(&self, number: u64, title: &str, body: &str, labels: &[&str]) {
        let issue = Issue {
            title: title.to_owned(),
            body: body.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..Issue::default()
        };
        self.shared.state().issues.insert(number, issue);
    }

    /// Opens so many pull requests of branches that are of no further interest.
    pub fn open_pulls(&self, count: usize) {
        let pull = |number| Pull {
            head: format!("other-{number}"),
            base: "main".to_owned(),
            title: "Other".to_owned(),
            body: String::new(),
        };
        self.shared.state().pulls.extend((0..count).map(pull));
    }

    /// Lets something go wrong.
    pub fn fails(&self, fault: Fault) {
        self.shared.state().faults.push(fault);
    }

    /// Cuts lists into pages of so many.
    pub fn with_pages_of(&self, count: usize) {
        self.shared.state().page = count;
    }

    /// An issue as it is now.
    pub fn issue(&self, number: u64) -> Issue {
        let state = self.shared.state();
        state.issues.get(&number).cloned().unwrap_or_default()
    }

    /// The pull requests.
    pub fn pulls(&self) -> Vec<Pull> {
        self.shared.state().pulls.clone()
    }

    /// Waits until a request of this method was asked whose path ends so.
    pub fn wait_for(&self, method: &str, path: &str) {
        let is_it = |one: &Exchange| one.method == method && one.path.ends_with(path);
        let (state, waited) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.state(), HUNG, |state| {
                !state.exchanges.iter().any(is_it)
            })
            .unwrap_or_else(PoisonError::into_inner);
        let asked = &state.exchanges;
        assert!(
            !waited.timed_out(),
            "{method} {path} was not asked: {asked:?}"
        );
    }

    /// All requests so far, with their answers.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.state().exchanges.clone()
    }
}

impl Drop for GitHub {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; if it cannot be reached, it is gone.
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Ok(Some(asked)) = http::read(&mut reader) {
            let reply = self.exchange(&asked);
            if reply.is_held {
                // The client sends nothing more, so this ends when it goes.
                let _ = http::read(&mut reader);
                return;
            }
            let mut headers = vec![("content-type", "application/json; charset=utf-8".to_owned())];
            headers.extend(reply.headers);
            let wire = Wire::default();
            let mut answer = Answer::new(stream, &wire, reply.status, &headers);
            let body = reply.body.to_string();
            if answer
                .push(body.as_bytes())
                .and_then(|()| answer.finish())
                .is_err()
            {
                return;
            }
        }
    }

    fn exchange(&self, asked: &Asked) -> Reply {
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
        state: &mut State,
        asked: &Asked,
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
        match parts.as_slice() {
            ["repos", owner, name, rest @ ..] if [*owner, *name] == *repository => {
                self.in_repository(state, &asked.method, rest, query, sent)
            }
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    fn in_repository(
        &self,
        state: &mut State,
        method: &str,
        path: &[&str],
        query: &str,
        sent: &Value,
    ) -> Reply {
        let say = &self.answers;
        match (method, path) {
            ("GET", []) => Reply::new(200, say.repository()),
            ("GET", ["issues"]) => {
                let label = parameter(query, "labels");
                let issues = state.issues.iter().filter(|(_, issue)| {
                    let has = |label: &String| issue.labels.contains(label);
                    !issue.is_closed && label.as_ref().is_none_or(has)
                });
                let issues = issues.map(|(number, issue)| say.issue(*number, issue));
                let issues = issues.collect();
                self.page(state.page, path, query, issues)
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
                    let body = say.issue(number, &issue);
                    state.issues.insert(number, issue);
                    Reply::new(201, body)
                }
                _ => invalid("Issue", "title", "missing_field"),
            },
            ("GET", ["labels", name]) => match state.labels.iter().any(|label| label == name) {
                true => Reply::new(200, say.label(name)),
                false => Reply::new(404, refusal("Not Found")),
            },
            ("POST", ["labels"]) => {
                let name = sent["name"].as_str().unwrap_or_default().to_owned();
                let color = sent["color"].as_str().unwrap_or("ededed");
                if !color.bytes().all(|byte| byte.is_ascii_hexdigit()) || color.len() != 6 {
                    return invalid("Label", "color", "invalid");
                }
                if name.is_empty() || state.labels.contains(&name) {
                    return invalid("Label", "name", "already_exists");
                }
                let body = say.label(&name);
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
            ("GET", ["pulls"]) => {
                let head = parameter(query, "head");
                let owner = REPOSITORY.split('/').next().unwrap_or_default();
                let pulls = (1..).zip(&state.pulls).filter(|(_, pull)| {
                    let own = format!("{owner}:{}", pull.head);
                    head.as_ref().is_none_or(|head| *head == own)
                });
                let pulls = pulls.map(|(number, pull)| say.pull(number, pull, false));
                let pulls = pulls.collect();
                self.page(state.page, path, query, pulls)
            }
            ("POST", ["pulls"]) => self.open_pull(state, sent),
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
        let say = &self.answers;
        match (method, path) {
            ("GET", []) => Reply::new(200, say.issue(number, issue)),
            ("PATCH", []) => {
                if let Some(state) = sent["state"].as_str() {
                    issue.is_closed = state == "closed";
                }
                Reply::new(200, say.issue(number, issue))
            }
            ("POST", ["labels"]) => {
                for label in texts(&sent["labels"]) {
                    if !issue.labels.contains(&label) {
                        issue.labels.push(label);
                    }
                }
                Reply::new(200, say.labels(&issue.labels))
            }
            ("DELETE", ["labels", name]) => {
                let count = issue.labels.len();
                issue.labels.retain(|label| label != name);
                match issue.labels.len() == count {
                    true => Reply::new(404, refusal("Label does not exist")),
                    false => Reply::new(200, say.labels(&issue.labels)),
                }
            }
            ("GET", ["comments"]) => {
                let comments = (1..).zip(&issue.comments);
                let comments = comments.map(|(at, text)| say.comment(number, at, text));
                let path = ["issues", &number.to_string(), "comments"];
                self.page(page, &path, query, comments.collect())
            }
            ("POST", ["comments"]) => match sent["body"].as_str() {
                Some(text) if !text.is_empty() => {
                    issue.comments.push(text.to_owned());
                    let at = issue.comments.len() as u64;
                    Reply::new(201, say.comment(number, at, text))
                }
                _ => invalid("IssueComment", "body", "missing_field"),
            },
            _ => Reply::new(404, refusal("Not Found")),
        }
    }

    fn open_pull(&self, state: &mut State, sent: &Value) -> Reply {
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
        let body = self.answers.pull(number, &pull, true);
        state.pulls.push(pull);
        Reply::new(201, body)
    }

    /// One page of a list, with links to the others.
    fn page(&self, most: usize, path: &[&str], query: &str, all: Vec<Value>) -> Reply {
        let number = |name| parameter(query, name).and_then(|text| text.parse::<usize>().ok());
        let size = number("per_page").unwrap_or(30).clamp(1, most);
        let page = number("page").unwrap_or(1).max(1);
        let has_more = all.len() > page * size;
        let items: Vec<_> = all.into_iter().skip((page - 1) * size).take(size).collect();
        let mut reply = Reply::new(200, items.into());
        if has_more {
            let others = query.split('&').filter(|pair| !pair.starts_with("page="));
            let query: Vec<_> = others.collect();
            let (base, path) = (self.answers.repository_url(), path.join("/"));
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

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(known, _)| *known == name)?;
    Some(unescaped(value))
}

/// A part of an address as it is meant.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
