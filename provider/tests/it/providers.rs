//! The servers that need no settings, each with an answer in its vendor's format, and the documentation of providers: its
//! example works, and its tables agree with the data.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    BlockStart, Cost, Delta, Environment, Provider, ProviderError, StreamEvent, Usage,
};
use ah_provider::auth::KeySource;
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::named_server::{Api, NamedServer};
use ah_provider::presets::{self, Kind, Preset};
use ah_provider::retry::Policy;
use ah_provider::{Options, connect};
use async_trait::async_trait;
use futures_util::StreamExt;
use serde::Deserialize;

use crate::openai_recordings::seals_of;
use crate::recordings::recordings_of;
use crate::requests::{request, user};
use crate::server::{Part, Server, hello, stream_end, stream_head};

const PAGE: &str = include_str!("../../../docs/providers.md");

/// A settings file from the documentation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    model: String,
    providers: BTreeMap<String, NamedServer>,
}

/// Expected request to a server: content besides path, key and model, which follow from its row; and the text of the answer.
struct Expected {
    server: &'static str,
    sent: &'static [&'static str],
    answer: &'static str,
    usage: Usage,
    cost: Option<Cost>,
}

fn usage(input_tokens: u64, cache_read_input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        output_tokens,
        cache_read_input_tokens,
        ..Usage::default()
    }
}

/// Servers with answers in their own formats.
fn expected() -> Vec<Expected> {
    let usual = Expected {
        server: "",
        sent: &[],
        answer: "",
        usage: usage(10, 0, 2),
        cost: None,
    };
    macro_rules! expected {
        ($($field:ident: $value:expr),* $(,)?) => { Expected { $($field: $value,)* ..usual } };
    }
    vec![
        expected! {
            server: "ollama",
            sent: &[r#""max_tokens":1000"#],
            answer: r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Hm."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}

data: [DONE]

"#,
        },
        expected! {
            server: "llamacpp",
            answer: r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-1"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"Hm."}}],"created":1,"id":"chatcmpl-1"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}],"created":1,"id":"chatcmpl-1"}

data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"chatcmpl-1","timings":{"prompt_n":10}}

data: {"choices":[],"created":1,"id":"chatcmpl-1","usage":{"completion_tokens":2,"prompt_tokens":10}}

data: [DONE]

"#,
        },
        expected! {
            server: "vllm",
            answer: r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop","stop_reason":null}]}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2,"prompt_tokens_details":null}}

data: [DONE]

"#,
        },
        Expected {
            server: "openrouter",
            sent: &[r#""cache_control""#],
            answer: r#": OPENROUTER PROCESSING

: OPENROUTER PROCESSING

data: {"id":"gen-1","provider":"Anthropic","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null,"native_finish_reason":null}]}

data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"end_turn"}],"usage":{"prompt_tokens":14,"completion_tokens":2,"cost":0.00012,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

"#,
            usage: usage(10, 4, 2),
            cost: Some(Cost(120_000_000)),
        },
        expected! {
            server: "groq",
            sent: &[r#""max_completion_tokens":1000"#],
            answer: r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"x_groq":{"id":"req_1"}}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning":"Hm.","channel":"analysis"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.1,"prompt_tokens":10,"completion_tokens":2}}}

data: [DONE]

"#,
        },
        expected! {
            server: "mistral",
            sent: &[r#""stream":true,"max_tokens":1000"#],
            answer: r#"data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2}}

data: [DONE]

"#,
        },
        expected! {
            server: "deepseek",
            answer: r#": keep-alive

data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"Hm."},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hello","reasoning_content":null},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":14,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":10}}

data: [DONE]

"#,
            usage: usage(10, 4, 2),
        },
        expected! {
            server: "azure",
            sent: &[r#""max_output_tokens":1000"#],
            answer: r#"data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}

data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hello"}

data: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":10,"output_tokens":2}}}

"#,
        },
        expected! {
            server: "litellm",
            sent: &[r#""cache_control""#],
            answer: r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"","role":"assistant","reasoning_content":"Hm.","thinking_blocks":[{"type":"thinking","thinking":"Hm."}]}}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"}}]}

data: {"id":"chatcmpl-1","choices":[{"finish_reason":"stop","index":0,"delta":{}}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":2,"prompt_tokens":10,"cost":0.00006}}

data: [DONE]

"#,
            cost: Some(Cost(60_000_000)),
        },
        expected! {
            server: "minimax",
            sent: &["anthropic-version: "],
            answer: r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

"#,
        },
    ]
}

/// The settings file of the documentation.
fn example() -> Example {
    let (_, page) = PAGE.split_once("## Other servers").expect("a section");
    let (_, rest) = page.split_once("```json\n").expect("an example");
    let (json, _) = rest.split_once("```").expect("its end");
    serde_json::from_str(json).expect("settings")
}

struct Fixed;

#[async_trait]
impl KeySource for Fixed {
    async fn key(&self) -> Result<String, ProviderError> {
        Ok("k".to_owned())
    }
}

fn connected(
    model: &str,
    variables: &[(&str, &str)],
    servers: &BTreeMap<String, NamedServer>,
) -> Arc<dyn Provider> {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = Options {
        environment: &Environment::new(variables, "/".into()),
        catalog: &Catalog::built_in(),
        servers,
        key_source: &|_, _| Arc::new(Fixed),
        http: &ah_http::Options::default(),
        betas: &[],
        max_output: None,
        cache_ttl: ah_provider::caching::CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts: Timeouts::default(),
        retry: Policy {
            retries: 0,
            ..Policy::default()
        },
        seed: 1,
    };
    connect(model, &options).unwrap_or_else(|error| panic!("{model}: {error}"))
}

/// The path of `address`, with its slash.
fn path_of(address: &str) -> &str {
    let (_, rest) = address.split_once("://").expect("a scheme");
    rest.find('/').map_or("", |at| &rest[at..])
}

/// What a model answers to a question: its text, its numbers and its cost.
async fn answer_of(model: &dyn Provider) -> Result<(String, Usage, Option<Cost>), ProviderError> {
    let mut question = request(vec![user("Hi")]);
    question.system = Arc::from(["Be brief.".to_owned()]);
    let mut stream = model.stream(question);
    let (mut said, mut told, mut cost) = (String::new(), Usage::default(), None);
    while let Some(event) = stream.next().await {
        match event? {
            StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            } => said += &text,
            StreamEvent::BlockStarted {
                block: BlockStart::Text(text),
                ..
            } => said += &text,
            StreamEvent::Stopping { usage, .. } => told = usage,
            StreamEvent::Billed { cost: billed } => cost = Some(billed),
            _ => {}
        }
    }
    Ok((said, told, cost))
}

/// Each server is asked at its path, with its key in its header, for the model of its row; and what those with a format of
/// their own answer is understood.
#[tokio::test]
async fn each_server_is_asked_as_its_row_says() {
    let mut expected: BTreeMap<_, _> = { expected().into_iter() }
        .map(|expected| (expected.server, expected))
        .collect();
    for preset in presets::all() {
        let name = &preset.name;
        let expected = expected.remove(name.as_str());
        let answer = expected.as_ref().map_or("", |expected| expected.answer);
        let answer = Part::Send(format!("{:x}\r\n{answer}\r\n", answer.len()).into_bytes());
        let loopback = Server::start(vec![vec![stream_head(), answer, stream_end()]]).await;
        let path = preset.address.as_deref().map_or("", path_of);
        let path = path.replace(['{', '}'], "");
        let address = format!("{}{path}", loopback.url);
        let key = preset.keys.first().expect("a variable");
        let variables = [
            (preset.address_variable.as_str(), address.as_str()),
            (key.as_str(), "k"),
        ];
        let model = format!("{name}/{}", preset.example);
        let provider = connected(&model, &variables, &BTreeMap::new());
        let answer = answer_of(&*provider).await;
        if let Some(expected) = &expected {
            let wanted = ("Hello".to_owned(), expected.usage, expected.cost);
            assert_eq!(answer, Ok(wanted), "{name}");
        }
        let asked = &loopback.requests()[0];
        let by_name = preset.compatible.unwrap_or(preset.api);
        let (end, usual) = match by_name {
            Api::Anthropic if preset.quirks.model_in_path => (":streamRawPredict", "x-api-key"),
            Api::Anthropic => ("/v1/messages", "x-api-key"),
            Api::OpenAi => ("/chat/completions", "authorization"),
            Api::OpenAiResponses => ("/responses", "authorization"),
            Api::Interactions => ("/interactions", "x-goog-api-key"),
        };
        let line = asked.lines().next().unwrap_or_default();
        // That of chat completions at the same server.
        let path = match by_name {
            Api::Interactions => path.trim_end_matches("/openai"),
            _ => &path,
        };
        let begins = line.starts_with(&format!("POST {path}"));
        assert!(
            begins && line.ends_with(&format!("{end} HTTP/1.1")),
            "{name}: {line}"
        );
        let header = preset.key_header.as_deref().unwrap_or(usual);
        let scheme = if header == "authorization" {
            "Bearer "
        } else {
            ""
        };
        let mut parts = vec![
            format!("\r\n{header}: {scheme}k\r\n"),
            match preset.quirks.model_in_path {
                true => format!("/models/{}{end} ", preset.example),
                false => format!("\"model\":\"{}\"", preset.example),
            },
        ];
        let sent = expected.iter().flat_map(|expected| expected.sent);
        parts.extend(sent.map(|part| (*part).to_owned()));
        for part in parts {
            assert!(asked.contains(&part), "{name}: {part} is not in {asked}");
        }
    }
    assert!(expected.is_empty(), "no row has the name");
}

#[tokio::test]
async fn the_example_of_the_documentation_works() {
    let Example { model, providers } = example();
    let mut servers = providers;
    let loopback = Server::start(vec![hello()]).await;
    let gateway = servers.get_mut("gateway").expect("the example");
    let address = gateway.base_url.take().expect("an address");
    gateway.base_url = Some(format!("{}{}", loopback.url, path_of(&address)));
    let provider = connected(&model, &[], &servers);
    let (said, ..) = answer_of(&*provider).await.expect("an answer");
    assert_eq!(said, "Hello");
    let (head, body) = loopback.request();
    assert!(head.starts_with("POST /anthropic/v1/messages "), "{head}");
    assert!(head.contains("\r\nauthorization: Bearer k\r\n"), "{head}");
    assert!(head.contains("\r\nx-team: search\r\n"), "{head}");
    assert!(body.contains(r#""model":"claude-opus-5-5""#), "{body}");
    connected("local/m", &[], &servers);
}

/// The table of servers for the documentation.
fn table_of_servers() -> String {
    let mut lines = vec![
        "| server | for instance | key | also | protocol |".to_owned(),
        "| --- | --- | --- | --- | --- |".to_owned(),
    ];
    for kind in [Kind::Vendor, Kind::Gateway, Kind::Local] {
        for preset in presets::servers().filter(|preset| preset.kind == kind) {
            let address = &preset.address_variable;
            let is_usual = *address == format!("{}_BASE_URL", preset.name.to_uppercase());
            let is_needed = preset.address.is_none();
            let also = { preset.parts() }
                .map(|names| names[0])
                .chain((is_needed || !is_usual).then_some(address.as_str()));
            let also: Vec<_> = also.map(|name| format!("`{name}`")).collect();
            let protocol = match preset.api {
                Api::Anthropic => "Messages",
                Api::OpenAi => "chat",
                Api::OpenAiResponses => "Responses",
                Api::Interactions => "Interactions",
            };
            let Preset {
                title, page, name, ..
            } = preset;
            let key = match kind {
                Kind::Local => String::new(),
                Kind::Vendor | Kind::Gateway => format!("`{}`", preset.keys[0]),
            };
            lines.push(format!(
                "| [{title}]({page}) | `{name}/{}` | {key} | {} | {protocol} |",
                preset.example,
                also.join(", "),
            ));
        }
    }
    let days: BTreeSet<_> = presets::servers()
        .map(|preset| preset.read.as_str())
        .collect();
    let (first, last) = (days.first().expect("a row"), days.last().expect("a row"));
    lines.push(match first == last {
        true => format!("\nThe rows were checked against pages and packages of the vendors on {first}."),
        false => format!("\nThe rows were checked against pages and packages of the vendors from {first} to {last}."),
    });
    lines.join("\n")
}

/// Compares the table between the comments `name` and `end of name` of the page; with `AH_WRITE_DOCS=1` it is written instead.
fn compare(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/providers.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (before, rest) = page.split_once(&begin).expect("a table");
    let (old, after) = rest.split_once(&end).expect("its end");
    let fresh = format!("\n{table}\n\n");
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        std::fs::write(path, format!("{before}{begin}{fresh}{end}{after}")).expect("written");
    } else {
        assert_eq!(
            old, fresh,
            "set AH_WRITE_DOCS=1 to bring the page up to date"
        );
    }
}

#[test]
fn the_tables_of_the_documentation_agree_with_the_data() {
    compare("presets", &table_of_servers());
    if let Some(matrix) = matrix() {
        compare("matrix", &matrix);
    }
}

/// Numbers of recorded answers of a vendor, by feature.
#[derive(Default)]
struct Seen {
    answers: usize,
    tools: usize,
    thinking: usize,
    sealed: usize,
    cached: usize,
    cost: usize,
}

impl Seen {
    fn add(&mut self, events: &VecDeque<StreamEvent>) {
        let (mut calls, mut thinks, mut seals, mut caches, mut bills) =
            (false, false, false, false, false);
        for event in events {
            match event {
                StreamEvent::BlockStarted { block, .. } => match block {
                    BlockStart::ToolUse { .. } => calls = true,
                    BlockStart::Thinking(_) => thinks = true,
                    BlockStart::RedactedThinking(_) => seals = true,
                    BlockStart::Text(_) | BlockStart::Other(_) => {}
                },
                StreamEvent::Delta {
                    delta: Delta::Signature(_),
                    ..
                } => seals = true,
                StreamEvent::Opaque { fields, .. } => {
                    seals |= !seals_of(fields.get("reasoning_details")).is_empty();
                }
                StreamEvent::Billed { .. } => bills = true,
                StreamEvent::Stopping { usage, .. } => {
                    caches = usage.cache_read_input_tokens + usage.cache_creation_input_tokens > 0;
                }
                _ => {}
            }
        }
        let counts = [
            (&mut self.answers, true),
            (&mut self.tools, calls),
            (&mut self.thinking, thinks),
            (&mut self.sealed, seals),
            (&mut self.cached, caches),
            (&mut self.cost, bills),
        ];
        for (count, shows) in counts {
            *count += usize::from(shows);
        }
    }

    fn cells(&self) -> [usize; 6] {
        [
            self.answers,
            self.tools,
            self.thinking,
            self.sealed,
            self.cached,
            self.cost,
        ]
    }
}

macro_rules! decode {
    ($decoder:ty, $body:expr) => {{
        let mut decoder = <$decoder>::default();
        let mut events = VecDeque::new();
        if decoder.feed($body, &mut events).is_ok() {
            // Some recordings are of errors.
            let _ = decoder.finish(&mut events);
        }
        events
    }};
}

/// The table of recordings for the documentation, or `None` if they are not available.
fn matrix() -> Option<String> {
    let mut seen: BTreeMap<(String, &str), Seen> = BTreeMap::new();
    for (api, name) in [
        ("anthropic", "Messages"),
        ("chat", "chat"),
        ("responses", "Responses"),
    ] {
        for recording in recordings_of(api)? {
            let body = recording.body.as_slice();
            let events = match api {
                _ if recording.kind == "error" => VecDeque::new(),
                "anthropic" => decode!(ah_provider::anthropic::Decoder, body),
                "chat" => decode!(ah_provider::openai::Decoder, body),
                _ => decode!(ah_provider::responses::Decoder, body),
            };
            if events.back() != Some(&StreamEvent::Ended) {
                // An error, which is no answer.
                continue;
            }
            let vendor = recording.vendor.replace('_', " ");
            seen.entry((vendor, name)).or_default().add(&events);
        }
    }
    let head = "| vendor | protocol | answers | tools | thinking | sealed | cached | cost |";
    let mut lines = vec![
        head.to_owned(),
        "| --- | --- |".to_owned() + &" ---: |".repeat(6),
    ];
    for ((vendor, api), seen) in &seen {
        let cells = seen.cells().map(|count| match count {
            0 => " |".to_owned(),
            count => format!(" {count} |"),
        });
        lines.push(format!("| {vendor} | {api} |{}", cells.concat()));
    }
    Some(lines.join("\n"))
}
