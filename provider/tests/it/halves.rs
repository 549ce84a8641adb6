//! Halves of characters in the JSON of servers (`\ud83d` without `\ude00`), for every API: joined where a stream cuts a
//! character in two, else replaced, and all else is kept.

use std::collections::VecDeque;
use std::time::UNIX_EPOCH;

use ah_conversation::{BlockStart, Delta, StreamEvent};
use ah_provider::failure;

macro_rules! decode {
    ($decoder:ty, $body:expr) => {{
        let mut decoder = <$decoder>::default();
        let mut events = VecDeque::new();
        decoder.feed($body, &mut events).unwrap();
        decoder.finish(&mut events).unwrap();
        events
    }};
}

fn decoded(api: &str, body: &str) -> VecDeque<StreamEvent> {
    match api {
        "messages" => decode!(ah_provider::anthropic::Decoder, body.as_bytes()),
        "chat" => decode!(ah_provider::openai::Decoder, body.as_bytes()),
        _ => decode!(ah_provider::responses::Decoder, body.as_bytes()),
    }
}

/// The texts of an answer, and the arguments of its calls.
fn said(events: &VecDeque<StreamEvent>) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        StreamEvent::Delta {
            delta: Delta::Text(text) | Delta::Thinking(text) | Delta::InputJson(text),
            ..
        }
        | StreamEvent::BlockStarted {
            block: BlockStart::Text(text),
            ..
        } => Some(text.as_str()),
        _ => None,
    });
    pieces.collect()
}

/// A stream that has each of `pieces`, in which `@` is the place of the text.
fn stream(start: &[&str], piece: &str, pieces: &[&str], end: &[&str]) -> String {
    let pieces = pieces.iter().map(|text| piece.replace('@', text));
    let events = start.iter().map(|event| (*event).to_owned());
    let events = events.chain(pieces);
    let events = events.chain(end.iter().map(|event| (*event).to_owned()));
    events.map(|event| format!("data: {event}\n\n")).collect()
}

fn streamed(api: &str, field: &str, pieces: &[&str]) -> String {
    match (api, field) {
        ("messages", field) => {
            let block = match field {
                "partial_json" => r#"{"type":"tool_use","id":"t","name":"x","input":{}}"#,
                "thinking" => r#"{"type":"thinking","thinking":""}"#,
                _ => r#"{"type":"text","text":""}"#,
            };
            let kind = match field {
                "partial_json" => "input_json",
                other => other,
            };
            stream(
                &[
                    r#"{"type":"message_start","message":{"id":"m","usage":{}}}"#,
                    &format!(
                        r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#
                    ),
                ],
                &format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"{kind}_delta","{field}":"@"}}}}"#
                ),
                pieces,
                &[
                    r#"{"type":"content_block_stop","index":0}"#,
                    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}"#,
                    r#"{"type":"message_stop"}"#,
                ],
            )
        }
        ("chat", "arguments") => stream(
            &[
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":""}}]}}]}"#,
            ],
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]}}]}"#,
            pieces,
            &[
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
                "[DONE]",
            ],
        ),
        ("chat", field) => stream(
            &[],
            &format!(r#"{{"choices":[{{"index":0,"delta":{{"{field}":"@"}}}}]}}"#),
            pieces,
            &[
                r#"{"choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}]}"#,
                "[DONE]",
            ],
        ),
        (_, field) => stream(
            &[
                r#"{"type":"response.created","response":{"id":"r"}}"#,
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#,
            ],
            &format!(r#"{{"type":"response.{field}.delta","output_index":0,"delta":"@"}}"#),
            pieces,
            &[
                r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}}"#,
                r#"{"type":"response.completed","response":{"id":"r","status":"completed"}}"#,
            ],
        ),
    }
}

#[test]
fn a_character_cut_between_two_pieces_of_a_stream_is_whole() {
    for (api, field) in [
        ("messages", "text"),
        ("messages", "thinking"),
        ("messages", "partial_json"),
        ("chat", "content"),
        ("chat", "reasoning_content"),
        ("chat", "arguments"),
        ("responses", "output_text"),
        ("responses", "reasoning_summary_text"),
    ] {
        for (pieces, expected) in [
            (&[r"a \ud83d", r"\ude00 b", "c"][..], "a 😀 bc"),
            (&["a ", r"\ud83d", r"\ude00", " b"], "a 😀 b"),
            (&[r"\ud83d", r"\ude00\ud83d", r"\ude01 b"], "😀😁 b"),
            (&[r"a \ud83d b", "c"], "a \u{fffd} bc"),
            (&[r"a \ude00", r"\ud83d"], "a \u{fffd}\u{fffd}"),
            (&[r"a \ud83d", "b"], "a \u{fffd}b"),
            (&[r"a \ud83d"], "a \u{fffd}"),
        ] {
            let events = decoded(api, &streamed(api, field, pieces));
            let said = said(&events);
            let said = said.strip_suffix('.').unwrap_or(&said);
            assert_eq!(said, expected, "{api} {field} {pieces:?}");
        }
    }
}

#[test]
fn a_whole_answer_with_half_of_a_character_is_kept() {
    for (api, answer) in [
        (
            "messages",
            r#"{"id":"m","type":"message","content":[{"type":"text","text":"a \ud83d b"}],"stop_reason":"end_turn","usage":{}}"#,
        ),
        (
            "chat",
            r#"{"id":"c","choices":[{"message":{"content":"a \ud83d b"},"finish_reason":"stop"}]}"#,
        ),
        (
            "responses",
            r#"{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a \ud83d b"}]}]}"#,
        ),
    ] {
        assert_eq!(said(&decoded(api, answer)), "a \u{fffd} b", "{api}");
    }
}

#[test]
fn errors_with_half_of_a_character_keep_their_words() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"wait \udce9 a moment"}}"#;
    let error = failure::in_response(429, |_| None, body, UNIX_EPOCH);
    assert_eq!(error.message, "wait \u{fffd} a moment");
}
