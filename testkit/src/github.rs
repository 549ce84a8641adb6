//! GitHub on the loopback interface, as far as work on issues needs it: one repository whose branches are those of a
//! bare repository on disk. It refuses what GitHub refuses, with the same messages. Its responses have the shape that
//! GitHub publishes, and every exchange is recorded so that a test can check it against the published schema. It can
//! speak as Forgejo and GitLab do, too.

mod body;
mod forgejo;
mod gitlab;
mod query;
mod repository;
mod shared;
mod words;

use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_provider::script::format::Wire;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use self::body::{Bodies, refusal};
use self::query::unescaped;
pub use self::repository::{Issue, Pull, REPOSITORY};
pub use self::shared::{Dialect, Exchange, Fault, MAINTAINER};
use self::shared::{Reply, RepositoryState, Shared};
use crate::server::http::{self, IncomingRequest, OutgoingResponse};
use crate::wait::HANG;

/// Token that it accepts.
pub const TOKEN: &str = "ghp_token_of_a_test_0123456789";

/// Server that runs until it is dropped.
pub struct GitHub {
    address: SocketAddr,
    shared: Arc<Shared>,
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
        let mut state = self.shared.state.lock();
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
        self.shared.state.lock().pulls.extend((0..count).map(pull));
    }

    /// Asks for changes of the first pull request, as it is now.
    pub fn review(&self, by: &str, text: &str) {
        let mut state = self.shared.state.lock();
        let commit = state
            .pulls
            .first()
            .map(|pull| self.shared.commit(&pull.head));
        let review = (by.to_owned(), text.to_owned(), commit.unwrap_or_default());
        state.reviews.push(review);
    }

    /// Comments on an issue, as the maintainer.
    pub fn comment(&self, number: u64, text: &str) {
        let mut state = self.shared.state.lock();
        let issue = state.issues.entry(number).or_default();
        issue.comments.push(text.to_owned());
    }

    /// Makes matching requests fail.
    pub fn fails(&self, fault: Fault) {
        self.shared.state.lock().faults.push(fault);
    }

    /// Has this rule for all branches, in the words of the hub.
    pub fn rules(&self, rule: Value, is_exempt: bool) {
        let mut state = self.shared.state.lock();
        state.rule = Some(rule);
        state.is_exempt = is_exempt;
    }

    /// Opens pull requests as another user.
    pub fn is_used_by(&self, user: &str) {
        self.shared.state.lock().author = user.to_owned();
    }

    /// Limits pages of lists to `count` entries.
    pub fn with_pages_of(&self, count: usize) {
        self.shared.state.lock().page = count;
    }

    /// Returns the current state of an issue.
    pub fn issue(&self, number: u64) -> Issue {
        let state = self.shared.state.lock();
        state.issues.get(&number).cloned().unwrap_or_default()
    }

    /// Returns the pull requests.
    pub fn pulls(&self) -> Vec<Pull> {
        self.shared.state.lock().pulls.clone()
    }

    /// Waits for a request with this method and end of its path; panics after a minute.
    pub fn wait_for(&self, method: &str, path: &str) {
        let is_it = |one: &Exchange| one.method == method && one.path.ends_with(path);
        let is_awaited = |state: &mut RepositoryState| !state.exchanges.iter().any(is_it);
        let mut state = self.shared.state.lock();
        let waited = { &self.shared.changed }.wait_while_for(&mut state, is_awaited, HANG);
        let asked = &state.exchanges;
        assert!(
            !waited.timed_out(),
            "{method} {path} was not requested: {asked:?}"
        );
    }

    /// Returns all requests so far, with their responses.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.shared.state.lock().exchanges.clone()
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
        let mut state = self.state.lock();
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
}
