//! The reference MCP servers, over stdio and HTTP: the result of each of their tools in a real run.
//!
//! `cargo xtask test` installs them and passes their paths; without them, these tests pass without testing anything.

use std::env;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ah_testkit::script::{says, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::{results, run};
use crate::support::binary::{HANG, World};

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
const FILES: &str = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

fn installed() -> Option<PathBuf> {
    env::var_os("AH_TEST_MCP").map(PathBuf::from)
}

/// Calls of every tool of `server-everything`, and how each result begins; `!` marks an error.
fn everything() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("echo", json!({"message": "hello"}), "Echo: hello"),
        (
            "get-annotated-message",
            json!({"messageType": "error"}),
            "Error: Operation failed",
        ),
        ("get-env", json!({}), "{"),
        (
            "get-resource-links",
            json!({"count": 2}),
            "Here are 2 resource links",
        ),
        (
            "get-resource-reference",
            json!({"resourceType": "Text", "resourceId": 1}),
            "Returning resource reference",
        ),
        (
            "get-structured-content",
            json!({"location": "Chicago"}),
            "{\"temperature\":36",
        ),
        (
            "get-sum",
            json!({"a": 2, "b": 40}),
            "The sum of 2 and 40 is 42.",
        ),
        ("get-sum", json!({"a": "two", "b": 40}), "!validation error"),
        (
            "get-tiny-image",
            json!({}),
            "Here's the image you requested:",
        ),
        (
            "gzip-file-as-resource",
            json!({"data": "data:text/plain,hello", "outputType": "resource"}),
            "[application/gzip, about",
        ),
        ("toggle-simulated-logging", json!({}), "Started simulated"),
        ("toggle-subscriber-updates", json!({}), "Started simulated"),
        (
            "trigger-long-running-operation",
            json!({"duration": 1, "steps": 4}),
            "Long running operation completed.",
        ),
        ("get-roots-list", json!({}), "Current MCP Roots"),
        ("simulate-research-query", json!({"topic": "ants"}), "!"),
    ]
}

/// Calls every tool of the server configured by `config`, and reads one of its resources.
fn call_everything(config: &Value) {
    let world = World::new();
    let config = json!({"mcpServers": {"e": config}}).to_string();
    let calls = everything();
    let names: Vec<_> = calls
        .iter()
        .map(|(name, ..)| format!("mcp__e__{name}"))
        .collect();
    let inputs = calls.iter().map(|(_, input, _)| input.clone());
    let resource = json!({"server": "e", "uri": "demo://resource/dynamic/text/1"});
    let server = Server::new([
        uses("mcp_servers", json!({})),
        uses_all(names.iter().map(String::as_str).zip(inputs)),
        uses_all([("mcp_resources", json!({})), ("mcp_read", resource)]),
        says("Done."),
    ]);
    let ended = run(&world, &server, ["--mcp-config", &config]);
    assert_eq!(ended.stdout, "Done.\n");
    let results = results(&server);
    for ((name, _, expected), (text, is_error)) in calls.iter().zip(&results[1..]) {
        let start = expected.strip_prefix('!');
        assert_eq!(*is_error, start.is_some(), "{name}: {text}");
        assert!(
            text.starts_with(start.unwrap_or(expected)),
            "{name}: {text}"
        );
        assert!(!text.contains("key-of-a-test"), "a secret reached {name}");
    }
    let last = server.requests().pop().unwrap().body.to_string();
    assert!(
        last.contains("\"media_type\":\"image/png\""),
        "no picture arrived"
    );
    let [listed, read] = &results[calls.len() + 1..] else {
        panic!("{results:?}")
    };
    assert!(listed.0.contains("demo://resource/"), "{listed:?}");
    assert!(
        read.0
            .starts_with("[resource demo://resource/dynamic/text/1]\nResource 1"),
        "{read:?}"
    );
}

#[test]
fn every_tool_of_server_everything_answers() {
    let Some(folder) = installed() else { return };
    call_everything(&json!({"command": "node", "args": [folder.join(EVERYTHING), "stdio"]}));
}

/// Both HTTP transports: streamable HTTP and SSE.
#[test]
fn every_tool_answers_over_http() {
    let Some(folder) = installed() else { return };
    for (kind, mode, path) in [("http", "streamableHttp", "mcp"), ("sse", "sse", "sse")] {
        let listening = Listening::start(&folder, mode);
        let url = format!("http://127.0.0.1:{}/{path}", listening.port);
        call_everything(&json!({"type": kind, "url": url}));
    }
}

#[test]
fn the_server_of_files_writes_and_reads() {
    let Some(folder) = installed() else { return };
    let world = World::new();
    let server = json!({"command": "node", "args": [folder.join(FILES), "."]});
    let config = json!({"mcpServers": {"files": server}}).to_string();
    let path = world.file("note.txt");
    let server = Server::new([
        uses(
            "mcp__files__write_file",
            json!({"path": path, "content": "remember"}),
        ),
        uses("mcp__files__read_text_file", json!({"path": path})),
        uses("mcp__files__read_text_file", json!({"path": "/etc/passwd"})),
        says("Done."),
    ]);
    run(&world, &server, ["--mcp-config", &config]);
    let results = results(&server);
    assert_eq!(world.text("note.txt"), "remember");
    assert_eq!(results[1], ("remember".to_owned(), false));
    assert!(
        results[2].1 && results[2].0.contains("Access denied"),
        "{results:?}"
    );
}

#[test]
fn a_server_on_the_python_sdk_answers() {
    let Some(folder) = installed() else { return };
    let world = World::new();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/mcp/server.py");
    let server = json!({"command": folder.join("python/bin/python"), "args": [program]});
    let config = json!({"mcpServers": {"py": server}}).to_string();
    let server = Server::new([
        uses("mcp__py__add", json!({"a": 2, "b": 40})),
        uses("mcp__py__fail", json!({})),
        uses("mcp__py__count", json!({"to": 3})),
        uses("mcp_read", json!({"server": "py", "uri": "note://one"})),
        says("Done."),
    ]);
    run(&world, &server, ["--mcp-config", &config]);
    let results = results(&server);
    assert_eq!(results[0], ("42".to_owned(), false));
    assert!(
        results[1].1 && results[1].0.contains("Error executing tool fail"),
        "{results:?}"
    );
    assert_eq!(results[2], ("counted to 3".to_owned(), false));
    assert_eq!(
        results[3],
        ("[resource note://one]\nthe note one".to_owned(), false)
    );
    let told = server.requests().pop().unwrap().body["tools"].to_string();
    assert!(told.contains("Add before you multiply."), "{told}");
}

/// `server-everything` listening on a port.
struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    fn start(folder: &Path, mode: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new("node")
            .arg(folder.join(EVERYTHING))
            .arg(mode)
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let listening = Self { child, port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < HANG, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        listening
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
