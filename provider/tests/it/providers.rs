//! The documentation of providers: its examples work, and its table agrees with the recordings.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    BlockStart, Cost, Delta, Environment, Provider, ProviderError, StreamEvent, Usage,
};
use ah_provider::auth::KeySource;
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::named_server::NamedServer;
use ah_provider::retry::Policy;
use ah_provider::{Options, connect};
use async_trait::async_trait;
use futures_util::StreamExt;
use serde::Deserialize;

use crate::openai_recordings::seals_of;
use crate::recordings::{Recording, recordings_of};
use crate::requests::{request, user};
use crate::server::{Part, Server, stream_end, stream_head};

const PAGE: &str = include_str!("../../../docs/providers.md");

/// A settings file from the documentation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    model: String,
    providers: BTreeMap<String, NamedServer>,
}

/// Expected request of an example: path, header with the key `k` and other content, and the text of the answer.
struct Expected {
    heading: &'static str,
    path: &'static str,
    key: &'static str,
    sent: &'static [&'static str],
    answer: &'static str,
    usage: Usage,
    cost: Option<Cost>,
}

const NO_KEY: &str = "";
const BEARER: &str = "authorization: Bearer k";
const CHAT: &str = "/v1/chat/completions";

fn usage(input_tokens: u64, cache_read_input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        output_tokens,
        cache_read_input_tokens,
        ..Usage::default()
    }
}

/// The examples, with answers in each vendor's format.
fn expected() -> Vec<Expected> {
    let usual = Expected {
        heading: "",
        path: CHAT,
        key: BEARER,
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
            heading: "Ollama",
            key: NO_KEY,
            sent: &[r#""model":"qwen3:8b""#, r#""max_tokens":1000"#],
            answer: r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Hm."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}

data: [DONE]

"#,
        },
        expected! {
            heading: "llama.cpp",
            key: NO_KEY,
            sent: &[r#""model":"default""#],
            answer: r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"chatcmpl-1"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"Hm."}}],"created":1,"id":"chatcmpl-1"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}],"created":1,"id":"chatcmpl-1"}

data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"chatcmpl-1","timings":{"prompt_n":10}}

data: {"choices":[],"created":1,"id":"chatcmpl-1","usage":{"completion_tokens":2,"prompt_tokens":10}}

data: [DONE]

"#,
        },
        expected! {
            heading: "vLLM",
            sent: &[r#""model":"Qwen/Qwen3-32B""#],
            answer: r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop","stop_reason":null}]}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2,"prompt_tokens_details":null}}

data: [DONE]

"#,
        },
        expected! {
            heading: "OpenRouter",
            path: "/api/v1/chat/completions",
            sent: &["x-title: ah\r\n", r#""model":"anthropic/claude-sonnet-4.5""#, r#""cache_control""#],
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
            heading: "Groq",
            path: "/openai/v1/chat/completions",
            sent: &[r#""model":"openai/gpt-oss-120b""#, r#""max_completion_tokens":1000"#],
            answer: r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"x_groq":{"id":"req_1"}}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning":"Hm.","channel":"analysis"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.1,"prompt_tokens":10,"completion_tokens":2}}}

data: [DONE]

"#,
        },
        expected! {
            heading: "Mistral",
            sent: &[r#""model":"magistral-medium-latest","stream":true,"max_tokens":1000"#],
            answer: r#"data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"total_tokens":12,"completion_tokens":2}}

data: [DONE]

"#,
        },
        expected! {
            heading: "DeepSeek",
            sent: &[r#""model":"deepseek-reasoner""#],
            answer: r#": keep-alive

data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"Hm."},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hello","reasoning_content":null},"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":14,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":10}}

data: [DONE]

"#,
            usage: usage(10, 4, 2),
        },
        expected! {
            heading: "Azure",
            path: "/openai/v1/responses",
            key: "api-key: k",
            sent: &[r#""model":"my-deployment""#, r#""max_output_tokens":1000"#],
            answer: r#"data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}

data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hello"}

data: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":10,"output_tokens":2}}}

"#,
        },
        expected! {
            heading: "LiteLLM",
            sent: &["x-team: search\r\n", r#""extra_headers":{"x-team":"search"}"#, r#""model":"claude-sonnet-4-5""#],
            answer: r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"","role":"assistant","reasoning_content":"Hm.","thinking_blocks":[{"type":"thinking","thinking":"Hm."}]}}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"}}]}

data: {"id":"chatcmpl-1","choices":[{"finish_reason":"stop","index":0,"delta":{}}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{}}],"usage":{"completion_tokens":2,"prompt_tokens":10,"cost":0.00006}}

data: [DONE]

"#,
            cost: Some(Cost(60_000_000)),
        },
        expected! {
            heading: "A gateway that speaks the Messages API",
            path: "/anthropic/v1/messages",
            sent: &["anthropic-version: ", r#""model":"claude-sonnet-4-5""#],
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

/// The settings files of the documentation, by heading.
fn examples() -> Vec<(&'static str, &'static str)> {
    let sections = PAGE.split("\n### ").skip(1);
    let examples = sections.filter_map(|section| {
        let heading = section.lines().next()?;
        let (_, rest) = section.split_once("```json\n")?;
        Some((heading, rest.split_once("```")?.0))
    });
    examples.collect()
}

struct Fixed;

#[async_trait]
impl KeySource for Fixed {
    async fn key(&self) -> Result<String, ProviderError> {
        Ok("k".to_owned())
    }
}

/// The model of an example, at `url` instead of its own host.
fn connected(example: &str, url: &str) -> Arc<dyn Provider> {
    let Example { model, providers } = serde_json::from_str(example).expect("settings");
    let mut servers = providers;
    let mut variables = Vec::new();
    for server in servers.values_mut() {
        let address = server.base_url.take().expect("an address");
        let path = address.splitn(4, '/').nth(3).unwrap_or_default();
        server.base_url = Some(format!("{url}/{path}"));
        variables.extend(server.key_env.clone().map(|name| (name, "k".to_owned())));
    }
    if model.starts_with("litellm/") {
        variables.push(("LITELLM_API_KEY".to_owned(), "k".to_owned()));
    }
    let options = Options {
        environment: &Environment::new(variables, "/".into()),
        catalog: &Catalog::built_in(),
        servers: &servers,
        key_source: &|_, _| Arc::new(Fixed),
        http: &ah_http::Options::default(),
        betas: &[],
        max_output: None,
        cache_ttl: ah_provider::caching::CacheTtl::default(),
        server_compaction: false,
        keep_warm: 0,
        timeouts: Timeouts::default(),
        retry: Policy {
            retries: 0,
            ..Policy::default()
        },
        seed: 1,
    };
    connect(&model, &options).unwrap_or_else(|error| panic!("{model}: {error}"))
}

#[tokio::test]
async fn the_examples_work() {
    let expected = expected();
    let headings: Vec<_> = expected.iter().map(|expected| expected.heading).collect();
    let found: Vec<_> = examples().iter().map(|(heading, _)| *heading).collect();
    assert_eq!(found, headings);
    for ((heading, example), expected) in examples().into_iter().zip(expected) {
        let answer = Part::Send(
            format!("{:x}\r\n{}\r\n", expected.answer.len(), expected.answer).into_bytes(),
        );
        let loopback = Server::start(vec![vec![stream_head(), answer, stream_end()]]).await;
        let provider = connected(example, &loopback.url);
        let mut question = request(vec![user("Hi")]);
        question.system = Arc::from(["Be brief.".to_owned()]);
        let mut stream = provider.stream(question);
        let (mut said, mut told, mut cost) = (String::new(), Usage::default(), None);
        while let Some(event) = stream.next().await {
            match event.unwrap_or_else(|error| panic!("{heading}: {error}")) {
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
        assert_eq!(
            (said.as_str(), told, cost),
            ("Hello", expected.usage, expected.cost),
            "{heading}"
        );
        let (head, body) = loopback.request();
        let whole = format!("{head}\r\n\r\n{body}");
        assert!(
            head.starts_with(&format!("POST {} HTTP/1.1\r\n", expected.path)),
            "{heading}: {head}"
        );
        match expected.key {
            NO_KEY => assert!(!head.contains("authorization"), "{heading}: {head}"),
            key => assert!(
                head.contains(&format!("\r\n{key}\r\n")),
                "{heading}: {head}"
            ),
        }
        for part in expected.sent {
            assert!(whole.contains(part), "{heading}: {part} is not in {whole}");
        }
    }
}

/// Numbers of recordings of a vendor, by feature.
#[derive(Default)]
struct Seen {
    streamed: usize,
    whole: usize,
    tools: usize,
    several: usize,
    thinking: usize,
    sealed: usize,
    cached: usize,
    cost: usize,
    errors: usize,
}

impl Seen {
    fn add(&mut self, recording: &Recording, events: &VecDeque<StreamEvent>) {
        let mut calls = 0;
        let (mut thinks, mut seals, mut caches, mut bills, mut ends) =
            (false, false, false, false, false);
        for event in events {
            match event {
                StreamEvent::BlockStarted { block, .. } => match block {
                    BlockStart::ToolUse { .. } => calls += 1,
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
                StreamEvent::Ended => ends = true,
                _ => {}
            }
        }
        let counts = [
            (&mut self.streamed, ends && recording.kind == "stream"),
            (&mut self.whole, ends && recording.kind == "json"),
            (&mut self.tools, ends && calls > 0),
            (&mut self.several, ends && calls > 1),
            (&mut self.thinking, ends && thinks),
            (&mut self.sealed, ends && seals),
            (&mut self.cached, ends && caches),
            (&mut self.cost, ends && bills),
            (&mut self.errors, !ends),
        ];
        for (count, shows) in counts {
            *count += usize::from(shows);
        }
    }

    fn cells(&self) -> [usize; 9] {
        [
            self.streamed,
            self.whole,
            self.tools,
            self.several,
            self.thinking,
            self.sealed,
            self.cached,
            self.cost,
            self.errors,
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

/// The table of the documentation, or `None` if the recordings are not available.
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
            let vendor = recording.vendor.replace('_', " ");
            seen.entry((vendor, name))
                .or_default()
                .add(&recording, &events);
        }
    }
    let head = "| vendor | protocol | streamed | whole | tools | several | thinking | sealed | cached | cost | errors |";
    let mut lines = vec![
        head.to_owned(),
        "| --- | --- |".to_owned() + &" ---: |".repeat(9),
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

/// With `AH_WRITE_DOCS=1` the table is written instead of compared.
#[test]
fn the_table_agrees_with_the_recordings() {
    let Some(matrix) = matrix() else {
        return;
    };
    let (before, rest) = PAGE.split_once("<!-- matrix -->\n").expect("a table");
    let (table, after) = rest.split_once("<!-- end of matrix -->").expect("its end");
    let fresh = format!("\n{matrix}\n\n");
    if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/providers.md");
        let page = format!("{before}<!-- matrix -->\n{fresh}<!-- end of matrix -->{after}");
        std::fs::write(path, page).expect("written");
    } else {
        assert_eq!(
            table, fresh,
            "set AH_WRITE_DOCS=1 to bring the page up to date"
        );
    }
}
