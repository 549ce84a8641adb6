//! A server on FastMCP: over standard streams, HTTP and SSE, and behind its sign-in.
//!
//! `cargo xtask test` installs it; without it, these tests pass without testing anything. Over HTTP a server is asked for the
//! newest revision first, over the other transports by the handshake of the older ones, so both are spoken.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ah_testkit::script::{says, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::{results, run};
use crate::support::binary::{HANG, World};

fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("AH_TEST_MCP").map(PathBuf::from)?;
    Some(folder.join("python/bin/python"))
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/mcp/fast.py")
}

/// The server, listening on a port.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start(python: &Path, mode: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(python);
        command.arg(program()).arg(mode).arg(port.to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let listening = Self {
            child: child.unwrap(),
            port,
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < HANG, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        listening
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls every tool, reads a resource and calls the prompt.
fn use_all(world: &World, more: &[&str]) {
    let server = Server::new([
        uses("mcp__fast__add", json!({"a": 2, "b": 40})),
        uses_all([
            ("mcp__fast__fail", json!({})),
            ("mcp__fast__count", json!({"to": 3})),
            ("mcp__fast__picture", json!({})),
            ("mcp_read", json!({"server": "fast", "uri": "note://one"})),
        ]),
        says("Done."),
    ]);
    run(world, &server, more.iter().copied());
    let results = results(&server);
    assert_eq!(results[0], ("{\"total\":42}".to_owned(), false));
    assert!(
        results[1].1 && results[1].0.contains("no luck today"),
        "{results:?}"
    );
    assert_eq!(results[2], ("counted to 3".to_owned(), false));
    assert_eq!(results[4].0, "[resource note://one]\nthe note one");
    let last = server.requests().pop().unwrap().body.to_string();
    assert!(
        last.contains("\"media_type\":\"image/png\""),
        "no picture arrived"
    );
    assert!(last.contains("Add before you multiply."), "{last}");

    let server = Server::new([says("Done.")]);
    let called = more.iter().copied().chain(["/fast:plan Rome"]);
    world.asking(&server, called).run().expect(0);
    let told = server.requests().remove(0).body.to_string();
    assert!(told.contains("Plan a trip to Rome."), "{told}");
}

fn config(server: &Value) -> String {
    json!({"mcpServers": {"fast": server}}).to_string()
}

#[test]
fn a_server_on_fastmcp_answers_over_every_transport() {
    let Some(python) = python() else { return };
    let stdio = json!({"command": python, "args": [program(), "stdio"]});
    use_all(&World::new(), &["--mcp-config", &config(&stdio)]);
    for (mode, path) in [("http", "mcp"), ("sse", "sse")] {
        let listening = Listening::start(&python, mode);
        let server = json!({"type": mode, "url": listening.url(path)});
        use_all(&World::new(), &["--mcp-config", &config(&server)]);
    }
}

#[test]
fn a_user_signs_in_to_a_server_on_fastmcp() {
    let Some(python) = python() else { return };
    let listening = Listening::start(&python, "oauth");
    let world = World::new();
    let server = json!({"type": "http", "url": listening.url("mcp")});
    world.write("../home/.ah/settings.json", config(&server));
    // The user agrees at once, and the browser follows where it is sent.
    let visit = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()";
    let script = format!(
        "#!/bin/sh\nexec '{}' -c '{visit}' \"$1\"\n",
        python.display()
    );
    let browser = world.write("../home/browser", script);
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();

    let refused = world.ah(["mcp", "test", "fast"]).run().expect(1);
    assert!(
        refused.stderr.contains("`ah mcp login fast`"),
        "{}",
        refused.stderr
    );
    let login = world.ah(["mcp", "login", "fast"]).env("BROWSER", &browser);
    let signed_in = login.run().expect(0).stdout;
    assert!(signed_in.contains("scopes: read"), "{signed_in}");
    use_all(&world, &[]);
    let ended = world.ah(["mcp", "logout", "fast"]).run().expect(0);
    assert!(!ended.stderr.contains("not ended"), "{}", ended.stderr);
    world.ah(["mcp", "test", "fast"]).run().expect(1);
}
