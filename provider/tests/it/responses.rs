//! The Responses API: requests as bytes, answers that are not among the recordings, and both over a loopback.

use std::collections::VecDeque;

use ah_conversation::{
    ContentBlock, ErrorClass, Input, Model, ProviderError, Request, ResultBlock, Role, Sampling,
    Thinking,
};
use ah_provider::abilities::Abilities;
use ah_provider::exchange::Timeouts;
use ah_provider::openai::{Additions, Quirks, ReturnedReasoning};
use ah_provider::request_encoder::RequestEncoder;
use ah_provider::responses::{Decoder, Encoder, Responses};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::openai_answers::show;
use crate::openai_api::{ask, server};
use crate::requests::{
    call, image, message, model, quirks_of, request, result, thinking, tool, user,
};
use crate::server::{Server, events, stream_end, stream_head};

fn encoder(name: &str, quirks: Quirks) -> Encoder {
    let model = Model {
        provider: "anthropic".to_owned(),
        name: name.to_owned(),
        context_window: 200_000,
        max_output: 16_384,
        price: None,
        long_price: None,
    };
    Encoder::new(model, Abilities::default(), Additions::default(), quirks)
}

fn body(encoder: &mut Encoder, request: &Request) -> String {
    String::from_utf8(encoder.encode(request).concat()).expect("UTF-8")
}

/// The items of the conversation.
pub(crate) fn items_sent(request: &Request) -> Vec<Value> {
    let body = body(&mut encoder("claude-x", Quirks::default()), request);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    body["input"].as_array().expect("an array").clone()
}

/// The items of the conversation, one per line.
fn lines(quirks: Quirks, request: &Request) -> String {
    let body = body(&mut encoder("claude-x", quirks), request);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let input = body["input"].as_array().expect("an array").iter();
    let lines: Vec<_> = input.map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn a_whole_request() {
    let sealed = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#;
    let answer = vec![
        thinking(None),
        thinking(Some(sealed)),
        ContentBlock::text("Let me see."),
        call("t1", Input::from(json!({"command": "ls"}))),
        call("t2", Input::Malformed(json!("{\"comm"))),
        // Nothing follows it.
        thinking(Some(sealed)),
    ];
    let words = |text: &str| ResultBlock::Text {
        text: text.to_owned(),
    };
    let results = vec![
        result("t1", vec![words("a"), ResultBlock::Image(image())], true),
        result("t2", vec![words("not JSON")], true),
        ContentBlock::text("[STEERING] Hurry."),
    ];
    let question = vec![ContentBlock::text("And?"), ContentBlock::Image(image())];
    let conversation = request(vec![
        user("Go on."),
        user(" "),
        message(Role::Assistant, Some("claude-x"), answer.clone()),
        message(Role::User, None, results),
        message(Role::Assistant, Some("another"), answer[1..3].to_vec()),
        message(Role::User, None, question),
    ]);
    insta::assert_snapshot!(lines(Quirks::default(), &conversation), @r#"
    {"role":"user","content":"Go on."}
    {"role":"user","content":"(empty message)"}
    {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}
    {"type":"message","role":"assistant","content":"Let me see."}
    {"type":"function_call","call_id":"t1","name":"bash","arguments":"{\"command\":\"ls\"}"}
    {"type":"function_call","call_id":"t2","name":"bash","arguments":"{}"}
    {"type":"function_call_output","call_id":"t1","output":"Error: a"}
    {"type":"function_call_output","call_id":"t2","output":"Error: not JSON"}
    {"role":"user","content":[{"type":"input_text","text":"What `bash` shows:"},{"type":"input_image","image_url":"data:image/png;base64,iVBO"},{"type":"input_text","text":"[STEERING] Hurry."}]}
    {"type":"message","role":"assistant","content":"Let me see."}
    {"role":"user","content":[{"type":"input_text","text":"And?"},{"type":"input_image","image_url":"data:image/png;base64,iVBO"}]}
    "#);
    let with_images = Quirks {
        images_in_results: true,
        returned_reasoning: ReturnedReasoning::None,
        ..Quirks::default()
    };
    insta::assert_snapshot!(lines(with_images, &conversation), @r#"
    {"role":"user","content":"Go on."}
    {"role":"user","content":"(empty message)"}
    {"type":"message","role":"assistant","content":"Let me see."}
    {"type":"function_call","call_id":"t1","name":"bash","arguments":"{\"command\":\"ls\"}"}
    {"type":"function_call","call_id":"t2","name":"bash","arguments":"{}"}
    {"type":"function_call_output","call_id":"t1","output":[{"type":"input_text","text":"Error: "},{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,iVBO"}]}
    {"type":"function_call_output","call_id":"t2","output":"Error: not JSON"}
    {"role":"user","content":"[STEERING] Hurry."}
    {"type":"message","role":"assistant","content":"Let me see."}
    {"role":"user","content":[{"type":"input_text","text":"And?"},{"type":"input_image","image_url":"data:image/png;base64,iVBO"}]}
    "#);
}

#[test]
fn settings_of_a_request() {
    let whole = Request {
        system: ["You are a test.", " ", "Be brief."]
            .map(str::to_owned)
            .into(),
        tools: [tool("read")].into(),
        added: [].into(),
        thinking: Thinking::at_most(5_000),
        sampling: Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            stop: vec!["END".to_owned()],
        },
        ..request(vec![user("Hi")])
    };
    for (name, quirks, request, expected) in [
        (
            "o5",
            quirks_of("openai"),
            whole,
            r#"{"model":"o5","stream":true,"store":false,"include":["reasoning.encrypted_content"],"max_output_tokens":6000,"reasoning":{"effort":"medium"},"instructions":"You are a test.\n\nBe brief.","tools":[{"type":"function","name":"read","description":"Does read.","parameters":{"type":"object"},"strict":false}],"input":[{"role":"user","content":"Hi"}]}"#,
        ),
        (
            "openai/gpt-4o",
            quirks_of("openai"),
            request(vec![user("Hi")]),
            r#"{"model":"openai/gpt-4o","stream":true,"store":false,"max_output_tokens":1000,"input":[{"role":"user","content":"Hi"}]}"#,
        ),
        (
            "gpt-5",
            Quirks {
                model_prefix: "openai/".to_owned(),
                ..Quirks::default()
            },
            request(vec![user("Hi")]),
            r#"{"model":"openai/gpt-5","stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"1","max_output_tokens":1000,"input":[{"role":"user","content":"Hi"}]}"#,
        ),
    ] {
        assert_eq!(body(&mut encoder(name, quirks), &request), expected);
    }
}

fn decode(pieces: &[&[u8]]) -> (String, Result<(), ProviderError>) {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    let fed = pieces
        .iter()
        .try_for_each(|piece| decoder.feed(piece, &mut events));
    let end = fed.and_then(|()| decoder.finish(&mut events));
    (show(&events), end)
}

fn stream(events: &[&str]) -> String {
    let created = r#"{"type":"response.created","response":{"id":"r","status":"in_progress"}}"#;
    let events = [created].into_iter().chain(events.iter().copied());
    events.map(|event| format!("data: {event}\n\n")).collect()
}

const COMPLETED: &str = r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":2},"output_tokens":4}}}"#;

#[test]
fn answers() {
    let message = r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"So."}]}}"#;
    let incomplete = |reason| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    let (cut, filtered) = (
        incomplete("max_output_tokens"),
        incomplete("content_filter"),
    );
    for (events, expected) in [
        // In fragments, with another item beginning between them.
        (
            &[
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#,
                r#"{"type":"response.output_text.delta","output_index":0,"delta":"Let me "}"#,
                r#"{"type":"response.output_text.delta","output_index":0,"delta":"see."}"#,
                r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"call_one","name":"x","arguments":""}}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\""}"#,
                r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"call_two","name":"y","arguments":""}}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":":1}"}"#,
                r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}"#,
                r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"call_one","name":"x","arguments":"{\"a\":1}"}}"#,
                r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"call_two","name":"y","arguments":"{}"}}"#,
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Let me see."}]}}"#,
                COMPLETED,
            ][..],
            "text(Let me ,see.) call_one=x({\"a\",:1}) call_two=y({}) tool_use 3/4 end",
        ),
        // A summary in parts with its signature, and the reasoning text, which repeats it.
        (
            &[
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","summary":[]}}"#,
                r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Hm."}"#,
                r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"Aha."}"#,
                r#"{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"hm aha"}"#,
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","encrypted_content":"x"}}"#,
                message,
                COMPLETED,
            ],
            "thinking(Hm.,\n\nAha.,seal {\"type\":\"reasoning\",\"encrypted_content\":\"x\"}) text(So.) end_turn 3/4 end",
        ),
        // Reasoning without text, without a signature, and without either.
        (
            &[
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","encrypted_content":"x","summary":[]}}"#,
                message,
                r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm."},{"type":"summary_text","text":"Aha."}]}}"#,
                r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"reasoning","summary":[]}}"#,
                COMPLETED,
            ],
            "thinking(seal {\"type\":\"reasoning\",\"encrypted_content\":\"x\",\"summary\":[]}) text(So.) thinking(Hm.\n\nAha.) end_turn 3/4 end",
        ),
        // Ids that are unique only within an answer, and items that the server handles itself.
        (
            &[
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1"}}"#,
                r#"{"type":"response.web_search_call.searching","output_index":0}"#,
                r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"srvtoolu_1","name":"web","arguments":""}}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}"#,
                r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"call_0","name":"x","arguments":"{}"}}"#,
                r#"{"type":"news","delta":{"a":1}}"#,
                COMPLETED,
            ],
            "call_0_2_r=x({}) tool_use 3/4 end",
        ),
        // A refusal, in fragments and complete.
        (
            &[
                r#"{"type":"response.refusal.delta","output_index":0,"delta":"I won't."}"#,
                COMPLETED,
            ],
            "text(I won't.) refusal 3/4 end",
        ),
        (
            &[
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I won't."}]}}"#,
                COMPLETED,
            ],
            "text(I won't.) refusal 3/4 end",
        ),
        (&[message, cut.as_str()], "text(So.) max_tokens end"),
        (&[message, filtered.as_str()], "text(So.) refusal end"),
        (
            &[
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"call_one","name":"x"}}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a"}"#,
                cut.as_str(),
            ],
            "call_one=x({\"a) max_tokens end",
        ),
        // Everything at the end, and further events after it.
        (
            &[
                r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"So."}]},{"type":"oracle"}]}}"#,
                "[DONE]",
                "rubbish",
            ],
            "text(So.) {\"type\":\"oracle\"}() end_turn end",
        ),
    ] {
        let stream = stream(events);
        assert_eq!(
            decode(&[stream.as_bytes()]),
            (expected.to_owned(), Ok(())),
            "{stream}"
        );
        for at in 0..stream.len() {
            let (first, second) = stream.as_bytes().split_at(at);
            assert_eq!(decode(&[first, second]).0, expected, "cut at {at}");
        }
    }
    let whole = r#"{"id":"r","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"So."}]}]}"#;
    assert_eq!(
        decode(&[whole.as_bytes()]),
        ("text(So.) end_turn end".to_owned(), Ok(()))
    );
}

#[test]
fn what_is_no_whole_answer_is_an_error() {
    use ErrorClass as E;
    let text = r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}"#;
    let call = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"call_one","name":"x"}}"#;
    for (events, class, message) in [
        (&[text][..], E::Protocol, "the answer ended early"),
        (&[text, "[DONE]"], E::Protocol, "the answer ended early"),
        (
            &[call, COMPLETED],
            E::Protocol,
            "the answer ended within a tool call",
        ),
        (
            &[
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no"}}}"#,
            ],
            E::Server,
            "no",
        ),
        (
            &[
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"no"}}}"#,
            ],
            E::RateLimit,
            "no",
        ),
        (
            &[
                r#"{"type":"error","code":"context_length_exceeded","message":"context_length_exceeded"}"#,
            ],
            E::ContextTooLong,
            "context_length_exceeded (error)",
        ),
        (
            &[r#"{"type":"error","error":{"type":"insufficient_quota","message":"no"}}"#],
            E::Billing,
            "no (insufficient_quota)",
        ),
        (
            &[r#"{"type":"response.completed"}"#],
            E::Protocol,
            "an end event without a response",
        ),
        (
            &[r#"{"type":"response.completed","response":{"status":"queued"}}"#],
            E::Protocol,
            "the answer is only queued",
        ),
    ] {
        let stream = stream(events);
        let error = decode(&[stream.as_bytes()]).1.expect_err(&stream);
        assert_eq!(
            (error.class, error.message.as_str()),
            (class, message),
            "{stream}"
        );
    }
    for (body, message) in [
        ("", "the stream ended before an answer began"),
        (r#"{"choices":[]}"#, "the server's JSON holds no answer"),
        (
            r#"{"output":[],"status":"in_progress"}"#,
            "the answer is only in_progress",
        ),
        (r#"{"error":{"message":"no"}}"#, "no"),
    ] {
        let error = decode(&[body.as_bytes()]).1.expect_err(body);
        assert_eq!(error.message, message);
    }
}

#[tokio::test]
async fn a_request_is_sent_and_its_answer_is_read() {
    let answer = events(&format!(
        r#"{{"type":"response.created","response":{{"id":"r"}}}}
        {{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}}
        {COMPLETED}"#,
    ));
    let loopback = Server::start(vec![vec![stream_head(), answer, stream_end()]]).await;
    let server = server(&format!("{}/v1", loopback.url), Timeouts::default());
    let provider = Responses::new(server, encoder("m", Quirks::default())).expect("an address");
    let (said, outcome) = ask(&provider).await;
    assert_eq!((said.as_str(), outcome), ("Hello", Ok(())));
    let (head, body) = loopback.request();
    assert!(
        head.starts_with("POST /v1/responses HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\nauthorization: Bearer secret\r\n"),
        "{head}"
    );
    assert!(body.contains(r#""store":false"#), "{body}");
}

proptest! {
    #[test]
    fn what_is_kept_changes_no_byte(
        changes in proptest::collection::vec((0usize..8, 0usize..4), 1..12),
    ) {
        let kinds = [
            user("é\n\"quoted\""),
            model("Yes."),
            message(Role::Assistant, Some("claude-x"), vec![call("t", Input::default())]),
            message(Role::User, None, vec![result("t", vec![ResultBlock::Image(image())], true)]),
        ];
        let mut kept = encoder("claude-x", Quirks::default());
        let mut messages = vec![user("Begin.")];
        for (dropped, kind) in changes {
            messages.truncate(messages.len().saturating_sub(dropped / 3).max(1));
            messages.push(std::sync::Arc::new((*kinds[kind]).clone()));
            let request = request(messages.clone());
            let fresh = body(&mut encoder("claude-x", Quirks::default()), &request);
            prop_assert_eq!(body(&mut kept, &request), fresh.clone());
            prop_assert!(serde_json::from_str::<Value>(&fresh).is_ok());
        }
    }

    #[test]
    fn garbage_is_no_panic(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..20),
                Just(b"data: {\"type\":\"response.".to_vec()),
                Just(b"output_item.done\",\"item\":{\"type\":\"reasoning\",\"summary\":[".to_vec()),
                Just(b"output_text.delta\",\"delta\":\"".to_vec()),
                Just(b"completed\",\"response\":{\"output\":[".to_vec()),
                Just(b"]}}\n\n".to_vec()),
            ],
            0..12,
        ),
    ) {
        let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
        let _ = decode(&pieces);
    }
}
