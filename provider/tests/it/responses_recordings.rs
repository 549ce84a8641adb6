//! Recorded answers of the Responses API are decoded like OpenAI's SDK does, however they are cut.

use std::collections::VecDeque;
use std::time::SystemTime;

use ah_conversation::{BlockStart, Delta, ProviderError, StreamEvent};
use ah_provider::failure;
use ah_provider::responses::Decoder;
use serde_json::{Value, json};

use crate::openai_recordings::class_of;
use crate::recordings::{Recording, places, recordings_of};

/// Recordings that the SDK takes for answers and `ah` does not, with the error.
const NO_ANSWERS: [(&str, &str); 2] = [
    // It is a chat completion.
    (
        "responses-json-azure-deepseek-reasoning-1-58240a",
        "the server's JSON holds no answer",
    ),
    // A failed response.
    ("responses-stream-err-mid-overloaded", "Overloaded"),
];

/// Files that were edited by hand, so that the pieces of the answer, which `ah` reads, differ from the whole, which the
/// SDK reads. The first two have several answers, of which the SDK reads the last and `ah` the first.
const EDITED: [&str; 3] = [
    "responses-stream-azure-reasoning-encrypted-content-1-c2ac1c",
    "responses-stream-openai-reasoning-encrypted-content-1-fb7fa6",
    "responses-stream-openai-shell-container-1-e82950",
];

/// Recordings of LiteLLM, which sends the signature of the reasoning at the end, too late for its block.
const LATE_SEALS: [&str; 2] = [
    "responses-stream-anthropic-stream-test-anthropic-advisor-tool-stream-a509a7",
    "responses-stream-anthropic-stream-test-anthropic-code-execution-tool-stream-dced4f",
];

fn recordings() -> Option<Vec<Recording>> {
    let recordings = recordings_of("responses")?;
    assert!(recordings.len() > 100, "{}", recordings.len());
    Some(recordings)
}

type Decoded = (VecDeque<StreamEvent>, Result<(), ProviderError>);

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::default();
    let mut events = VecDeque::new();
    for piece in pieces {
        if let Err(error) = decoder.feed(piece, &mut events) {
            return (events, Err(error));
        }
    }
    let end = decoder.finish(&mut events);
    (events, end)
}

#[test]
fn answers_decode_as_the_sdk_reads_them() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut strict = Vec::new();
    for recording in recordings.iter().filter(is_answer) {
        let name = recording.name.as_str();
        let (events, end) = decode([recording.body.as_slice()]);
        match (text(&recording.expected["outcome"]), end) {
            ("ok", Ok(())) => {
                let (mut read, mut expected) =
                    (assemble(&events), expectation(&recording.expected));
                let calls = read["calls"].as_array_mut().expect("an array").iter_mut();
                for (call, told) in calls.zip(expected["calls"].as_array().expect("an array")) {
                    let (id, ours) = (text(&told["call_id"]), &mut call["call_id"]);
                    if id.len() < 8 && text(ours).starts_with(id) {
                        // Not unique in a conversation.
                        *ours = id.into();
                    }
                }
                if LATE_SEALS.contains(&name) {
                    expected["reasoning"] = json!([]);
                }
                assert_eq!(
                    read == expected,
                    !EDITED.contains(&name),
                    "{name} {read} {expected}"
                );
            }
            ("stream_error", Err(error)) => {
                let told = text(&recording.expected["error"]["message"]);
                assert!(error.message.starts_with(told), "{name}: {error}");
                assert_eq!(error.class, class_of(name), "{name}: {error}");
            }
            ("ok", Err(error)) => strict.push((name, error.message)),
            (outcome, end) => panic!("{name}: {outcome} but {end:?}"),
        }
    }
    strict.sort();
    let strict: Vec<_> = strict
        .iter()
        .map(|(name, message)| (*name, message.as_str()))
        .collect();
    assert_eq!(strict, NO_ANSWERS);
}

fn is_answer(recording: &&Recording) -> bool {
    recording.status == 200
}

#[test]
fn cuts_change_nothing() {
    let Some(recordings) = recordings() else {
        return;
    };
    for recording in recordings.iter().filter(is_answer) {
        let (name, body) = (&recording.name, recording.body.as_slice());
        let whole = decode([body]);
        assert_eq!(decode(body.chunks(1)), whole, "{name} byte by byte");
    }
}

#[test]
fn an_answer_cut_anywhere_is_not_whole() {
    let Some(recordings) = recordings() else {
        return;
    };
    let small = |recording: &&Recording| is_answer(recording) && recording.body.len() < 9_000;
    let mut seen = 0;
    for recording in recordings.iter().filter(small) {
        let (name, body) = (&recording.name, recording.body.as_slice());
        // Only the line breaks after the last event are optional.
        let events = body.trim_ascii_end();
        let last = events
            .strip_suffix(b"data: [DONE]")
            .unwrap_or(events)
            .iter()
            .rposition(|byte| *byte == b'}')
            .expect("an event");
        seen += 1;
        for end in places(name, last + 1) {
            let (events, result) = decode([&body[..end]]);
            assert!(result.is_err(), "{name} cut at {end}");
            assert!(!events.contains(&StreamEvent::Ended), "{name} cut at {end}");
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn refusals_have_classes() {
    let Some(recordings) = recordings() else {
        return;
    };
    for recording in recordings
        .iter()
        .filter(|recording| recording.status != 200)
    {
        let body = String::from_utf8_lossy(&recording.body);
        let header = |name: &str| recording.headers.get(name)?.as_str();
        let error = failure::in_response(recording.status, header, &body, SystemTime::UNIX_EPOCH);
        assert_eq!(
            error.class,
            class_of(&recording.name),
            "{}: {error}",
            recording.name
        );
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The parts of an answer that the expectations have.
fn assemble(events: &VecDeque<StreamEvent>) -> Value {
    let mut answer = json!({"text": "", "reasoning": [], "calls": []});
    let mut calls = Vec::<(usize, Value, String)>::new();
    let mut seals = Vec::<String>::new();
    for event in events {
        match event {
            StreamEvent::Started { id, .. } => answer["id"] = json!(id),
            StreamEvent::BlockStarted { index, block } => match block {
                BlockStart::ToolUse { id, name, .. } => {
                    let call = json!({"call_id": id.as_str(), "name": name});
                    calls.push((*index, call, String::new()));
                }
                // The expectations do not have the calls of the server's own tools.
                BlockStart::Text(_) | BlockStart::Thinking(_) | BlockStart::Other(_) => {}
                BlockStart::RedactedThinking(_) => panic!("{block:?}"),
            },
            StreamEvent::Delta { index, delta } => match delta {
                Delta::Text(more) => {
                    answer["text"] = (text(&answer["text"]).to_owned() + more).into();
                }
                Delta::Thinking(_) => {}
                Delta::Signature(more) => seals.push(more.clone()),
                Delta::InputJson(more) => {
                    let call = calls.iter_mut().find(|(at, ..)| at == index);
                    call.expect("a call that began").2.push_str(more);
                }
                Delta::Other(raw) => panic!("{raw}"),
            },
            StreamEvent::Stopping { stop_reason, usage } => {
                answer["stop_reason"] = json!(stop_reason.as_str());
                answer["usage"] = json!(usage);
            }
            StreamEvent::Sent { .. }
            | StreamEvent::Fallback(_)
            | StreamEvent::Opaque { .. }
            | StreamEvent::Billed { .. }
            | StreamEvent::Accepted { .. }
            | StreamEvent::LeftOut { .. }
            | StreamEvent::CacheMissed(_)
            | StreamEvent::ThinkingDropped(_)
            | StreamEvent::Reading { .. }
            | StreamEvent::Retry(_)
            | StreamEvent::BlockStopped { .. }
            | StreamEvent::Ended => {}
        }
    }
    let calls = calls.into_iter().map(|(_, mut call, arguments)| {
        call["arguments"] = arguments.into();
        call
    });
    answer["calls"] = calls.collect();
    let items = seals
        .iter()
        .map(|seal| serde_json::from_str::<Value>(seal).expect("an item"));
    answer["reasoning"] = sealed(items);
    answer
}

/// The ids of the signed items; the signatures differ from event to event.
fn sealed(items: impl IntoIterator<Item = Value>) -> Value {
    items
        .into_iter()
        .filter(|item| !item["encrypted_content"].is_null())
        .map(|item| item["id"].clone())
        .collect()
}

/// The expected result of `ah` for the result `expected` of the SDK.
fn expectation(expected: &Value) -> Value {
    let decoded = &expected["decoded"];
    let list = |field: &str| decoded[field].as_array().cloned().unwrap_or_default();
    let is_ours = |call: &Value| !text(&call["call_id"]).starts_with("srvtoolu_");
    let calls: Vec<_> = list("function_calls").into_iter().filter(is_ours).collect();
    let stop_reason = match text(&decoded["status"]) {
        "incomplete" => "max_tokens",
        _ if calls.is_empty() => "end_turn",
        _ => "tool_use",
    };
    let tokens = |path: &str| {
        decoded["usage"]
            .pointer(path)
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let read = tokens("/input_tokens_details/cached_tokens");
    let written = tokens("/input_tokens_details/cache_write_tokens");
    json!({
        "id": decoded["id"],
        "text": decoded["text"],
        "reasoning": sealed(list("reasoning")),
        "calls": calls,
        "stop_reason": stop_reason,
        "usage": {
            "input_tokens": tokens("/input_tokens") - read - written,
            "output_tokens": tokens("/output_tokens"),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
        },
    })
}
