//! Answers of chat completions that are not among the recordings, and single quirks of recorded ones: bytes in, events
//! out.

use std::collections::VecDeque;

use ah_conversation::{BlockStart, Delta, ErrorClass, ProviderError, StreamEvent};
use ah_provider::openai::Decoder;
use proptest::prelude::*;

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (String, Result<(), ProviderError>) {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    let fed = pieces
        .into_iter()
        .try_for_each(|piece| decoder.feed(piece, &mut events));
    let end = fed.and_then(|()| decoder.finish(&mut events));
    (show(&events), end)
}

/// The events in short: a block as `text(…)`, `thinking(…)`, `redacted(…)` or `ID=NAME(…)`, with `,` between the pieces,
/// then the stop reason and the tokens. Asserts that each block has a start and an end.
pub(crate) fn show(events: &VecDeque<StreamEvent>) -> String {
    let mut blocks = Vec::<(String, bool)>::new();
    let mut end = Vec::new();
    for event in events {
        match event {
            StreamEvent::BlockStarted { index, block } => {
                assert_eq!(*index, blocks.len());
                let start = match block {
                    BlockStart::Text(text) => format!("text({text}"),
                    BlockStart::Thinking(text) => format!("thinking({text}"),
                    BlockStart::RedactedThinking(data) => format!("redacted({data}"),
                    BlockStart::ToolUse { id, name, .. } => format!("{id}={name}("),
                    BlockStart::Other(raw) => format!("{raw}("),
                };
                blocks.push((start, true));
            }
            StreamEvent::Delta { index, delta } => {
                let (block, is_open) = &mut blocks[*index];
                assert!(*is_open);
                if !block.ends_with('(') {
                    block.push(',');
                }
                match delta {
                    Delta::Text(more) | Delta::Thinking(more) | Delta::InputJson(more) => {
                        block.push_str(more);
                    }
                    Delta::Signature(more) => *block += &format!("seal {more}"),
                    Delta::Other(raw) => *block += &raw.to_string(),
                }
            }
            StreamEvent::BlockStopped { index } => {
                let (block, is_open) = &mut blocks[*index];
                assert!(std::mem::take(is_open));
                block.push(')');
            }
            StreamEvent::Stopping { stop_reason, usage } => {
                end.push(stop_reason.as_str().to_owned());
                if usage.total() > 0 {
                    end.push(format!(
                        "{}/{}",
                        usage.effective_input(),
                        usage.output_tokens
                    ));
                }
            }
            StreamEvent::Ended => end.push("end".to_owned()),
            StreamEvent::Opaque { index, fields } => {
                let place = index.map(|index| index.to_string()).unwrap_or_default();
                end.push(format!(
                    "given{place} {}",
                    serde_json::to_string(fields).expect("JSON")
                ));
            }
            StreamEvent::Billed { cost } => end.push(format!("billed {}", cost.0)),
            StreamEvent::ThinkingDropped(reason) => end.push(format!("dropped {reason:?}")),
            StreamEvent::Started { .. }
            | StreamEvent::Sent { .. }
            | StreamEvent::Reading { .. }
            | StreamEvent::Accepted { .. }
            | StreamEvent::LeftOut { .. }
            | StreamEvent::CacheMissed(_)
            | StreamEvent::Fallback(_)
            | StreamEvent::Retry(_) => {}
        }
    }
    let blocks = blocks.into_iter().map(|(block, _)| block);
    blocks.chain(end).collect::<Vec<_>>().join(" ")
}

/// A stream of the answer `a` with these deltas and this end.
fn stream(deltas: &[&str], end: &str) -> String {
    let chunks = deltas.iter().map(|delta| {
        format!("data: {{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
    });
    chunks.collect::<String>() + end
}

fn finish(reason: &str) -> String {
    format!(
        "data: {{\"id\":\"a\",\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\ndata: [DONE]\n\n"
    )
}

fn check(deltas: &[&str], reason: &str, expected: &str) {
    let stream = stream(deltas, &finish(reason));
    let (shown, end) = decode([stream.as_bytes()]);
    assert_eq!(end, Ok(()), "{deltas:?}");
    assert_eq!(shown, expected, "{deltas:?}");
}

/// Fragments of tool calls are assembled however a server numbers them.
#[test]
fn pieces_of_calls_are_put_together() {
    for (deltas, expected) in [
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"call_two","function":{"name":"y","arguments":"{\"a\""}}]}"#,
                r#"{"tool_calls":[{"index":2,"id":"call_tri","function":{"name":"z"}},{"index":0,"function":{"arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":2,"function":{"arguments":"{}"}},{"index":1,"function":{"arguments":":1}"}}]}"#,
            ][..],
            "call_one=x({}) call_two=y({\"a\",:1}) call_tri=z({}) tool_use end",
        ),
        // Indices from 1, with a gap.
        (
            &[
                r#"{"tool_calls":[{"index":1,"id":"call_one","function":{"name":"x","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":5,"id":"call_two","function":{"name":"y","arguments":"{}"}}]}"#,
            ],
            "call_one=x({}) call_two=y({}) tool_use end",
        ),
        // No index: a call begins with a new id, or else with a name.
        (
            &[
                r#"{"tool_calls":[{"index":null,"id":"call_one","function":{"name":"x","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"id":"call_two","function":{"name":"y","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"id":"call_two","function":{"arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"function":{"name":"z","arguments":"{}"}}]}"#,
            ],
            "call_one=x({,}) call_two=y({,}) call_2_a=z({}) tool_use end",
        ),
        // Index always 0, each call complete.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"call_two","function":{"name":"x","arguments":"{}"}}]}"#,
            ],
            "call_one=x({}) call_two=x({}) tool_use end",
        ),
        // Name and id repeated, or empty.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"\"a\""}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":":1}"}}]}"#,
            ],
            "call_one=x({,\"a\",:1}) tool_use end",
        ),
        // The name late, the id later or never.
        (
            &[
                r#"{"tool_calls":[{"index":0,"function":{"name":"","arguments":"{"}},{"index":1,"function":{"name":"y"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"x","arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"call_two"}]}"#,
            ],
            "call_0_a=x({}) call_two=y() tool_use end",
        ),
        // Arguments that are not text, or missing.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":{"a":[1]}}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"call_two","function":{"name":"y","arguments":null}}]}"#,
            ],
            "call_one=x({\"a\":[1]}) call_two=y() tool_use end",
        ),
        // Ids that are not unique in the conversation, or even in the answer.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"0","function":{"name":"x","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"call_one","function":{"name":"y","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":2,"id":"call_one","function":{"name":"z","arguments":"{}"}}]}"#,
            ],
            "0_0_a=x({}) call_one=y({}) call_one_2_a=z({}) tool_use end",
        ),
        // Marks of the model's format at the end of a name, an index as a text, and a piece without a call.
        (
            &[
                r#"{"tool_calls":[{"index":"0","id":"call_one","function":{"name":"x<|channel|>commentary","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{}},null]}"#,
            ],
            "call_one=x({}) tool_use end",
        ),
        // Calls that the server runs itself, between texts.
        (
            &[
                r#"{"content":"So","tool_calls":[{"index":0,"id":"srvtoolu_1","function":{"name":"web","arguments":"{\"q"}}]}"#,
                r#"{"content":"it is."}"#,
            ],
            "text(So) text(it is.) end_turn end",
        ),
    ] {
        check(deltas, "stop", expected);
    }
}

/// Arguments are passed on byte by byte.
#[test]
fn arguments_are_unchanged() {
    check(
        &[
            r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{\"a\":\"\\\"\\u00e9\\\\\",\"b\":{\"c\":[\"🦀\"]}}"}}]}"#,
        ],
        "tool_calls",
        r#"call_one=x({"a":"\"\u00e9\\","b":{"c":["🦀"]}}) tool_use end"#,
    );
}

#[test]
fn stop_reasons() {
    let text = r#"{"content":"Hi"}"#;
    let refusal = r#"{"refusal":"I won't."}"#;
    let call =
        r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{}"}}]}"#;
    let cut = r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{\"a"}}]}"#;
    for (delta, reason, expected) in [
        (text, "stop", "text(Hi) end_turn end"),
        (text, "eos", "text(Hi) end_turn end"),
        (text, "length", "text(Hi) max_tokens end"),
        (
            text,
            "model_length",
            "text(Hi) model_context_window_exceeded end",
        ),
        (text, "content_filter", "text(Hi) refusal end"),
        (text, "stop_sequence", "text(Hi) stop_sequence end"),
        (text, "bored", "text(Hi) bored end"),
        (text, "tool_calls", "text(Hi) tool_use end"),
        (refusal, "stop", "text(I won't.) refusal end"),
        (call, "tool_calls", "call_one=x({}) tool_use end"),
        (call, "function_call", "call_one=x({}) tool_use end"),
        (call, "stop", "call_one=x({}) tool_use end"),
        (call, "length", "call_one=x({}) max_tokens end"),
        (cut, "length", "call_one=x({\"a) max_tokens end"),
        // The model itself wrote invalid JSON: it gets an error.
        (cut, "tool_calls", "call_one=x({\"a) tool_use end"),
    ] {
        check(&[delta], reason, expected);
    }
}

/// Reasoning is read from each of its fields, and only once if a server sends it in several.
#[test]
fn reasoning_is_read_from_any_field() {
    for (deltas, expected) in [
        (
            &[r#"{"reasoning_content":"Hm."}"#, r#"{"content":"So."}"#][..],
            r#"thinking(Hm.) text(So.) given {"reasoning_content":null} end_turn end"#,
        ),
        (
            &[
                r#"{"reasoning":"Hm.","content":""}"#,
                r#"{"content":"So.","reasoning":null}"#,
            ],
            r#"thinking(Hm.) text(So.) given {"reasoning":null} end_turn end"#,
        ),
        (
            &[
                r#"{"reasoning_content":"Hm","reasoning":"Hm","reasoning_details":[{"type":"reasoning.text","index":0,"text":"Hm"}]}"#,
                r#"{"reasoning_content":".","reasoning":".","reasoning_details":[{"type":"reasoning.text","index":0,"text":".","signature":null}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s"},{"type":"reasoning.encrypted","index":1,"data":"x"}]}"#,
                r#"{"content":"So."}"#,
            ],
            r#"thinking(Hm,.) text(So.) given {"reasoning_content":null,"reasoning":null,"reasoning_details":[{"type":"reasoning.text","index":0,"text":"Hm.","signature":"s"},{"type":"reasoning.encrypted","index":1,"data":"x"}]} end_turn end"#,
        ),
        (
            &[
                r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"Hm."}]}"#,
                r#"{"content":"So."}"#,
            ],
            r#"thinking(Hm.) text(So.) given {"reasoning_details":[{"type":"reasoning.summary","summary":"Hm."}]} end_turn end"#,
        ),
        (
            &[
                r#"{"reasoning_content":"Hm","thinking_blocks":[{"type":"thinking","thinking":"Hm"}]}"#,
                r#"{"reasoning_content":".","thinking_blocks":[{"type":"thinking","thinking":"."}]}"#,
                r#"{"reasoning_content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"s"}]}"#,
                r#"{"reasoning_content":"Aha.","thinking_blocks":[{"type":"thinking","thinking":"Aha."}]}"#,
                r#"{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"t"},{"type":"redacted_thinking","data":"x"}]}"#,
                r#"{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"u"}]}"#,
                r#"{"content":"So."}"#,
            ],
            r#"thinking(Hm,.,seal s) thinking(Aha.,seal t) redacted(x) thinking(seal u) text(So.) given {"reasoning_content":null} end_turn end"#,
        ),
        (
            &[
                r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"},{"type":"reference","reference_ids":[1]}]}]}"#,
                r#"{"content":[{"type":"thinking","thinking":"."},{"type":"text","text":"So."},{"type":"image_url"}]}"#,
            ],
            r#"thinking(Hm,.) text(So.) given {"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"},{"type":"reference","reference_ids":[1]}]},{"type":"thinking","thinking":"."},{"type":"text","text":"So."},{"type":"image_url"}]} end_turn end"#,
        ),
    ] {
        check(deltas, "stop", expected);
    }
}

/// Events around the content: the start, and the token counts in each place that servers use.
#[test]
fn events_around_the_content() {
    let text = r#"{"content":"Hi"}"#;
    let stop = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"prompt_tokens":3,"completion_tokens":4}"#;
    for (end, expected) in [
        (format!("{stop}\n\n"), "text(Hi) end_turn end"),
        (stop.to_owned(), "text(Hi) end_turn end"),
        ("data: [DONE]".to_owned(), "text(Hi) end_turn end"),
        (
            format!(": ping\n\n\r\n{stop}\r\n\r\ndata:[DONE]\r\n\r\n"),
            "text(Hi) end_turn end",
        ),
        (
            format!("{stop}\n\ndata: \n\ndata: [DONE]\n\ndata: rubbish\n\n"),
            "text(Hi) end_turn end",
        ),
        (
            format!("{stop}\n\ndata: {{\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n"),
            "text(Hi) end_turn 3/4 end",
        ),
        (
            format!(
                "data: {{\"choices\":[{{\"index\":null,\"delta\":null,\"usage\":{usage}}}]}}\n\n{stop}\n\n"
            ),
            "text(Hi) end_turn 3/4 end",
        ),
        (
            format!(
                "data: {{\"choices\":[],\"x_groq\":{{\"usage\":{usage}}},\"usage\":null}}\n\n{stop}\n\n"
            ),
            "text(Hi) end_turn 3/4 end",
        ),
        (
            format!(
                "data: {{\"usage\":{{\"prompt_tokens\":1}}}}\n\ndata: {{\"usage\":{usage}}}\n\n{stop}\n\n"
            ),
            "text(Hi) end_turn 3/4 end",
        ),
        // Signs of life, an error that holds nothing, and other types of fields that nobody needs.
        (format!("data: null\n\n{stop}\n\n"), "text(Hi) end_turn end"),
        (
            format!(
                "data: {{\"error\":{{\"message\":\"\",\"code\":null}},\"id\":5,\"object\":[],\"created\":\"now\",\"x_groq\":\"\",\"choices\":[{{\"index\":\"0\",\"delta\":\"\",\"finish_reason\":{{}},\"usage\":[]}}]}}\n\n{stop}\n\n"
            ),
            "text(Hi) end_turn end",
        ),
        // The last event repeated, and a second choice.
        (
            format!(
                "{stop}\n\n{stop}\n\ndata: {{\"choices\":[{{\"index\":1,\"delta\":{{\"content\":\"no\"}}}}]}}\n\n"
            ),
            "text(Hi) end_turn end",
        ),
    ] {
        let stream = stream(&[text], &end);
        let (shown, result) = decode([stream.as_bytes()]);
        assert_eq!((shown.as_str(), result), (expected, Ok(())), "{end}");
    }
}

#[test]
fn an_answer_in_one_piece_is_an_answer() {
    for (json, expected) in [
        (
            r#"{"id":"a","choices":[{"index":0,"delta":{},"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
            "text(Hi) end_turn 3/4 end",
        ),
        (
            r#"{"id":"a","choices":[{"message":{"reasoning":"Hm.","content":null,"tool_calls":[{"id":"call_one","function":{"name":"x","arguments":"{}"}}]},"finish_reason":""}]}"#,
            r#"thinking(Hm.) call_one=x({}) given {"reasoning":null} tool_use end"#,
        ),
    ] {
        for json in [json.to_owned(), format!("\u{feff} \n{json}\n")] {
            let (shown, result) = decode([json.as_bytes()]);
            assert_eq!((shown.as_str(), result), (expected, Ok(())), "{json}");
        }
        let (_, result) = decode([&json.as_bytes()[..json.len() - 1]]);
        assert!(result.is_err(), "{json}");
    }
}

/// Servers that close without a reason: an answer is whole if its calls are there, or its tokens have been counted.
#[test]
fn an_answer_that_lacks_nothing_needs_no_reason() {
    let call = |arguments: &str| {
        let function = serde_json::json!({"name": "x", "arguments": arguments});
        let call = serde_json::json!({"index": 0, "id": "call_one", "function": function});
        serde_json::json!({"tool_calls": [call]}).to_string()
    };
    let (text, none) = (r#"{"content":"Hi"}"#, call(""));
    let count =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
    let early = "the answer ended early";
    let cut = "the answer ended within a tool call";
    for (deltas, end, expected) in [
        (vec![call("{}")], "", Ok("call_one=x({}) tool_use end")),
        (
            vec![call("{}")],
            count,
            Ok("call_one=x({}) tool_use 3/4 end"),
        ),
        (
            vec![text.to_owned(), call("{}")],
            "",
            Ok("text(Hi) call_one=x({}) tool_use end"),
        ),
        (
            vec![none.clone()],
            count,
            Ok("call_one=x() tool_use 3/4 end"),
        ),
        (
            vec![text.to_owned()],
            count,
            Ok("text(Hi) end_turn 3/4 end"),
        ),
        (vec![none], "", Err(early)),
        (vec![call("{\"a")], "", Err(early)),
        (vec![call("[1]")], "", Err(early)),
        (vec![call("{\"a")], count, Err(cut)),
        (vec![call("{}"), text.to_owned()], "", Err(early)),
        (
            vec![
                call("{}"),
                r#"{"tool_calls":[{"index":1,"id":"call_two"}]}"#.to_owned(),
            ],
            "",
            Err(early),
        ),
        (
            vec![],
            count,
            Err("the stream ended before an answer began"),
        ),
        (vec!["{}".to_owned()], count, Err(early)),
    ] {
        let deltas: Vec<_> = deltas.iter().map(String::as_str).collect();
        let stream = stream(&deltas, end);
        let (shown, result) = decode([stream.as_bytes()]);
        let found = result.as_ref().map(|()| shown.as_str());
        assert_eq!(
            found.map_err(|error| error.message.as_str()),
            expected,
            "{stream}"
        );
    }
    // Numbers that are sent amid the answer are no end of it.
    let amid = stream(&[text], &(count.to_owned() + &stream(&[text], "")));
    assert!(decode([amid.as_bytes()]).1.is_err());
}

#[test]
fn incomplete_answers_are_errors() {
    use ErrorClass as E;
    let text = r#"{"content":"Hi"}"#;
    let cut = r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{\"a"}}]}"#;
    let nameless = r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"arguments":"{}"}}]}"#;
    let stop = finish("stop");
    for (deltas, end, class, message) in [
        (
            &[][..],
            "",
            E::Protocol,
            "the stream ended before an answer began",
        ),
        (
            &[],
            "data: [DONE]\n\n",
            E::Protocol,
            "the stream ended before an answer began",
        ),
        (
            &[],
            ": ping\n\n",
            E::Protocol,
            "the stream ended before an answer began",
        ),
        (&[text], "", E::Protocol, "the answer ended early"),
        (
            &[text],
            "data: {\"choices\":[{\"delta\":{},\"finish_",
            E::Protocol,
            "the answer ended early",
        ),
        (&[], &stop, E::Protocol, "the answer is empty"),
        (
            &[cut],
            &stop,
            E::Protocol,
            "the answer ended within a tool call",
        ),
        (
            &[cut],
            "data: [DONE]\n\n",
            E::Protocol,
            "the answer ended within a tool call",
        ),
        (
            &[nameless],
            &stop,
            E::Protocol,
            "a tool call without a name",
        ),
        (
            &[text],
            "data: {broken}\n\n",
            E::Protocol,
            "cannot parse an event of the answer (key must be a string at line 1 column 2): {broken}",
        ),
        (
            &[text],
            "data: {\"error\":{\"message\":\"no\",\"type\":null,\"code\":\"500\"}}\n\n",
            E::Server,
            "no",
        ),
        (
            &[],
            "event: error\ndata: {\"error\":{\"message\":\"no\",\"code\":429}}\n\n",
            E::RateLimit,
            "no",
        ),
        (
            &[],
            "[{\"error\":{\"message\":\"no\",\"code\":429}}]",
            E::RateLimit,
            "no",
        ),
        (
            &[text],
            "data: {\"error\":\"Overloaded\",\"choices\":[]}\n\n",
            E::Overloaded,
            "Overloaded",
        ),
        (
            &[text],
            "data: {\"object\":\"error\",\"message\":\"prompt is too long\",\"code\":400}\n\n",
            E::ContextTooLong,
            "prompt is too long",
        ),
        (
            &[text],
            &finish("error"),
            E::Server,
            "the server ended the answer with an error and gave no reason",
        ),
        (
            &[],
            "{\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}",
            E::Server,
            "no (server_error)",
        ),
        (
            &[],
            "{\"detail\":\"no\"}",
            E::Protocol,
            "the server's JSON holds no answer",
        ),
        (
            &[],
            "{\"choices\":",
            E::Protocol,
            "cannot parse an event of the answer (EOF while parsing a value at line 1 column 11): {\"choices\":",
        ),
        (
            &[],
            "<!doctype html><title>Log in</title>",
            E::Protocol,
            "a web page instead of an answer: Log in",
        ),
    ] {
        let stream = stream(deltas, end);
        let (shown, result) = decode([stream.as_bytes()]);
        let error = result.expect_err(&stream);
        assert_eq!(
            (error.class, error.message.as_str()),
            (class, message),
            "{stream}"
        );
        assert!(!shown.contains("end"), "{shown}");
    }
}

proptest! {
    #[test]
    fn garbage_is_no_panic(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..20),
                Just(b"data: ".to_vec()),
                Just(b"\n\n".to_vec()),
                Just(b"{\"choices\":[{\"delta\":".to_vec()),
                Just(b"{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"x\",\"arguments\":\"{".to_vec()),
                Just(b"{\"content\":[{\"type\":\"thinking\"".to_vec()),
                Just(b"}]}".to_vec()),
                Just(b"[DONE]".to_vec()),
                Just(b"[".repeat(200)),
            ],
            0..12,
        ),
    ) {
        let _ = decode(pieces.iter().map(Vec::as_slice));
    }

    #[test]
    fn cuts_change_nothing(cuts in proptest::collection::vec(0usize..900, 0..8)) {
        let stream = stream(
            &[
                r#"{"role":"assistant","content":"","reasoning_content":"Hm é🦀"}"#,
                r#"{"content":"So."}"#,
                r#"{"tool_calls":[{"index":0,"id":"call_one","function":{"name":"x","arguments":"{\"a\":"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"🦀\"}"}}]}"#,
            ],
            &finish("tool_calls").replace('\n', "\r\n"),
        );
        let bytes = stream.as_bytes();
        let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
        prop_assert_eq!(decode(pieces), decode([bytes]));
    }
}

/// The cost that a gateway reports is used; zero counts as unknown.
#[test]
fn the_cost_that_a_server_reports_is_used() {
    for (usage, expected) in [
        (
            r#"{"prompt_tokens":3,"completion_tokens":4,"cost":0.00693}"#,
            "text(Hi) billed 6930000000 end_turn 3/4 end",
        ),
        (
            r#"{"prompt_tokens":3,"completion_tokens":4,"cost":0.0}"#,
            "text(Hi) end_turn 3/4 end",
        ),
        (
            r#"{"prompt_tokens":3,"completion_tokens":4,"cost":{"total":1}}"#,
            "text(Hi) end_turn 3/4 end",
        ),
    ] {
        let end = format!("data: {{\"id\":\"a\",\"choices\":[],\"usage\":{usage}}}\n\n")
            + &finish("stop");
        let stream = stream(&[r#"{"content":"Hi"}"#], &end);
        let (shown, end) = decode([stream.as_bytes()]);
        assert_eq!((shown.as_str(), end), (expected, Ok(())), "{usage}");
    }
}
