//! Servers with a URL: the headers sent to them, and refused requests.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use ah_conversation::ServerState;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn headers_are_sent_with_variables_expanded_and_a_refusal_means_needs_auth() {
    for (kind, start) in [("http", "POST /mcp"), ("sse", "GET /mcp")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let request = thread::spawn(move || refuse(&listener));
        let headers = json!({"x-team": "blue", "Authorization": "Bearer ${MY_TOKEN}"});
        let server = json!({"type": kind, "url": url, "headers": headers});
        let world = World::with(&json!({"s": server}), |_| {});
        world.servers.settled().await;
        let status = world.status();
        assert_eq!(status.state, ServerState::NeedsAuth, "{status:?}");
        let request = request.join().unwrap();
        assert!(request.starts_with(start), "{request}");
        for header in ["x-team: blue\r\n", "authorization: Bearer secret\r\n"] {
            assert!(request.contains(header), "{request}");
        }
    }
}

/// Refuses one request and returns its head.
fn refuse(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        lines.read_line(&mut head).unwrap();
    }
    let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer.as_bytes()).unwrap();
    head
}
