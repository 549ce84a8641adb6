//! Answers of the Messages API that are not among the recordings: bytes in, events out.

use std::collections::VecDeque;

use ah_conversation::{ProviderError, StreamEvent};
use ah_provider::anthropic::Decoder;
use proptest::prelude::*;

/// An answer with every irregularity that is accepted.
const ODD: &str = concat!(
    "\u{feff}: hello\r\n\r\n",
    "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":9,",
    "\"cache_creation_input_tokens\":5,\"cache_creation\":{\"ephemeral_1h_input_tokens\":2},\"output_tokens\":1}}}\r\n\r\n",
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":9}}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: news\ndata: {\"type\":\"news\",\"index\":7}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"s\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm.\"}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"ig\"}}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"oracle\",\"text\":[1],\"x\":{\"y\":null}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"oracle_delta\",\"text\":{\"z\":1}}}\n\n",
    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"bash\",\"input\":{}}}\n\n",
    "data: {\"type\":\"content_block_delta\",\ndata: \"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\\u00e9🦀\"}}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null},\"usage\":{\"output_tokens\":4}}\n\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"bored\"},\"usage\":{\"output_tokens\":7,\"input_tokens\":null}}\n\n",
    "data: [DONE]\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
    "data: anything\n\n",
);

fn decode(pieces: &[&[u8]]) -> (VecDeque<StreamEvent>, Result<(), ProviderError>) {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    let fed = pieces
        .iter()
        .try_for_each(|piece| decoder.feed(piece, &mut events));
    let end = fed.and_then(|()| decoder.finish(&mut events));
    (events, end)
}

/// The totals of an answer that is only a summary leave the summary out.
#[test]
fn the_tokens_of_a_summary_of_the_server_count() {
    let part = r#""iterations":[{"type":"compaction","input_tokens":60,"cache_read_input_tokens":50000,"output_tokens":83}]"#;
    for (totals, reason, expected) in [
        (
            "\"input_tokens\":0,\"output_tokens\":0",
            "compaction",
            50_143,
        ),
        (
            "\"input_tokens\":700,\"output_tokens\":83",
            "compaction",
            783,
        ),
        ("\"input_tokens\":700,\"output_tokens\":83", "end_turn", 783),
    ] {
        let answer = format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",\"usage\":{{\"input_tokens\":0}}}}}}\n\n\
             data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}},\"usage\":{{{totals},{part}}}}}\n\n\
             data: {{\"type\":\"message_stop\"}}\n\n"
        );
        let (events, end) = decode(&[answer.as_bytes()]);
        assert_eq!(end, Ok(()));
        let used = events.iter().find_map(|event| match event {
            StreamEvent::Stopping { usage, .. } => Some(usage.total()),
            _ => None,
        });
        assert_eq!(used, Some(expected), "{totals} {reason}");
    }
}

#[test]
fn unknown_events_and_blocks_pass_through() {
    let (events, end) = decode(&[ODD.as_bytes()]);
    assert_eq!(end, Ok(()));
    let lines: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Started { id: "m", usage: Usage { input_tokens: 9, output_tokens: 1, cache_creation_input_tokens: 5, cache_read_input_tokens: 0, cache_creation_1h_input_tokens: 2, web_search_requests: 0 } }
    BlockStarted { index: 0, block: Thinking("") }
    Delta { index: 0, delta: Signature("s") }
    Delta { index: 0, delta: Thinking("Hm.") }
    Delta { index: 0, delta: Signature("ig") }
    BlockStopped { index: 0 }
    BlockStarted { index: 3, block: Other(Object {"type": String("oracle"), "text": Array [Number(1)], "x": Object {"y": Null}}) }
    Delta { index: 3, delta: Other(Object {"type": String("oracle_delta"), "text": Object {"z": Number(1)}}) }
    BlockStarted { index: 1, block: ToolUse { id: t, name: "bash", input: Object {} } }
    Delta { index: 1, delta: InputJson("{\"a\":é🦀") }
    Stopping { stop_reason: Other("bored"), usage: Usage { input_tokens: 9, output_tokens: 7, cache_creation_input_tokens: 5, cache_read_input_tokens: 0, cache_creation_1h_input_tokens: 2, web_search_requests: 0 } }
    Ended
    "#);
}

#[test]
fn cut_anywhere_it_is_the_same() {
    let whole = decode(&[ODD.as_bytes()]);
    for at in 0..ODD.len() {
        let (first, second) = ODD.as_bytes().split_at(at);
        assert_eq!(decode(&[first, second]), whole, "cut at {at}");
    }
}

#[test]
fn invalid_and_incomplete_answers_are_errors() {
    let start = r#"{"type":"message_start","message":{"id":"m"}}"#;
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let deep = format!(
        r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"x","x":{}"#,
        "[".repeat(100_000)
    );
    for (events, expected) in [
        (vec![], "the stream ended before an answer began"),
        (vec![start], "the answer ended early"),
        (vec![start, block, delta], "the answer ended early"),
        (vec![start, stop], "the answer ended without a stop reason"),
        (vec![delta], "content_block_delta came before message_start"),
        (
            vec![r#"{"type":"message_start"}"#],
            "message_start without a message",
        ),
        (
            vec![start, delta],
            "content_block_delta for content block 0, which is not open",
        ),
        (vec![start, block, block], "content block 0 started twice"),
        (vec!["nonsense"], "cannot parse an event of the answer"),
        (vec![start, &deep], "cannot parse an event of the answer"),
        (
            vec![
                start,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use"}}"#,
            ],
            "a tool use without id or name",
        ),
        (
            vec![start, r#"{"type":"content_block_delta","index":0}"#],
            "content_block_delta without index or delta",
        ),
        (
            vec![r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#],
            "Overloaded (overloaded_error)",
        ),
        (
            vec![r#"{"type":"error"}"#],
            "the server ended the answer with an error and gave no reason",
        ),
    ] {
        let stream: String = events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        let (decoded, end) = decode(&[stream.as_bytes()]);
        let error = end.expect_err("an error");
        assert!(error.message.starts_with(expected), "{error}");
        assert!(error.class.is_retryable(), "{error}");
        assert!(!decoded.contains(&StreamEvent::Ended));
    }
}

#[test]
fn json_that_is_not_an_answer_is_an_error() {
    for (object, expected) in [
        (
            r#"{"type":"error","error":{"type":"api_error","message":"down"}}"#,
            "down (api_error)",
        ),
        (r#"{"ok":true}"#, "the server's JSON holds no answer"),
        (
            r#"{"id":"m","content":["#,
            "cannot parse an event of the answer",
        ),
        (
            r#"{"id":"m","content":[]}"#,
            "the answer ended without a stop reason",
        ),
        (
            r#"{"id":"m","content":[7],"stop_reason":"end_turn"}"#,
            "content_block_start without index or block",
        ),
    ] {
        let error = decode(&[object.as_bytes()]).1.expect_err("an error");
        assert!(error.message.starts_with(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn garbage_is_no_panic_and_no_answer(
        parts in proptest::collection::vec(
            prop_oneof![
                "[ -~]{0,20}\n{0,2}",
                (0..ODD.len(), 0..ODD.len()).prop_map(|(from, to)| {
                    let from = ODD.floor_char_boundary(from);
                    ODD[from..ODD.floor_char_boundary(to).max(from)].to_owned()
                }),
            ],
            0..12,
        ),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let bytes = parts.concat().into_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let (events, end) = decode(&pieces);
        prop_assert_eq!(end.is_ok(), events.contains(&StreamEvent::Ended));
        prop_assert_eq!(decode(&[&bytes]), (events, end));
    }
}
