//! Calls of tools that act outside the sandbox: none runs unasked unless a rule allows it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::{greet, greeter, results};
use crate::sandbox::is_missing;
use crate::support::binary::World;

/// Starts a server over HTTP with a tool `greet`, a tool `look` that claims to be read-only, and a resource; returns its
/// URL.
fn http_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that a client gives up is no concern of the server.
            thread::spawn(move || respond(stream).ok());
        }
    });
    url
}

/// Answers one request.
fn respond(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => Some(json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "remote", "version": "1"},
        })),
        "tools/list" => Some(json!({"tools": [
            {"name": "greet", "inputSchema": {"type": "object"}},
            {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        ]})),
        "tools/call" => Some(json!({"content": [{"type": "text", "text": "hello"}]})),
        "resources/read" => Some(json!({"contents": [{"uri": "x:y", "text": "hello"}]})),
        _ => None,
    };
    let answer = match result {
        Some(result) => {
            let text = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            )
        }
        None if first.starts_with("POST") => {
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
        }
        None => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_owned(),
    };
    stream.write_all(answer.as_bytes())
}

/// Calls of tools of the server `s`.
fn calls() -> [(&'static str, Turn); 3] {
    let read = uses("mcp_read", json!({"server": "s", "uri": "x:y"}));
    [
        ("mcp__s__greet", greet()),
        ("mcp__s__look", uses("mcp__s__look", json!({}))),
        ("mcp_read", read),
    ]
}

#[test]
fn calls_outside_the_sandbox_need_a_rule_in_every_manner() {
    if is_missing() {
        return;
    }
    let remote = json!({"type": "http", "url": http_server()});
    let look = json!({"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let program = greeter()
        .initialize(&json!({"capabilities": {"tools": {}, "resources": {}}}))
        .definition(look)
        .on_call("look", "text hello")
        .config();
    let free = json!({"sandbox": {"unconfinedServers": ["s"]}}).to_string();
    let bypass = ["--permission-mode", "bypassPermissions"];
    for (place, config, settings, is_outside) in [
        ("http", &remote, "{}", true),
        ("unconfined", &program, free.as_str(), true),
        ("confined", &program, "{}", false),
    ] {
        for (tool, call) in calls() {
            // The script has no resource; that its call gets so far is enough.
            if tool == "mcp_read" && place != "http" {
                continue;
            }
            for (mode, runs) in [
                (&[][..], !is_outside),
                (&["--permission-mode", "default"], false),
                (&["--permission-mode", "acceptEdits"], false),
                (&["--permission-mode", "dontAsk"], false),
                (&["--allowed-tools", tool], true),
                (&bypass, true),
            ] {
                let world = World::new();
                let model =
                    Server::new([uses("mcp_servers", json!({})), call.clone(), says("Done.")]);
                let servers = json!({"mcpServers": {"s": config}}).to_string();
                let common = [
                    "--sandbox",
                    "--mcp-config",
                    &servers,
                    "--settings",
                    settings,
                ];
                let last = ["-n", "-m", "sonnet", "--", "go"];
                let arguments = [&common[..], mode, &last].concat();
                world.asking_as_typed(&model, arguments).run().expect(0);
                let (text, is_error) = results(&model).pop().unwrap();
                assert_eq!(!is_error, runs, "{place} {tool} {mode:?}: {text}");
                assert!(!runs || text.contains("hello"), "{place} {tool}: {text}");
            }
        }
    }
}
