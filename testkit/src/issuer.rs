//! A site that is an MCP server, its issuer, or both, and says what a test wants it to say.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path with the query.
    pub path: String,
    headers: Vec<(String, String)>,
    /// Body.
    pub body: String,
}

impl Request {
    /// Returns a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }
}

#[derive(Default)]
struct State {
    seen: Vec<Request>,
    /// What it says instead of the usual.
    said: BTreeMap<String, Value>,
    tokens: u32,
    scope: String,
}

/// The site. Its thread ends with the process.
pub struct Site {
    base: String,
    state: Arc<Mutex<State>>,
}

impl Site {
    /// Starts it on a port of its own.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    #[expect(clippy::unwrap_used, reason = "tests may fail loudly")]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, own) = (state.clone(), base.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, base) = (shared.clone(), own.clone());
                thread::spawn(move || serve(stream, &base, &state));
            }
        });
        Self { base, state }
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Has it say something instead of the usual; null undoes it.
    pub fn set(&self, key: &str, value: Value) {
        self.state.lock().said.insert(key.to_owned(), value);
    }

    /// Returns all requests so far.
    pub fn all(&self) -> Vec<Request> {
        self.state.lock().seen.clone()
    }

    /// Returns the requests of a path.
    pub fn seen(&self, path: &str) -> Vec<Request> {
        let mut seen = self.all();
        seen.retain(|request| request.path == path);
        seen
    }

    /// Returns the last request of a path.
    ///
    /// # Panics
    ///
    /// If there was none.
    #[expect(clippy::unwrap_used, reason = "tests may fail loudly")]
    pub fn last(&self, path: &str) -> Request {
        self.seen(path).pop().unwrap()
    }
}

/// Answers one request.
#[expect(clippy::unwrap_used, reason = "tests may fail loudly")]
fn serve(mut stream: TcpStream, base: &str, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap_or_default();
    let Some(path) = line.split(' ').nth(1).map(str::to_owned) else {
        return;
    };
    let is_post = line.starts_with("POST ");
    let mut headers = Vec::new();
    loop {
        line.clear();
        lines.read_line(&mut line).unwrap_or_default();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut request = Request {
        path,
        headers,
        body: String::new(),
    };
    let length = request
        .header("content-length")
        .map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    let mut state = state.lock();
    state.seen.push(request.clone());
    let (status, more, body) = state.answer(&request, is_post, base);
    drop(state);
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

impl State {
    fn said(&self, key: &str, usual: Value) -> Value {
        let said = self.said.get(key).filter(|value| !value.is_null());
        said.cloned().unwrap_or(usual)
    }

    /// Returns status, further headers and body.
    fn answer(&mut self, request: &Request, is_post: bool, base: &str) -> (u16, String, Value) {
        let path = &*request.path;
        if let Value::String(to) = self.said(&format!("redirect {path}"), Value::Null) {
            return (307, format!("Location: {to}\r\n"), Value::Null);
        }
        let json = |value| (200, String::new(), value);
        // The user agrees at once.
        if let Some(query) = path.strip_prefix("/authorize?") {
            let value = |name: &str| {
                let mut all = query.split('&').filter_map(|part| part.split_once('='));
                all.find(|(key, _)| *key == name)
                    .map_or("", |(_, value)| value)
            };
            let back = value("redirect_uri")
                .replace("%3A", ":")
                .replace("%2F", "/");
            let issuer = base.replace(':', "%3A").replace('/', "%2F");
            let to = format!("{back}?code=the-code&state={}&iss={issuer}", value("state"));
            return (302, format!("Location: {to}\r\n"), Value::Null);
        }
        match path {
            "/.well-known/oauth-protected-resource/mcp" => json(json!({
                "resource": self.said("resource", json!(format!("{base}/mcp"))),
                "authorization_servers": [self.said("issuer", json!(base))],
                "scopes_supported": ["read", "write"],
            })),
            "/.well-known/oauth-authorization-server" => json(json!({
                "issuer": self.said("named", json!(base)),
                "authorization_endpoint": self.said("authorize", json!(format!("{base}/authorize"))),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "revocation_endpoint": self.said("revocation", json!(format!("{base}/revoke"))),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": self.said("challenges", json!(["S256"])),
                "authorization_response_iss_parameter_supported": true,
                "client_id_metadata_document_supported": true,
            })),
            "/register" => {
                let asked: Value = serde_json::from_str(&request.body).unwrap_or_default();
                let redirects = &asked["redirect_uris"];
                json(json!({"client_id": "registered", "redirect_uris": redirects}))
            }
            "/token" => json(self.token(request)),
            "/revoke" => json(Value::Null),
            "/mcp" if is_post => self.server(request, base),
            "/mcp" => (405, String::new(), Value::Null),
            _ => (404, String::new(), Value::Null),
        }
    }

    fn token(&mut self, request: &Request) -> Value {
        self.tokens += 1;
        let count = self.tokens;
        let authorized = self.said("scopes", json!(null));
        if request.body.contains("grant_type=authorization_code") {
            // The browser's part of a sign-in is left out, so the scopes are those of the latest refusal.
            self.scope = match authorized {
                Value::String(scope) => scope,
                _ if self.scope.is_empty() => "read".to_owned(),
                _ => "read write".to_owned(),
            };
        }
        json!({
            "access_token": format!("token-{count}"), "token_type": "Bearer", "scope": self.scope,
            "expires_in": self.said("lasts", json!(3600)), "refresh_token": format!("refresh-{count}"),
        })
    }

    fn server(&self, request: &Request, base: &str) -> (u16, String, Value) {
        let latest = format!("Bearer token-{}", self.tokens);
        let metadata =
            format!("resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
        if request.header("authorization") != Some(&*latest) {
            let refusal = format!("WWW-Authenticate: Bearer {metadata}, scope=\"read\"\r\n");
            return (401, refusal, Value::Null);
        }
        let call: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let result = match (call["method"].as_str(), call["params"]["name"].as_str()) {
            (Some("initialize"), _) => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1.0"},
            }),
            (Some("tools/list"), _) => json!({"tools": [tool("look"), tool("change")]}),
            (_, Some("look")) => text("seen"),
            (_, Some("change")) if self.scope.contains("write") => text("changed"),
            (_, Some("change")) => {
                let error = "error=\"insufficient_scope\", scope=\"write\"";
                let refusal = format!("WWW-Authenticate: Bearer {error}, {metadata}\r\n");
                return (403, refusal, Value::Null);
            }
            _ => return (202, String::new(), Value::Null),
        };
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": result});
        (200, String::new(), answer)
    }
}
