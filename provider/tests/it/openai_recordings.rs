//! Recorded answers of chat completions, from two dozen vendors and the real LiteLLM proxy, are decoded like OpenAI's SDK
//! does, however they are cut.

use std::collections::VecDeque;
use std::time::SystemTime;

use ah_conversation::{BlockStart, Delta, ErrorClass, ProviderError, StreamEvent};
use ah_provider::failure;
use ah_provider::openai::Decoder;
use serde_json::{Value, json};

use crate::recordings::{Recording, places, recordings_of, without_kind};

/// Recordings that the SDK takes for complete and `ah` does not, with the error.
const EARLY_ENDS: [(&str, &str); 2] = [
    ("chat-stream-clean-end-empty", "the answer is empty"),
    (
        "chat-stream-clean-end-tool-no-stop",
        "the answer ended within a tool call",
    ),
];

/// Recordings of which `ah` reads more than the SDK, and the additional part.
const MORE_THAN_THE_SDK: [(&str, &str); 2] = [
    // Sent only in a vendor's own field.
    (
        "chat-stream-test-groq-model-web-search-tool-stream-dea1a9",
        "usage",
    ),
    // In content parts that the SDK drops.
    (
        "chat-stream-mistral-v1-chat-completions-post-ccfa08da-d8102b",
        "reasoning",
    ),
];

/// Expected classes of recorded errors, by parts of their names; the first match holds.
pub(crate) const CLASSES: [(&str, ErrorClass); 35] = {
    use ErrorClass as E;
    [
        // LiteLLM reports errors of the upstream server as its own.
        (
            "chat-passthrough-stream-chat-stream-test-tool-use-failed",
            E::Server,
        ),
        (
            "chat-passthrough-stream-chat-stream-mistral-reasoning",
            E::Server,
        ),
        ("tool-use-failed", E::Protocol),
        ("stream-error", E::InvalidRequest),
        (
            "ure-grok-4-1-fast-non-reasoning-handles-context-length",
            E::RateLimit,
        ),
        ("context-length", E::ContextTooLong),
        ("h-h-exceeded-errors", E::ContextTooLong),
        ("-ctx", E::ContextTooLong),
        ("err-413", E::ContextTooLong),
        ("credit", E::Billing),
        ("openai-error-1", E::Billing),
        ("model-name-suggestion", E::ModelNotFound),
        ("unknown-model", E::ModelNotFound),
        ("regular-error", E::ModelNotFound),
        ("agents-and-tools", E::ModelNotFound),
        ("create-api-error", E::ModelNotFound),
        ("err-404", E::ModelNotFound),
        ("auth", E::Authentication),
        ("api-key", E::Authentication),
        ("prompt-builder", E::Authentication),
        ("exception-event", E::Authentication),
        ("response-error-734b56", E::Authentication),
        ("err-401", E::Authentication),
        ("err-403", E::Authentication),
        ("-429", E::RateLimit),
        ("cooldown", E::RateLimit),
        ("openrouter-errors-raised", E::RateLimit),
        ("err-529-empty", E::Server),
        ("err-529", E::Overloaded),
        ("overloaded", E::Overloaded),
        ("err-400", E::InvalidRequest),
        ("-50", E::Server),
        ("err-mid-api", E::Server),
        ("no-key", E::Server),
        ("cut-", E::Server),
    ]
};

/// The expected class of a recorded error.
pub(crate) fn class_of(name: &str) -> ErrorClass {
    let known = CLASSES.iter().find(|(part, _)| name.contains(part));
    // All other errors are invalid requests.
    known.map_or(ErrorClass::InvalidRequest, |(_, class)| *class)
}

fn recordings() -> Option<Vec<Recording>> {
    let recordings = recordings_of("chat")?;
    assert!(recordings.len() > 400, "{}", recordings.len());
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
                let mut expected = expectation(&recording.expected);
                let mut read = assemble(&events);
                adapt(&mut read, &expected);
                for (_, field) in MORE_THAN_THE_SDK.iter().filter(|(more, _)| *more == name) {
                    assert_ne!(read[field], expected[field], "{name}");
                    expected[field] = read[field].clone();
                }
                assert_eq!(read, expected, "{name}");
            }
            ("stream_error", Err(error)) => {
                let told = text(&recording.expected["error"]["message"]);
                let words = failure::excerpt(told, 500);
                // A gateway's message quotes that of the server behind it, which is the one that is told.
                let is_quoted = told.contains(without_kind(&error.message));
                let is_told = error.message.starts_with(&words) || is_quoted;
                assert!(is_told, "{name}: {error}");
                assert_eq!(error.class, class_of(name), "{name}: {error}");
            }
            ("ok", Err(error)) => {
                assert!(error.class.is_retryable(), "{name}: {error}");
                strict.push((name, error.message));
            }
            (outcome, end) => panic!("{name}: {outcome} but {end:?}"),
        }
        let ends = events.iter().filter(|event| **event == StreamEvent::Ended);
        assert!(ends.count() < 2, "{name}");
    }
    strict.sort();
    let strict: Vec<_> = strict
        .iter()
        .map(|(name, message)| (*name, message.as_str()))
        .collect();
    assert_eq!(strict, EARLY_ENDS);
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
        if body.len() < 1_500 {
            for at in places(name, body.len()) {
                let (first, second) = body.split_at(at);
                assert_eq!(decode([first, second]), whole, "{name} cut at {at}");
            }
        }
    }
}

#[test]
fn an_answer_cut_anywhere_is_not_whole() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut seen = 0;
    for recording in recordings.iter().filter(is_answer) {
        let (name, body) = (&recording.name, recording.body.as_slice());
        // The parts after the finish reason are optional, so a cut there cannot be detected.
        let reason = body
            .windows(17)
            .position(|window| window == b"\"finish_reason\":\"");
        let (Some(reason), 0..2_000) = (reason, body.len()) else {
            continue;
        };
        seen += 1;
        let whole = assemble(&decode([body]).0);
        let calls = whole["calls"].as_array().expect("calls");
        for end in places(name, reason) {
            let (events, result) = decode([&body[..end]]);
            assert_eq!(
                result.is_ok(),
                events.contains(&StreamEvent::Ended),
                "{name} cut at {end}"
            );
            if result.is_ok() {
                // Calls that are there need no end.
                let read = assemble(&events);
                let there = read["calls"].as_array().expect("calls");
                assert!(!there.is_empty(), "{name} cut at {end}");
                assert!(calls.starts_with(there), "{name} cut at {end}");
                assert_eq!(read["text"], whole["text"], "{name} cut at {end}");
            }
        }
    }
    assert!(seen > 50, "{seen}");
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
        let name = recording.name.as_str();
        assert_eq!(error.class, class_of(name), "{name}: {error}");
        if recording.headers.get("llm_provider-retry-after").is_some() {
            assert_eq!(error.retry_after.expect("a header").as_secs(), 7, "{name}");
        }
    }
}

/// Removes deliberate differences from `read`.
fn adapt(read: &mut Value, expected: &Value) {
    if expected["id"] == "" {
        // The SDK takes the id of a first chunk that is not part of the answer.
        read["id"] = json!("");
    }
    let calls = expected["calls"].as_array().expect("an array");
    for (index, call) in calls.iter().enumerate() {
        let (id, ours) = (text(&call["id"]), &mut read["calls"][index]["id"]);
        if id.len() < 8 && text(ours).contains(id) {
            // Not unique in a conversation.
            *ours = call["id"].clone();
        }
    }
}

/// The parts of an answer that the expectations have.
fn assemble(events: &VecDeque<StreamEvent>) -> Value {
    let mut answer = json!({"text": "", "reasoning": "", "seals": "", "calls": []});
    let mut calls = Vec::<(usize, Value, String)>::new();
    let grow = |answer: &mut Value, field: &str, more: &str| {
        let text = answer[field].as_str().unwrap_or_default().to_owned() + more;
        answer[field] = text.into();
    };
    for event in events {
        match event {
            StreamEvent::Started { id, .. } => answer["id"] = json!(id),
            StreamEvent::BlockStarted { index, block } => match block {
                BlockStart::ToolUse { id, name, .. } => {
                    let call = json!({"id": id.as_str(), "name": name});
                    calls.push((*index, call, String::new()));
                }
                BlockStart::RedactedThinking(data) => grow(&mut answer, "seals", data),
                BlockStart::Text(_) | BlockStart::Thinking(_) | BlockStart::Other(_) => {}
            },
            StreamEvent::Delta { index, delta } => match delta {
                Delta::Text(more) => grow(&mut answer, "text", more),
                Delta::Thinking(more) => grow(&mut answer, "reasoning", more),
                Delta::Signature(more) => grow(&mut answer, "seals", more),
                Delta::InputJson(more) => {
                    let call = calls.iter_mut().find(|(at, ..)| at == index);
                    call.expect("a call that began").2.push_str(more);
                }
                Delta::Other(raw) => panic!("{raw}"),
            },
            StreamEvent::Opaque {
                index: None,
                fields,
            } => {
                grow(
                    &mut answer,
                    "seals",
                    &seals_of(fields.get("reasoning_details")),
                );
            }
            StreamEvent::Opaque { .. } => {}
            StreamEvent::Stopping { stop_reason, usage } => {
                answer["stop_reason"] = json!(stop_reason.as_str());
                answer["usage"] = json!(usage);
            }
            StreamEvent::Sent { .. }
            | StreamEvent::Fallback(_)
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
    answer
}

/// The expected result of `ah` for the result `expected` of the SDK.
fn expectation(expected: &Value) -> Value {
    let decoded = &expected["decoded"];
    let choice = &decoded["choices"][0];
    let is_ours = |call: &&Value| !text(&call["id"]).starts_with("srvtoolu_");
    let calls: Vec<_> = choice["tool_calls"]
        .as_array()
        .expect("an array")
        .iter()
        .filter(is_ours)
        .map(|call| {
            json!({
                "id": call["id"],
                "name": call["name"],
                "arguments": text(&call["arguments_text"]),
            })
        })
        .collect();
    let stop_reason = match text(&choice["finish_reason"]) {
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        "" | "stop" | "eos" if !calls.is_empty() => "tool_use",
        "" | "stop" | "eos" => "end_turn",
        other => panic!("finish reason {other}"),
    };
    let content = match &expected["list_deltas_in_order"]["content"] {
        Value::Null => &choice["content"],
        parts => parts,
    };
    let told = match &decoded["usage"] {
        Value::Null => &expected["last_usage"],
        told => told,
    };
    json!({
        "id": decoded["id"],
        "text": words(content, "text"),
        "reasoning": reasoning(content, &choice["message_extras"]),
        "seals": seals(expected),
        "calls": calls,
        "stop_reason": stop_reason,
        "usage": usage(told),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text of a content, or of its parts of this type.
fn words(content: &Value, kind: &str) -> String {
    let of_parts = content
        .as_array()
        .into_iter()
        .flatten()
        .filter(|part| part["type"] == kind)
        .map(|part| match &part[kind] {
            Value::Array(_) => words(&part[kind], "text"),
            words => text(words).to_owned(),
        });
    match content {
        Value::String(words) if kind == "text" => words.clone(),
        _ => of_parts.collect(),
    }
}

fn reasoning(content: &Value, extras: &Value) -> String {
    let details = extras["reasoning_details"].as_array().into_iter().flatten();
    let details: String = details
        .flat_map(|detail| [text(&detail["text"]), text(&detail["summary"])])
        .collect();
    [
        words(content, "thinking"),
        text(&extras["reasoning_content"]).to_owned(),
        text(&extras["reasoning"]).to_owned(),
        details,
    ]
    .into_iter()
    .find(|words| !words.is_empty())
    .unwrap_or_default()
}

/// The signatures of the reasoning, concatenated.
fn seals(expected: &Value) -> String {
    let extras = &expected["decoded"]["choices"][0]["message_extras"];
    let deltas = &expected["list_deltas_in_order"];
    let lists = [
        &extras["thinking_blocks"],
        &deltas["thinking_blocks"],
        &extras["reasoning_details"],
    ];
    lists.map(|list| seals_of(Some(list))).concat()
}

/// The signatures and the sealed reasoning in a list, concatenated.
pub(crate) fn seals_of(list: Option<&Value>) -> String {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items
        .flat_map(|item| [text(&item["signature"]), text(&item["data"])])
        .collect()
}

/// The token counts; cached tokens are part of the input or in fields of their own.
fn usage(told: &Value) -> Value {
    let tokens = |path: &str| told.pointer(path).and_then(Value::as_u64);
    let read = tokens("/prompt_tokens_details/cached_tokens")
        .or(tokens("/prompt_cache_hit_tokens"))
        .or(tokens("/cached_tokens"))
        .unwrap_or(0);
    let written = tokens("/cache_creation_input_tokens")
        .or(tokens("/prompt_tokens_details/cache_write_tokens"))
        .unwrap_or(0);
    let hour = "/prompt_tokens_details/cache_creation_token_details/ephemeral_1h_input_tokens";
    let input = tokens("/prompt_tokens").unwrap_or(0);
    let mut usage = json!({
        // Cached tokens that exceed the input cannot be part of it.
        "input_tokens": input.checked_sub(read + written).unwrap_or(input),
        "output_tokens": tokens("/completion_tokens").unwrap_or(0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
    });
    if let Some(tokens @ 1..) = tokens(hour) {
        usage["cache_creation_1h_input_tokens"] = tokens.into();
    }
    usage
}
