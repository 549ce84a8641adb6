//! The Interactions API: requests as bytes, answers in pieces, and both with a server as strict as the vendor.

use std::collections::VecDeque;

use ah_conversation::{
    ContentBlock, ErrorClass, Input, Model, ProviderError, Request, ResultBlock, Role, Sampling,
    Thinking,
};
use ah_provider::abilities::Abilities;
use ah_provider::interactions::{Decoder, Encoder};
use ah_provider::openai::{Additions, Quirks};
use ah_provider::request_encoder::RequestEncoder as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::openai_answers::show;
use crate::requests::{call, image, message, quirks_of, request, result, thinking, tool, user};

fn encoder(quirks: Quirks) -> Encoder {
    let model = Model {
        provider: "anthropic".to_owned(),
        name: "claude-x".to_owned(),
        context_window: 200_000,
        max_output: 16_384,
        price: None,
        long_price: None,
    };
    Encoder::new(model, Abilities::default(), Additions::default(), quirks)
}

fn body(quirks: Quirks, request: &Request) -> Value {
    let body = encoder(quirks).encode(request).concat();
    serde_json::from_slice(&body).expect("JSON")
}

#[test]
fn a_whole_request() {
    let answer = vec![
        thinking(None),
        thinking(Some("sealed")),
        ContentBlock::text("Let me see."),
        call("t1", Input::from(json!({"command": "ls"}))),
        call("t2", Input::Malformed(json!("{\"comm"))),
    ];
    let words = |text: &str| ResultBlock::Text {
        text: text.to_owned(),
    };
    let results = vec![
        result("t1", vec![words("a"), ResultBlock::Image(image())], false),
        result("t2", vec![words("not JSON")], true),
        ContentBlock::text("[STEERING] Hurry."),
    ];
    let question = vec![ContentBlock::text("And?"), ContentBlock::Image(image())];
    let conversation = request(vec![
        user("Go on."),
        user(" "),
        message(Role::Assistant, Some("claude-x"), answer.clone()),
        message(Role::User, None, results),
        message(Role::Assistant, Some("another"), answer[1..4].to_vec()),
        message(Role::User, None, question),
    ]);
    let body = body(Quirks::default(), &conversation);
    let steps = body["input"].as_array().expect("steps").iter();
    let lines: Vec<_> = steps.map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"type":"user_input","content":[{"type":"text","text":"Go on."}]}
    {"type":"user_input","content":[{"type":"text","text":"(empty message)"}]}
    {"type":"thought","signature":"sealed","summary":[{"type":"text","text":"Hm."}]}
    {"type":"model_output","content":[{"type":"text","text":"Let me see."}]}
    {"type":"function_call","id":"t1","name":"bash","arguments":{"command":"ls"}}
    {"type":"function_call","id":"t2","name":"bash","arguments":{}}
    {"type":"function_result","call_id":"t1","name":"bash","result":[{"type":"text","text":"a"},{"type":"image","mime_type":"image/png","data":"iVBO"}]}
    {"type":"function_result","call_id":"t2","name":"bash","result":"not JSON","is_error":true}
    {"type":"user_input","content":[{"type":"text","text":"[STEERING] Hurry."}]}
    {"type":"thought","signature":"skip_thought_signature_validator"}
    {"type":"model_output","content":[{"type":"text","text":"Let me see."}]}
    {"type":"function_call","id":"t1","name":"bash","arguments":{"command":"ls"}}
    {"type":"user_input","content":[{"type":"text","text":"And?"},{"type":"image","mime_type":"image/png","data":"iVBO"}]}
    "#);
}

#[test]
fn settings_of_a_request() {
    let whole = Request {
        system: ["You are a test.", " ", "Be brief."]
            .map(str::to_owned)
            .into(),
        tools: [tool("read")].into(),
        thinking: Thinking::at_most(5_000),
        sampling: Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            stop: vec!["END".to_owned()],
        },
        ..request(vec![user("Hi")])
    };
    let bare = request(vec![user("Hi")]);
    let all: Vec<_> = [whole, bare]
        .iter()
        .map(|request| body(quirks_of("gemini"), request).to_string())
        .collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    {"model":"claude-x","stream":true,"store":false,"generation_config":{"max_output_tokens":6000,"thinking_level":"medium","thinking_summaries":"auto","stop_sequences":["END"]},"system_instruction":"You are a test.\n\nBe brief.","tools":[{"type":"function","name":"read","description":"Does read.","parameters":{"type":"object"}}],"input":[{"type":"user_input","content":[{"type":"text","text":"Hi"}]}]}
    {"model":"claude-x","stream":true,"store":false,"generation_config":{"max_output_tokens":1000},"input":[{"type":"user_input","content":[{"type":"text","text":"Hi"}]}]}
    "#);
}

fn decode(pieces: &[&[u8]]) -> (String, Result<(), ProviderError>) {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    let mut fed = pieces.iter();
    let fed = fed.try_for_each(|piece| decoder.feed(piece, &mut events));
    let end = fed.and_then(|()| decoder.finish(&mut events));
    (show(&events), end)
}

/// A stream of these events, of which each names its type.
fn stream(events: &[Value]) -> String {
    let frames = events.iter().map(|event| {
        let kind = event["event_type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    });
    frames.collect::<String>() + "event: done\ndata: [DONE]\n\n"
}

fn created() -> Value {
    json!({"event_type": "interaction.created", "interaction": {"id": "v1_a", "status": "in_progress"}})
}

fn starts(index: usize, step: &Value) -> Value {
    json!({"event_type": "step.start", "index": index, "step": step})
}

fn grows(index: usize, delta: &Value) -> Value {
    json!({"event_type": "step.delta", "index": index, "delta": delta})
}

fn stops(index: usize) -> Value {
    json!({"event_type": "step.stop", "index": index})
}

fn completed(status: &str) -> Value {
    json!({"event_type": "interaction.completed", "interaction": {
        "id": "v1_a", "status": status, "usage": {
            "total_input_tokens": 100, "total_cached_tokens": 60, "total_output_tokens": 7, "total_thought_tokens": 5,
        },
    }})
}

/// Thoughts, text, and calls of which the second has all arguments in its beginning.
fn all() -> Vec<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    let piece = |json: &str| json!({"type": "arguments_delta", "arguments": json});
    vec![
        created(),
        json!({"event_type": "interaction.status_update", "interaction_id": "v1_a", "status": "in_progress"}),
        starts(0, &json!({"type": "thought"})),
        grows(
            0,
            &json!({"type": "thought_summary", "content": text("Hm.")}),
        ),
        grows(0, &json!({"type": "thought_signature", "signature": "s1"})),
        stops(0),
        starts(1, &json!({"type": "model_output"})),
        grows(1, &text("Let")),
        grows(1, &text(" me see.")),
        grows(
            1,
            &json!({"type": "text_annotation_delta", "annotations": []}),
        ),
        stops(1),
        starts(
            2,
            &json!({"type": "function_call", "id": "c1", "name": "Bash", "arguments": {}, "signature": "s2"}),
        ),
        starts(
            3,
            &json!({"type": "function_call", "id": "c2", "name": "Read", "arguments": {"path": ""}}),
        ),
        grows(2, &piece("{\"command\":")),
        grows(2, &piece("\"ls\"}")),
        stops(2),
        stops(3),
        starts(4, &json!({"type": "google_search_call", "id": "g"})),
        stops(4),
        completed("requires_action"),
    ]
}

#[test]
fn answers() {
    let text = json!({"type": "text", "text": "Hi"});
    let says = |status| {
        vec![
            created(),
            starts(0, &json!({"type": "model_output", "content": [text]})),
            stops(0),
            completed(status),
        ]
    };
    let mut cut = all();
    cut.truncate(14);
    cut.push(completed("incomplete"));
    let whole = json!({"id": "v1_b", "status": "completed", "steps": [
        {"type": "thought", "signature": "s", "summary": [text]},
        {"type": "model_output", "content": [text]},
        {"type": "function_call", "id": "c", "name": "Bash", "arguments": {"command": "ls"}},
    ], "usage": {"total_input_tokens": "many"}});
    // Each signature takes the place of the one before; the second call at a place ends the first.
    let call = |id: &str, signature: &str| json!({"type": "function_call", "id": id, "name": "Bash", "signature": signature});
    let twice = [
        created(),
        starts(
            0,
            &json!({"type": "thought", "signature": "a", "summary": [text]}),
        ),
        grows(0, &json!({"type": "thought_signature", "signature": "ab"})),
        stops(0),
        starts(1, &call("c1", "b")),
        grows(
            1,
            &json!({"type": "arguments_delta", "arguments": "{}", "signature": "bc"}),
        ),
        starts(1, &call("c2", "")),
        stops(1),
        completed("requires_action"),
    ];
    let shown: Vec<_> = [
        stream(&all()),
        stream(&twice),
        stream(&says("completed")),
        stream(&says("requires_continuation")),
        stream(&cut),
        whole.to_string(),
    ]
    .iter()
    .map(|answer| {
        let (shown, end) = decode(&[answer.as_bytes()]);
        end.expect("an answer");
        let bytes: Vec<_> = answer.as_bytes().chunks(1).collect();
        assert_eq!(decode(&bytes).0, shown);
        shown
    })
    .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    thinking(Hm.,seal s1) text(Let, me see.) c1=Bash({"command":,"ls"}) c2=Read({"path":""}) given2 {"signature":"s2"} tool_use 100/12 end
    thinking(Hi,seal ab) c1=Bash({}) c2=Bash() given1 {"signature":"bc"} tool_use 100/12 end
    text(Hi) end_turn 100/12 end
    text(Hi) max_tokens 100/12 end
    thinking(Hm.,seal s1) text(Let, me see.) c1=Bash({"command":) c2=Read({"path":""}) given2 {"signature":"s2"} max_tokens 100/12 end
    thinking(Hi,seal s) text(Hi) c=Bash({"command":"ls"}) tool_use end
    "#);
}

#[test]
fn what_is_no_whole_answer_is_an_error() {
    let fails = json!({"event_type": "error", "error": {"code": "rate_limit_exceeded", "message": "Slow down."}});
    let failed = json!({"event_type": "interaction.completed", "interaction": {
        "id": "v1_a", "status": "failed", "error": {"message": "no"},
    }});
    let listed = json!({"event_type": "interaction.completed", "interaction": {
        "id": "v1_a", "status": "failed", "errors": [{"message": "no quota"}],
    }});
    let untyped = json!({"error": {"code": 503, "message": "Busy."}});
    let stopped =
        json!({"type": "model_output", "error": {"code": 13, "message": "Internal error."}});
    let mut open = all();
    open.truncate(14);
    let mut early = open.clone();
    early.push(completed("completed"));
    let errors: Vec<_> = [
        stream(&[created(), fails]),
        stream(&[created(), failed]),
        stream(&[created(), listed]),
        stream(&[created(), untyped]),
        stream(&[created(), starts(0, &stopped)]),
        stream(&[
            created(),
            starts(0, &json!({"type": "function_call", "id": "c"})),
        ]),
        stream(&[created(), completed("in_progress")]),
        stream(&open),
        stream(&early),
        json!({"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}}).to_string(),
        json!({"id": "v1_a"}).to_string(),
    ]
    .iter()
    .map(|answer| {
        let error = decode(&[answer.as_bytes()]).1.expect_err("no answer");
        format!("{:?}: {}", error.class, error.message)
    })
    .collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    RateLimit: Slow down.
    Server: no
    Server: no quota
    Server: Busy.
    Server: Internal error.
    Protocol: a tool call without a name
    Protocol: the answer is only in_progress
    Protocol: the answer ended early
    Protocol: the answer ended within a tool call
    InvalidRequest: not found
    Protocol: the server's JSON holds no answer
    "#);
    assert!(errors[0].starts_with(&format!("{:?}", ErrorClass::RateLimit)));
}

proptest! {
    #[test]
    fn what_is_kept_changes_no_byte(
        changes in proptest::collection::vec((0usize..8, 0usize..4), 1..12),
    ) {
        let kinds = [
            user("é\n\"quoted\""),
            crate::requests::model("Yes."),
            message(Role::Assistant, Some("claude-x"), vec![call("t", Input::default())]),
            message(Role::User, None, vec![result("t", vec![ResultBlock::Image(image())], true)]),
        ];
        let mut kept = encoder(Quirks::default());
        let mut messages = vec![user("Begin.")];
        for (dropped, kind) in changes {
            messages.truncate(messages.len().saturating_sub(dropped / 3).max(1));
            messages.push(std::sync::Arc::new((*kinds[kind]).clone()));
            let request = request(messages.clone());
            let fresh = encoder(Quirks::default()).encode(&request).concat();
            prop_assert_eq!(kept.encode(&request).concat(), fresh.clone());
            prop_assert!(serde_json::from_slice::<Value>(&fresh).is_ok());
        }
    }

    /// Wherever the bytes are cut, the events are the same; where they end, it is an error.
    #[test]
    fn an_answer_does_not_depend_on_its_pieces(at in 0_usize..3000, size in 1_usize..50) {
        let answer = stream(&all());
        let whole = decode(&[answer.as_bytes()]).0;
        let pieces: Vec<_> = answer.as_bytes().chunks(size).collect();
        prop_assert_eq!(decode(&pieces).0, whole);
        let end = answer.find("interaction.completed").expect("an end");
        let part = &answer.as_bytes()[..at.min(end)];
        prop_assert!(decode(&[part]).1.is_err());
    }

    #[test]
    fn garbage_is_no_panic(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..20),
                Just(b"data: {\"event_type\":\"step.".to_vec()),
                Just(b"start\",\"index\":1,\"step\":{\"type\":\"function_call\",\"name\":\"".to_vec()),
                Just(b"delta\",\"index\":1,\"delta\":{\"type\":\"text\",\"text\":\"".to_vec()),
                Just(b"data: {\"event_type\":\"interaction.completed\",\"interaction\":{\"steps\":[".to_vec()),
                Just(b"]}}\n\n".to_vec()),
                Just(b"\"}}\n\n".to_vec()),
            ],
            0..12,
        ),
    ) {
        let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
        let _ = decode(&pieces);
    }
}
