//! Answers of llama.cpp's server with a real model, a small one that writes nonsense: what is read of each, however it is cut.
//! They are read from `../shared` if that folder exists; their requests are those of this program.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use ah_conversation::{BlockStart, Delta, ProviderError, StreamEvent, json};
use ah_provider::{anthropic, failure, openai, responses};
use serde_json::{Map, Value};

/// Size of the pieces in which large answers are cut; small ones are cut at each byte.
const PIECE: usize = 61;
const SMALL: usize = 4_000;

/// A recorded answer.
struct Recording {
    name: String,
    api: String,
    status: u16,
    body: Vec<u8>,
}

#[expect(clippy::print_stderr, reason = "says what a test left out")]
fn recordings() -> Option<Vec<Recording>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/recordings/llama_server");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("left out: {} is missing", folder.display());
        return None;
    };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut recordings: Vec<_> = paths
        .filter(|path| path.is_dir())
        .map(|path| {
            let read = |file: &str| fs::read(path.join(file)).expect("a recording's file");
            let meta: Value = serde_json::from_slice(&read("meta.json")).expect("JSON");
            let text = |field: &str| meta[field].as_str().expect("text").to_owned();
            Recording {
                name: text("name"),
                api: text("api"),
                status: u16::try_from(meta["status"].as_u64().expect("a number"))
                    .expect("a status"),
                body: read(&text("response_file")),
            }
        })
        .collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    Some(recordings)
}

type Decoded = (VecDeque<StreamEvent>, Result<(), ProviderError>);

macro_rules! decoded {
    ($decoder:ty, $pieces:expr) => {{
        let mut decoder = <$decoder>::default();
        let mut events = VecDeque::new();
        let mut end = Ok(());
        for piece in $pieces {
            end = end.and_then(|()| decoder.feed(piece, &mut events));
        }
        let end = end.and_then(|()| decoder.finish(&mut events));
        (events, end)
    }};
}

fn decoded(api: &str, body: &[u8], piece: usize) -> Decoded {
    let pieces = body.chunks(piece);
    match api {
        "chat" => decoded!(openai::Decoder, pieces),
        "messages" => decoded!(anthropic::Decoder, pieces),
        _ => decoded!(responses::Decoder, pieces),
    }
}

/// The answer in a line: what is in it, and how it ended.
fn line((events, end): &Decoded) -> String {
    let (mut text, mut thinking) = (String::new(), String::new());
    let mut calls: BTreeMap<usize, (String, String)> = BTreeMap::new();
    let mut stop = String::new();
    for event in events {
        match event {
            StreamEvent::BlockStarted {
                index,
                block: BlockStart::ToolUse { name, .. },
            } => drop(calls.insert(*index, (name.clone(), String::new()))),
            StreamEvent::Delta { index, delta } => match delta {
                Delta::Text(more) => text.push_str(more),
                Delta::Thinking(more) => thinking.push_str(more),
                Delta::InputJson(more) => calls.entry(*index).or_default().1.push_str(more),
                _ => {}
            },
            StreamEvent::Stopping { stop_reason, usage } => {
                stop = format!("{}, {} tokens", stop_reason.as_str(), usage.output_tokens);
            }
            _ => {}
        }
    }
    let mut parts = Vec::new();
    for (kind, words) in [("thinking", thinking), ("text", text)] {
        if !words.is_empty() {
            parts.push(format!("{} characters of {kind}", words.chars().count()));
        }
    }
    for (name, arguments) in calls.into_values() {
        let is_object = json::from_str::<Map<String, Value>>(&arguments).is_ok();
        let state = match json::repaired::object(&arguments) {
            _ if arguments.is_empty() => "without arguments",
            _ if is_object => "whole",
            Some(_) => "repaired",
            None => "malformed",
        };
        parts.push(format!("{name} {state}"));
    }
    parts.push(match end {
        Ok(()) => stop,
        Err(error) => format!("{}: {}", error.class.name(), error.message),
    });
    parts.join("; ")
}

#[test]
fn each_answer_is_read_the_same_however_it_is_cut() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut lines = String::new();
    for recording in recordings
        .iter()
        .filter(|it| it.status == 200 && it.api != "list")
    {
        let Recording {
            name, api, body, ..
        } = recording;
        let piece = if body.len() < SMALL { 1 } else { PIECE };
        let whole = line(&decoded(api, body, body.len()));
        assert_eq!(line(&decoded(api, body, piece)), whole, "{name}");
        lines.push_str(&format!("{name}: {whole}\n"));
    }
    insta::assert_snapshot!(lines, @"
    chat-stream-call: bash whole; tool_use, 28 tokens
    chat-stream-call-without-arguments: bash without arguments; tool_use, 1 tokens
    chat-stream-cut-by-window: 1961 characters of text; max_tokens, 512 tokens
    chat-stream-empty-answer: end_turn, 1 tokens
    chat-stream-error-after-role: server: The model produced output that does not match the expected peg-native format (server_error)
    chat-stream-error-after-tool-name: read without arguments; server: The model produced output that does not match the expected peg-native format (server_error)
    chat-stream-four-calls-last-cut: bash whole; todo whole; bash whole; todo malformed; max_tokens, 150 tokens
    chat-stream-json-schema: 15 characters of text; end_turn, 17 tokens
    chat-stream-no-structured-answer: 9 characters of text; end_turn, 8 tokens
    chat-stream-pings-before-first-token: 1442 characters of text; end_turn, 374 tokens
    chat-stream-reasoning-only: 20 characters of thinking; end_turn, 7 tokens
    chat-stream-reasoning-then-text: 39 characters of thinking; 171 characters of text; max_tokens, 60 tokens
    chat-stream-text-cut-by-length: 399 characters of text; max_tokens, 150 tokens
    chat-stream-two-calls-first-without-brace: glob repaired; todo whole; tool_use, 115 tokens
    messages-stream-after-tool-results: 21 characters of text; end_turn, 9 tokens
    messages-stream-max-tokens: 4131 characters of text; max_tokens, 1000 tokens
    messages-stream-text: 5 characters of text; end_turn, 2 tokens
    messages-stream-two-tool-uses: Read whole; Read whole; tool_use, 111 tokens
    responses-stream-text: 5 characters of text; end_turn, 2 tokens
    ");
}

#[test]
fn each_refusal_is_told_apart() {
    let Some(recordings) = recordings() else {
        return;
    };
    let refused = recordings.iter().filter(|it| it.status != 200);
    let lines = refused.map(|recording| {
        let body = String::from_utf8_lossy(&recording.body);
        let error = failure::in_response(recording.status, |_| None, &body, SystemTime::now());
        format!(
            "{}: {}: {}",
            recording.name,
            error.class.name(),
            error.message
        )
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    chat-json-error-context: context_too_long: request (10958 tokens) exceeds the available context size (8192 tokens), try increasing it
    chat-json-error-context-second-turn: context_too_long: request (1569 tokens) exceeds the available context size (1536 tokens), try increasing it
    messages-json-error-context: context_too_long: request (10956 tokens) exceeds the available context size (8192 tokens), try increasing it
    model-info-404: invalid_request: File Not Found
    ");
}
