//! The loopback server over its socket, with a client that returns the raw bytes.

use std::io::{Read, Write};
use std::net::TcpStream;

use ah_provider::script::failure::Failure;
use ah_provider::script::format::{Scenario, Turn, Wire};
use ah_testkit::script::{fails, hangs, says, thinks, uses};
use ah_testkit::server::{Outcome, Pick, Server};
use serde_json::{Value, json};

fn body(answers: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "hello"})];
    for _ in 0..answers {
        messages.push(json!({"role": "assistant", "content": "so"}));
        messages.push(json!({"role": "user", "content": "and?"}));
    }
    json!({"model": "claude", "max_tokens": 100, "stream": true, "messages": messages})
}

fn send(server: &Server, body: &str) -> TcpStream {
    send_to(server, "/v1/messages", body)
}

fn send_to(server: &Server, path: &str, body: &str) -> TcpStream {
    let address = server.url();
    let address = address.strip_prefix("http://").expect("http");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nAuthorization: Bearer k\r\nanthropic-version: 2023-06-01\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .expect("sent");
    stream
}

/// Returns the whole response to `body`, up to the end of its chunks or of the connection.
fn ask(server: &Server, body: &Value) -> String {
    response(send(server, &body.to_string()))
}

/// Returns the body of the response to `body` at `path`.
pub fn body_at(server: &Server, path: &str, body: &Value) -> String {
    unchunked(&response(send_to(server, path, &body.to_string())))
}

fn response(mut stream: TcpStream) -> String {
    let mut response = String::new();
    let mut piece = [0; 4096];
    while !response.ends_with("\r\n0\r\n\r\n") {
        match stream.read(&mut piece).expect("readable") {
            0 => break,
            count => response.push_str(std::str::from_utf8(&piece[..count]).expect("text")),
        }
    }
    response
}

/// Returns the body of `response` without the chunk framing.
fn unchunked(response: &str) -> String {
    let (_, mut rest) = response.split_once("\r\n\r\n").unwrap_or_default();
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    body
}

fn status(response: &str) -> &str {
    response.lines().next().unwrap_or_default()
}

#[test]
fn an_answer_has_the_vendors_shape() {
    let turn = Turn {
        tool: Some(uses("bash", json!({"command": "ls"})).tools.remove(0)),
        ..thinks("Hm.", "Look.")
    };
    let server = Server::new([turn]);
    let response = ask(&server, &body(0));
    assert_eq!(status(&response), "HTTP/1.1 200 OK");
    let id = format!("{}x0", server.url().rsplit(':').next().expect("a port"));
    insta::assert_snapshot!(unchunked(&response).replace(&id, "N"), @r#"
    event: message_start
    data: {"type":"message_start","message":{"model":"claude","id":"msg_N","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}}

    event: content_block_start
    data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

    event: ping
    data: {"type":"ping"}

    event: content_block_delta
    data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2NyaXB0ZWQ="}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":0}

    event: content_block_start
    data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Look."}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":1}

    event: content_block_start
    data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_N_2","name":"bash","input":{}}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls\"}"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":2}

    event: message_delta
    data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":0,"service_tier":"standard"}}

    event: message_stop
    data: {"type":"message_stop"}
    "#);
}

#[test]
fn failures_have_the_vendors_shape() {
    let late = Failure {
        kind: Some("overloaded_error".to_owned()),
        message: Some("Overloaded".to_owned()),
        ..Failure::default()
    };
    let limited = Turn {
        error: Some(Failure {
            status: Some(429),
            retry_after: Some(7.0),
            ..late.clone()
        }),
        ..Turn::default()
    };
    let server = Server::new([
        limited,
        fails(529, "overloaded_error"),
        Turn {
            stream_error: Some(late),
            ..says("Well")
        },
        Turn {
            error: Some(Failure::default()),
            ..Turn::default()
        },
    ]);
    let response = ask(&server, &body(0));
    assert_eq!(status(&response), "HTTP/1.1 429 Too Many Requests");
    assert!(response.contains("\r\nretry-after: 7\r\n"), "{response}");
    assert!(
        unchunked(&response)
            .contains(r#""error":{"type":"overloaded_error","message":"Overloaded"}"#)
    );
    assert_eq!(status(&ask(&server, &body(0))), "HTTP/1.1 529 Overloaded");
    let response = ask(&server, &body(0));
    assert!(unchunked(&response).ends_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"));
    assert_eq!(ask(&server, &body(0)), "", "no status: the connection ends");
    assert!(ask(&server, &body(0)).contains("the scenario ends with turn 4"));
}

#[test]
fn invalid_requests_are_refused_and_use_up_no_turn() {
    let server = Server::new([says("Hi.")]);
    let mut invalid = body(1);
    invalid["messages"][0]["role"] = json!("assistant");
    let response = ask(&server, &invalid);
    assert_eq!(status(&response), "HTTP/1.1 400 Bad Request");
    assert!(response.contains("invalid_request_error"), "{response}");
    let mut stream = send(&server, "{");
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 400");
    assert!(unchunked(&ask(&server, &body(0))).contains("Hi."));
    let refusals = server.refusals();
    assert_eq!(
        refusals[0],
        "messages: first message must use the \"user\" role"
    );
    assert!(
        refusals[1].starts_with("The request body is not valid JSON"),
        "{refusals:?}"
    );
}

#[test]
fn requests_are_recorded() {
    let server = Server::new([says("one"), says("two")]);
    ask(&server, &body(0));
    ask(&server, &body(1));
    let requests = server.requests();
    assert_eq!(requests[1].body, body(1));
    assert_eq!(requests[1].bytes, body(1).to_string().len());
    assert_eq!(requests[1].headers["x-api-key"], "k");
    assert!(requests[0].arrived <= requests[1].arrived);
    server.wait_until(|requests| {
        requests
            .iter()
            .all(|request| request.outcome == Outcome::Whole)
    });
}

#[test]
fn an_answer_can_be_cut_at_every_byte() {
    let whole = unchunked(&ask(&Server::new([says("Two files.")]), &body(0)));
    let cut = |bytes: usize| Turn {
        wire: Some(Wire {
            cut_after_bytes: Some(bytes),
            ..Wire::default()
        }),
        ..says("Two files.")
    };
    let length = 200;
    let server = Server::new((0..length).map(cut));
    // Ports, and with them ids, may differ in length.
    let start = whole.find("\"id\"").expect("an id");
    for bytes in 0..length {
        let response = ask(&server, &body(0));
        let body = unchunked(&response);
        assert_eq!(body.len(), bytes);
        assert_eq!(body[..bytes.min(start)], whole[..bytes.min(start)]);
        assert!(!response.ends_with("0\r\n\r\n") || bytes == 0);
    }
    server.wait_until(|requests| {
        requests
            .iter()
            .all(|request| request.outcome == Outcome::Cut)
    });
}

#[test]
fn an_answer_can_arrive_byte_by_byte() {
    let slow = Turn {
        wire: Some(Wire {
            bytes_per_write: Some(1),
            ..Wire::default()
        }),
        ..says("Two files.")
    };
    let server = Server::new([slow]);
    let response = ask(&server, &body(0));
    let body = unchunked(&response);
    assert!(body.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    assert_eq!(response.matches("\r\n1\r\n").count(), body.len());
}

#[test]
fn a_silent_server_pings_and_notices_when_the_client_disconnects() {
    let quiet = Turn {
        wire: Some(Wire {
            hang_after_events: Some(2),
            ping_every_ms: Some(1),
            ..Wire::default()
        }),
        ..says("Two files.")
    };
    let server = Server::new([quiet, hangs("Well")]);
    for pings in [3, 1] {
        let mut stream = send(&server, &body(0).to_string());
        let mut response = String::new();
        let mut piece = [0; 4096];
        while response.matches("\"ping\"").count() < pings {
            let count = stream.read(&mut piece).expect("readable");
            response.push_str(std::str::from_utf8(&piece[..count]).expect("text"));
        }
        assert!(!response.contains("message_stop"));
        drop(stream);
    }
    server.wait_until(|requests| {
        requests.len() == 2
            && requests
                .iter()
                .all(|request| request.outcome == Outcome::Closed)
    });
}

#[test]
fn many_clients_run_through_one_scenario() {
    let server = Server::by_history([says("one"), fails(529, "overloaded_error"), says("two")]);
    let is = |answers, words: &str| {
        let response = ask(&server, &body(answers));
        assert!(response.contains(words), "{answers}: {response}");
    };
    is(0, "\"one\"");
    is(0, "\"one\"");
    is(1, "overloaded_error");
    is(1, "\"two\"");
    is(0, "\"one\"");
    is(1, "\"two\"");
    is(2, "the scenario ends");
}

#[test]
fn a_body_and_its_headers_can_be_anything() {
    let yaml = r#"
turns:
  - wire: {body: "<html>busy</html>", headers: {Content-Type: text/html}}
  - text: "{{turn}} {{user}}"
"#;
    let scenario = Scenario::parse(yaml).expect("valid");
    let server = Server::start(scenario, Pick::InOrder, 0).expect("a free port");
    let response = ask(&server, &body(0));
    assert_eq!(status(&response), "HTTP/1.1 200 OK");
    assert!(response.contains("Content-Type: text/html\r\n"));
    assert!(!response.contains("event-stream"));
    assert_eq!(unchunked(&response), "<html>busy</html>");
    assert!(unchunked(&ask(&server, &body(1))).contains("2 and?"));
}
