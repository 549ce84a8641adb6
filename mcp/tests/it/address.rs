//! Servers at an address: what is sent to them, and what a refusal means.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use ah_conversation::ServerState;
use serde_json::json;

use crate::world::World;

/// Feature table N2, port 10 b and g: headers are sent, with variables replaced, and a refusal is no failure like others.
#[tokio::test]
async fn headers_are_sent_and_a_refusal_is_told_as_such() {
    for (kind, start) in [("http", "POST /mcp"), ("sse", "GET /mcp")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heard = thread::spawn(move || refuse(&listener));
        let headers = json!({"x-team": "blue", "Authorization": "Bearer ${MY_TOKEN}"});
        let server = json!({"type": kind, "url": url, "headers": headers});
        let world = World::with(&json!({"s": server}), |_| {});
        world.servers.settled().await;
        let status = world.status();
        assert_eq!(status.state, ServerState::NeedsAuth, "{status:?}");
        let heard = heard.join().unwrap();
        assert!(heard.starts_with(start), "{heard}");
        for header in ["x-team: blue\r\n", "authorization: Bearer secret\r\n"] {
            assert!(heard.contains(header), "{heard}");
        }
    }
}

/// Answers one request with a refusal; gives what came before its body.
fn refuse(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut heard = String::new();
    while !heard.ends_with("\r\n\r\n") {
        lines.read_line(&mut heard).unwrap();
    }
    let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer.as_bytes()).unwrap();
    heard
}
