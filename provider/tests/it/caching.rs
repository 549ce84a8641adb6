//! The prompt cache: breakpoints, and what was not read from it.

use std::sync::Arc;

use ah_conversation::{CacheMiss, Provider, Request, StreamEvent};
use ah_provider::Options;
use ah_provider::caching::CacheTtl;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::requests::{model as said, request, tool, user};
use crate::route::with_options;
use crate::server::{Part, Server, events, stream_end, stream_head};

/// An answer of the Messages API that read and wrote so many tokens of the cache.
fn answer(read: u64, written: u64) -> Vec<Part> {
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written});
    let start = json!({"type": "message_start", "message": {"id": "m", "usage": usage}});
    let rest = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}
        {"type":"message_stop"}"#;
    vec![
        stream_head(),
        events(&format!("{start}\n{rest}")),
        stream_end(),
    ]
}

fn asked(system: &str) -> Request {
    Request {
        system: Arc::from([system.to_owned()]),
        tools: Arc::from([tool("look")]),
        ..request(vec![user("Hi")])
    }
}

fn connected(server: &Server, name: &str, ttl: CacheTtl) -> Arc<dyn Provider> {
    let variables = [
        ("ANTHROPIC_BASE_URL", server.url.as_str()),
        ("ANTHROPIC_API_KEY", "k"),
        ("LITELLM_BASE_URL", server.url.as_str()),
    ];
    let provider = with_options(&variables, &json!({}), |options| {
        let options = Options {
            cache_ttl: ttl,
            server_compaction: false,
            fast_mode: false,
            ..*options
        };
        ah_provider::connect(name, &options)
    });
    provider.expect("a provider")
}

async fn events_of(provider: &dyn Provider, request: Request) -> Vec<StreamEvent> {
    let events = provider.stream(request);
    events.filter_map(async |event| event.ok()).collect().await
}

/// Returns the breakpoints in a value, in order.
fn breakpoints(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(breakpoints).collect(),
        Value::Object(fields) => {
            let of_field = |(name, value): (&String, &Value)| match name.as_str() {
                "cache_control" => vec![value.to_string()],
                _ => breakpoints(value),
            };
            fields.iter().flat_map(of_field).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn every_breakpoint_has_the_lifetime_that_is_set() {
    for (name, ttl, expected) in [
        (
            "anthropic/m",
            CacheTtl::FiveMinutes,
            r#"{"type":"ephemeral"}"#,
        ),
        (
            "anthropic/m",
            CacheTtl::Hour,
            r#"{"type":"ephemeral","ttl":"1h"}"#,
        ),
        (
            "litellm/m",
            CacheTtl::Hour,
            r#"{"type":"ephemeral","ttl":"1h"}"#,
        ),
    ] {
        let server = Server::start(vec![answer(0, 0)]).await;
        events_of(&*connected(&server, name, ttl), asked("Be brief.")).await;
        let body: Value = serde_json::from_str(&server.request().1).expect("JSON");
        // The last tool, the system prompt and the message.
        assert_eq!(breakpoints(&body), [expected; 3], "{name}");
    }
}

/// The first text of a conversation is what the sessions of a project share, so a new one reads it from the cache.
#[tokio::test]
async fn the_first_text_of_a_conversation_has_a_breakpoint_of_its_own() {
    for (name, place) in [
        ("anthropic/m", "/messages/0/content/0/cache_control"),
        ("litellm/m", "/messages/1/cache_control"),
    ] {
        let server = Server::start(vec![answer(0, 0)]).await;
        let request = Request {
            messages: Arc::new(vec![
                user("# AGENTS.md"),
                user("# Environment"),
                user("Go."),
            ]),
            ..asked("Be brief.")
        };
        events_of(&*connected(&server, name, CacheTtl::default()), request).await;
        let body: Value = serde_json::from_str(&server.request().1).expect("JSON");
        assert!(body.pointer(place).is_some(), "{body}");
        assert_eq!(breakpoints(&body).len(), 4, "{name}: the API takes no more");
    }
}

#[tokio::test]
async fn what_was_not_read_from_the_cache_is_named() {
    let server = Server::start(vec![
        answer(0, 100),
        answer(100, 20),
        answer(0, 120),
        answer(50, 0),
        answer(0, 0),
    ])
    .await;
    let provider = connected(&server, "anthropic/m", CacheTtl::default());
    let first = asked("Be brief.");
    let changed = Request {
        system: Arc::from(["Be bright.".to_owned()]),
        ..first.clone()
    };
    let mut misses = Vec::new();
    for request in [
        &first,
        &first,
        &changed,
        &changed,
        &asked("Another conversation."),
    ] {
        let events = events_of(&*provider, request.clone()).await;
        assert_eq!(events.last(), Some(&StreamEvent::Ended));
        misses.push(events.into_iter().find_map(|event| match event {
            StreamEvent::CacheMissed(miss) => Some(miss),
            _ => None,
        }));
    }
    let change = "`system[0].text` differs at byte 6: \"ght.\"".to_owned();
    let miss = |read, change| {
        Some(CacheMiss {
            expected: 120,
            read,
            change,
        })
    };
    assert_eq!(
        misses,
        [None, None, miss(0, Some(change)), miss(50, None), None]
    );
}

/// What an answer of an earlier process says of the cache holds for the first request of this one, unless another model
/// gave it, or a summary has replaced it since.
#[tokio::test]
async fn what_an_earlier_process_left_in_the_cache_is_missed_as_well() {
    for (provider, first, read, expected) in [
        ("anthropic", 1, 50, Some((120, 50))),
        ("anthropic", 1, 120, None),
        ("another", 1, 50, None),
        ("anthropic", 3, 50, None),
    ] {
        let server = Server::start(vec![answer(read, 0)]).await;
        let model = connected(&server, "anthropic/m", CacheTtl::default());
        let mut messages = vec![user("Hi"), said("Yes."), user("Go on")];
        for (message, seq) in messages.iter_mut().zip([first, 2, 4]) {
            let message = Arc::make_mut(message);
            message.seq = seq;
            if let Some(response) = &mut message.response {
                response.provider = provider.to_owned();
                response.model = "m".to_owned();
                response.usage.cache_read_input_tokens = 100;
                response.usage.cache_creation_input_tokens = 20;
            }
        }
        let events = events_of(&*model, request(messages)).await;
        let miss = events.into_iter().find_map(|event| match event {
            StreamEvent::CacheMissed(miss) => Some((miss.expected, miss.read)),
            _ => None,
        });
        assert_eq!(miss, expected, "{provider} {first} {read}");
    }
}
