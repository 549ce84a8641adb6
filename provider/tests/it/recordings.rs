//! Recorded answers of the Messages API are decoded like the vendor's SDK does, however they are cut. The recordings are
//! read from `../shared` if that folder exists.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ah_conversation::{BlockStart, Delta, ErrorClass, ProviderError, StreamEvent};
use ah_provider::anthropic::Decoder;
use ah_provider::failure;
use serde_json::{Map, Value, json};

/// Recordings that the SDK takes for complete and `ah` does not, with the error.
const EARLY_ENDS: [(&str, &str); 8] = [
    ("clean-end-empty", "the stream ended before an answer began"),
    ("clean-end-tool-no-stop", "the answer ended early"),
    ("cut-mid-line", "the answer ended early"),
    ("cut-slow-text", "the answer ended early"),
    ("cut-slow-tool", "the answer ended early"),
    ("cut-text", "the answer ended early"),
    (
        "messages-stream-clean-end-empty",
        "the stream ended before an answer began",
    ),
    (
        "messages-stream-clean-end-no-stop",
        "the answer ended early",
    ),
];

/// Files with all answers of a conversation, which the SDK reads as one. No server sends that; `ah` reads the first.
const SEVERAL_ANSWERS: [&str; 3] = [
    "tool-search-deferred-bm25-887c82",
    "tool-search-deferred-regex-002403",
    "tool-search-regex-1-cdaf96",
];

/// A recorded answer and the vendor's SDK's reading of it.
pub(crate) struct Recording {
    pub(crate) name: String,
    /// Vendor of the answer.
    pub(crate) vendor: String,
    pub(crate) kind: String,
    pub(crate) status: u16,
    pub(crate) headers: Value,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Value,
}

/// The recordings of the Messages API, or `None` if they are not available.
fn recordings() -> Option<Vec<Recording>> {
    let recordings = recordings_of("anthropic")?;
    assert!(recordings.len() > 200, "{}", recordings.len());
    Some(recordings)
}

/// The recordings of an API, or `None` if they are not available.
#[expect(clippy::print_stderr, reason = "says what a test left out")]
pub(crate) fn recordings_of(api: &str) -> Option<Vec<Recording>> {
    let open = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/recordings/open");
    if !open.is_dir() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{} is missing",
            open.display()
        );
        eprintln!("left out: {} is missing", open.display());
        return None;
    }
    let vendors = folders(&open);
    let recordings = vendors.iter().flat_map(|vendor| folders(vendor));
    Some(
        recordings
            .filter_map(|folder| recording(&folder, api))
            .collect(),
    )
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let mut folders: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn recording(folder: &Path, api: &str) -> Option<Recording> {
    let read = |file: &str| fs::read(folder.join(file)).expect("a recording's file");
    let meta: Value = serde_json::from_slice(&read("meta.json")).expect("valid JSON");
    (meta["api"] == api).then(|| Recording {
        name: folder.file_name().expect("a name").to_string_lossy().into(),
        vendor: meta["provider"].as_str().expect("text").to_owned(),
        kind: meta["kind"].as_str().expect("text").to_owned(),
        status: u16::try_from(meta["status"].as_u64().expect("a number")).expect("a status"),
        headers: meta["response_headers"].clone(),
        body: read(meta["response_file"].as_str().expect("text")),
        expected: serde_json::from_slice(&read("expected.json")).expect("valid JSON"),
    })
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

/// Returns the message of an error without the kind of error behind it.
pub fn without_kind(message: &str) -> &str {
    message.rsplit_once(" (").map_or(message, |(told, _)| told)
}

#[test]
fn answers_decode_as_the_sdk_reads_them() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut strict = Vec::new();
    for recording in recordings
        .iter()
        .filter(|recording| recording.kind != "error")
    {
        let name = &recording.name;
        let (events, end) = decode([recording.body.as_slice()]);
        match (recording.expected["outcome"].as_str(), end) {
            (Some("ok"), Ok(())) if is_several(name) => {
                assert_eq!(assemble(&events)["id"], recording.expected["decoded"]["id"]);
            }
            (Some("ok"), Ok(())) => {
                let expected = &recording.expected["decoded"];
                assert_eq!(assemble(&events), without_unread_parts(expected), "{name}");
            }
            (Some("stream_error"), Err(error)) => {
                let told = &recording.expected["error"]["body"]["error"];
                let text = told["message"].as_str().unwrap_or_default();
                let words = failure::excerpt(text, 500);
                // A gateway's message quotes that of the server behind it, which is the one that is told.
                let is_quoted = text.contains(without_kind(&error.message));
                let is_told = error.message.starts_with(&words) || is_quoted;
                assert!(is_told, "{name}: {error}");
                let is_ours = told["type"] == "invalid_request_error";
                assert_eq!(error.class.is_retryable(), !is_ours, "{name}: {error}");
            }
            (Some("ok" | "parser_error"), Err(error)) => {
                assert!(error.class.is_retryable(), "{name}: {error}");
                assert!(!events.contains(&StreamEvent::Ended), "{name}");
                strict.push((name.clone(), error.message));
            }
            (outcome, end) => panic!("{name}: {outcome:?} but {end:?}"),
        }
    }
    strict.sort();
    let strict: Vec<_> = strict
        .iter()
        .map(|(name, message)| (name.as_str(), message.as_str()))
        .collect();
    assert_eq!(strict, EARLY_ENDS);
}

/// The estimate of four bytes per token is within a fifth of the recorded count, for most answers: some servers count
/// text that they do not send.
#[test]
fn tokens_of_text_are_estimated_within_a_fifth() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut percents = Vec::new();
    for recording in &recordings {
        let decoded = &recording.expected["decoded"];
        let (text, tokens) = (&decoded["text"], decoded["usage"]["output_tokens"].as_u64());
        if let (Some(text), Some(tokens @ 100..)) = (text.as_str(), tokens)
            && is_only_words(&recording.body)
        {
            percents.push(ah_conversation::estimate_text(text) * 100 / tokens);
        }
    }
    percents.sort_unstable();
    assert!(percents.len() > 10, "{percents:?} are too few to judge by");
    let median = percents[percents.len() / 2];
    assert!((80..=120).contains(&median), "{percents:?}");
}

/// Whether an answer has only text blocks, judging by its bytes.
fn is_only_words(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    !["tool_use", "thinking", "_result", "compaction", "fallback"]
        .iter()
        .any(|kind| text.contains(kind))
}

fn is_several(name: &str) -> bool {
    SEVERAL_ANSWERS
        .iter()
        .any(|several| name.ends_with(several))
}

/// Returns the places below `end` at which a recording is cut: every seventh, from a first one by its name. Many recordings are
/// alike, so each place is still met.
pub(crate) fn places(name: &str, end: usize) -> impl Iterator<Item = usize> {
    let first = name.bytes().map(usize::from).sum::<usize>() % 7;
    (first..end).step_by(7)
}

#[test]
fn cuts_change_nothing() {
    let Some(recordings) = recordings() else {
        return;
    };
    for recording in recordings
        .iter()
        .filter(|recording| recording.kind != "error")
    {
        let (name, body) = (&recording.name, recording.body.as_slice());
        let whole = decode([body]);
        assert_eq!(decode(body.chunks(1)), whole, "{name} byte by byte");
        if body.len() < 4 << 10 {
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
    let small = |recording: &&Recording| recording.kind == "stream" && recording.body.len() < 2_048;
    for recording in recordings.iter().filter(small) {
        let last = rfind(&recording.body, b"message_stop").unwrap_or(recording.body.len());
        for end in places(&recording.name, last) {
            let (events, result) = decode([&recording.body[..end]]);
            assert!(result.is_err(), "{} cut at {end}", recording.name);
            assert!(!events.contains(&StreamEvent::Ended), "{}", recording.name);
        }
    }
}

fn rfind(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .rposition(|window| window == wanted)
}

#[test]
fn recorded_errors_have_the_expected_class() {
    let Some(recordings) = recordings() else {
        return;
    };
    for recording in recordings
        .iter()
        .filter(|recording| recording.kind == "error")
    {
        let body = String::from_utf8_lossy(&recording.body);
        let header = |name: &str| recording.headers.get(name)?.as_str();
        let error = failure::in_response(recording.status, header, &body, SystemTime::UNIX_EPOCH);
        let name = recording.name.as_str();
        assert_eq!(error.class, class_by_name(recording), "{name}: {error}");
        if name == "err-429" {
            assert_eq!(error.retry_after.expect("a header").as_secs(), 7);
        }
    }
}

/// The expected class of a recorded error, by its name.
fn class_by_name(recording: &Recording) -> ErrorClass {
    use ErrorClass as E;
    let table = [
        ("credit", E::Billing),
        ("context-length", E::ContextTooLong),
        ("err-400-ctx", E::ContextTooLong),
        ("413", E::ContextTooLong),
        ("no-key", E::Server),          // LiteLLM answers 500 to a missing key.
        ("bad-key", E::InvalidRequest), // And 400 to a wrong one.
        ("model-name-suggestion", E::ModelNotFound),
        ("404", E::ModelNotFound),
        ("api-key", E::Authentication),
        ("auth", E::Authentication),
        ("401", E::Authentication),
        ("403", E::Authentication),
        ("400", E::InvalidRequest),
        ("no-max-tokens", E::InvalidRequest),
        ("429", E::RateLimit),
        ("529-empty", E::Server),
        ("529", E::Overloaded),
        ("50", E::Server),
        ("cut", E::Server),
    ];
    let found = table.iter().find(|(part, _)| recording.name.contains(part));
    found
        .unwrap_or_else(|| panic!("no class for {}", recording.name))
        .1
}

#[derive(Default)]
struct Block {
    raw: Map<String, Value>,
    json: String,
}

/// The parts of a message that the expectations have.
fn assemble(events: &VecDeque<StreamEvent>) -> Value {
    let mut blocks = BTreeMap::<usize, Block>::new();
    let mut message = json!({});
    for event in events {
        match event {
            StreamEvent::Started { id, .. } => message["id"] = json!(id),
            StreamEvent::BlockStarted { index, block } => {
                let raw = match block {
                    BlockStart::Text(text) => json!({"type": "text", "text": text}),
                    BlockStart::Thinking(thinking) => {
                        json!({"type": "thinking", "thinking": thinking, "signature": ""})
                    }
                    BlockStart::RedactedThinking(data) => {
                        json!({"type": "redacted_thinking", "data": data})
                    }
                    BlockStart::ToolUse { id, name, input } => {
                        json!({"type": "tool_use", "id": id.as_str(), "name": name, "input": input})
                    }
                    BlockStart::Other(raw) => raw.clone(),
                };
                let Value::Object(raw) = raw else {
                    panic!("a block that is no object: {raw}")
                };
                let json = String::new();
                blocks.insert(*index, Block { raw, json });
            }
            StreamEvent::Delta { index, delta } => {
                grow(blocks.get_mut(index).expect("a block that began"), delta);
            }
            StreamEvent::Stopping { stop_reason, usage } => {
                message["stop_reason"] = json!(stop_reason.as_str());
                message["usage"] = json!(usage);
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
    let all = |kinds: &[&str], fields: &[&str]| -> Vec<Value> {
        let of_kind = |block: &&Block| {
            block.raw["type"]
                .as_str()
                .is_some_and(|kind| kinds.contains(&kind))
        };
        let blocks = blocks.values().filter(of_kind);
        blocks.map(|block| block.pick(fields)).collect()
    };
    let texts = all(&["text"], &["text"]);
    let texts = texts.iter().map(|text| text.as_str().unwrap_or_default());
    message["text"] = json!(texts.collect::<String>());
    message["blocks"] = blocks
        .values()
        .map(|block| block.raw["type"].clone())
        .collect();
    message["thinking"] = all(&["thinking"], &["thinking", "signature"]).into();
    message["redacted_thinking"] = all(&["redacted_thinking"], &["data"]).into();
    message["tool_calls"] = all(&["tool_use"], &["id", "name", "input"]).into();
    message["server_tool_calls"] = all(
        &["server_tool_use", "mcp_tool_use"],
        &["type", "id", "name", "input"],
    )
    .into();
    message
}

fn grow(block: &mut Block, delta: &Delta) {
    let (field, more) = match delta {
        Delta::Text(more) => ("text", more),
        Delta::Thinking(more) => ("thinking", more),
        Delta::Signature(more) => ("signature", more),
        Delta::InputJson(more) => return block.json.push_str(more),
        Delta::Other(_) => return,
    };
    let Some(Value::String(text)) = block.raw.get_mut(field) else {
        panic!("a {field} for {:?}", block.raw)
    };
    text.push_str(more);
}

impl Block {
    fn pick(&self, fields: &[&str]) -> Value {
        let value = |field: &str| match field {
            "input" if !self.json.is_empty() => {
                serde_json::from_str(&self.json).unwrap_or_else(|_| json!("cut"))
            }
            _ => self.raw[field].clone(),
        };
        match fields {
            [field] => value(field),
            _ => fields
                .iter()
                .map(|field| ((*field).to_owned(), value(field)))
                .collect(),
        }
    }
}

/// The expectation without the parts that events do not have.
fn without_unread_parts(expected: &Value) -> Value {
    let mut expected = expected.clone();
    let fields = expected.as_object_mut().expect("an object");
    for unread in [
        "model",
        "stop_sequence",
        "container",
        "context_management",
        "stop_details",
    ] {
        fields.remove(unread);
    }
    let cut: Vec<_> = match fields.remove("tool_input_json_text") {
        Some(Value::Object(texts)) => texts.values().map(is_cut).collect(),
        _ => Vec::new(),
    };
    if cut.contains(&true) {
        // The SDK guesses the end of cut arguments.
        fields["tool_calls"][0]["input"] = json!("cut");
    }
    let usage = &fields["usage"];
    let tokens = |field: &str| usage[field].as_u64().unwrap_or(0);
    let mut read = json!({
        "input_tokens": tokens("input_tokens"),
        "output_tokens": tokens("output_tokens"),
        "cache_creation_input_tokens": tokens("cache_creation_input_tokens"),
        "cache_read_input_tokens": tokens("cache_read_input_tokens"),
    });
    let one_hour = &usage["cache_creation"]["ephemeral_1h_input_tokens"];
    if one_hour.as_u64().is_some_and(|tokens| tokens > 0) {
        read["cache_creation_1h_input_tokens"] = one_hour.clone();
    }
    let searches = &usage["server_tool_use"]["web_search_requests"];
    if searches.as_u64().is_some_and(|searches| searches > 0) {
        read["web_search_requests"] = searches.clone();
    }
    fields["usage"] = read;
    expected
}

fn is_cut(json: &Value) -> bool {
    let json = json.as_str().unwrap_or_default();
    !json.is_empty() && serde_json::from_str::<Value>(json).is_err()
}
