//! Web search by the vendor's server: the request and the findings.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;

use ah_conversation::{Cost, Environment, Hit, WebSearch};
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::retry::Policy;
use ah_provider::{Options, connect, searches};
use serde_json::{Value, json};

use crate::route::no_command;

fn with<T>(variables: &[(&str, &str)], ask: impl FnOnce(&Options<'_>) -> T) -> T {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ask(&Options {
        environment: &Environment::new(variables, "/".into()),
        catalog: &Catalog::built_in(),
        servers: &Default::default(),
        key_source: &no_command,
        http: &ah_http::Options::default(),
        betas: &[],
        max_output: None,
        cache_ttl: ah_provider::caching::CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts: Timeouts::default(),
        retry: Policy::default(),
        seed: 1,
    })
}

/// A server that answers once with `events`; the receiver gets the request.
fn server(events: &[Value]) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let events: String = events
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    let (sender, asked) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        let body = loop {
            let read = stream.read(&mut piece).unwrap();
            bytes.extend_from_slice(&piece[..read]);
            let text = String::from_utf8_lossy(&bytes);
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
            if let Some(Ok(body)) = body.map(serde_json::from_str) {
                break body;
            }
        };
        sender.send(body).unwrap();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream
            .write_all(format!("{head}{events}").as_bytes())
            .unwrap();
    });
    (address, asked)
}

fn block(index: usize, block: &Value) -> [Value; 2] {
    [
        json!({"type": "content_block_start", "index": index, "content_block": block}),
        json!({"type": "content_block_stop", "index": index}),
    ]
}

fn answer(blocks: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let usage = json!({
        "input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 2},
    });
    let mut events = vec![json!({"type": "message_start", "message": {"id": "m", "usage": usage}})];
    for (index, content) in blocks.into_iter().enumerate() {
        events.extend(block(index, &content));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

#[tokio::test]
async fn findings_are_read_from_the_answer() {
    let (address, asked) = server(&answer([
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "cats"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [
            {"type": "web_search_result", "url": "https://a.com", "title": "A", "encrypted_content": "x"},
            {"type": "unknown"},
        ]}),
        json!({"type": "text", "text": "Cats exist."}),
    ]));
    let variables = [
        ("ANTHROPIC_API_KEY", "k"),
        ("ANTHROPIC_BASE_URL", address.as_str()),
    ];
    let model = with(&variables, |options| connect("sonnet", options)).unwrap();
    let wanted = WebSearch {
        query: "cats".to_owned(),
        allowed_domains: vec!["a.com".to_owned()],
        ..WebSearch::default()
    };
    let found = model
        .extras()
        .search
        .unwrap()
        .search(&wanted)
        .await
        .unwrap();
    let hit = Hit {
        title: "A".to_owned(),
        address: "https://a.com".to_owned(),
        snippet: String::new(),
    };
    assert_eq!(
        (found.hits, found.words.as_str()),
        (vec![hit], "Cats exist.")
    );
    // Two searches, and a token each way.
    let spent = found.spent.unwrap();
    assert_eq!(spent.usage.web_search_requests, 2);
    assert_eq!(
        spent.cost,
        Some(Cost(20_000_000_000 + 2_000_000 + 10_000_000))
    );
    let body = asked.recv().unwrap();
    assert_eq!(
        body["tools"],
        json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 5, "allowed_domains": ["a.com"]}])
    );
    assert_eq!(body["messages"][0]["content"], "Search the web for: cats");
}

#[tokio::test]
async fn a_failed_search_is_an_error() {
    let error = json!({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"});
    let (address, _asked) = server(&answer([
        json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": error}),
    ]));
    let variables = [
        ("ANTHROPIC_API_KEY", "k"),
        ("ANTHROPIC_BASE_URL", address.as_str()),
    ];
    let model = with(&variables, |options| connect("sonnet", options)).unwrap();
    let search = model.extras().search.unwrap();
    let fault = search.search(&WebSearch::default()).await.unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the server's search failed: max_uses_exceeded"
    );
}

#[test]
fn only_the_vendors_server_can_search() {
    let gateway = [("ANTHROPIC_BASE_URL", "http://h")];
    for (server, variables, expected) in [
        ("anthropic", &[][..], true),
        ("anthropic", &gateway, false),
        ("openai", &[], false),
        ("nobody", &[], false),
    ] {
        assert_eq!(
            with(variables, |options| searches(server, options)),
            expected,
            "{server}"
        );
    }
}
