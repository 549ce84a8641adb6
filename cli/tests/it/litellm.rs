//! Sessions through the real LiteLLM proxy, in front of a server that plays the vendor: what is stored is what would be
//! stored without it, whichever of its protocols it is asked by.
//!
//! `cargo xtask test --all` installs the proxy and says where it is; otherwise there is nothing to do here.

mod proxy;

use std::env;
use std::thread;
use std::time::Instant;

use ah_conversation::Usage;
use ah_provider::script::failure::Failure;
use ah_provider::script::format::{Call, Turn, Wire};
use ah_testkit::script::{fails, says, thinks, uses, uses_all};
use ah_testkit::server::{Received, Server};
use serde_json::{Value, json};
use similar::TextDiff;

use self::proxy::{KEY, Proxy};
use crate::binary::{Ah, World};
use crate::stored::{stored, without_place};
use crate::streams::body_of;
use crate::talk::blocks;

/// A model that the proxy knows, and with it what Claude can do.
const MODEL: &str = "claude-sonnet-4-5";

/// Something to ask for that is not for everybody yet.
const BETA: &str = "context-1m-2025-08-07";

/// A session, whoever carries it.
struct Case {
    name: &'static str,
    arguments: &'static [&'static str],
    /// One run each.
    prompts: &'static [&'static str],
    turns: Vec<Turn>,
    /// How the last run ends.
    code: i32,
}

fn case(name: &'static str, turns: impl IntoIterator<Item = Turn>) -> Case {
    // Where there are none, each tells something else.
    let usage = Some(Usage {
        input_tokens: 20,
        output_tokens: 7,
        cache_creation_input_tokens: 30,
        cache_read_input_tokens: 400,
        ..Usage::default()
    });
    Case {
        name,
        arguments: &[],
        prompts: &["go"],
        turns: turns
            .into_iter()
            .map(|turn| Turn { usage, ..turn })
            .collect(),
        code: 0,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = whole();
    cases.extend(broken());
    cases
}

/// Answers of every kind.
fn whole() -> Vec<Case> {
    let garbled = Call {
        name: "bash".to_owned(),
        input_json: Some("{\"command\": \"echo".to_owned()),
        ..Call::default()
    };
    let thoughtful = Turn {
        tools: uses("bash", json!({"command": "echo one"})).tools,
        ..thinks("Let me see: ü.", "I look.")
    };
    vec![
        Case {
            prompts: &["go", "go on"],
            ..case(
                "text",
                [
                    Turn {
                        pieces: Some(9),
                        ..says("Zwölf Boxkämpfer ✓ 🦀\n\n")
                    },
                    says("And on."),
                ],
            )
        },
        case(
            "tools",
            [
                Turn {
                    text: Some("I look.".into()),
                    pieces: Some(4),
                    ..uses("bash", json!({"command": "echo one; exit 3"}))
                },
                uses("read", json!({"path": "nowhere"})),
                says("Done."),
            ],
        ),
        case(
            "parallel-tools",
            [
                uses_all([
                    ("bash", json!({"command": "echo one"})),
                    ("bash", json!({})),
                    ("nothing", json!({"a": {"b": [1, null, "ü"]}})),
                    ("bash", json!({"command": "echo two"})),
                ]),
                says("Done."),
            ],
        ),
        Case {
            arguments: &["--max-thinking-tokens", "2048"],
            prompts: &["go", "go on"],
            ..case(
                "thinking",
                [
                    thoughtful,
                    thinks("So that was one.", "One."),
                    says("And on."),
                ],
            )
        },
        case(
            "arguments-that-are-no-json",
            [
                Turn {
                    tool: Some(garbled),
                    ..Turn::default()
                },
                says("Done."),
            ],
        ),
        Case {
            arguments: &["--betas", BETA],
            ..case("betas", [says("Done.")])
        },
        Case {
            code: 1,
            ..case(
                "refusal",
                [Turn {
                    stop_reason: Some("refusal".to_owned()),
                    ..says("No.")
                }],
            )
        },
    ]
}

/// Answers that do not come, or not to their end.
fn broken() -> Vec<Case> {
    let call = || Turn {
        text: Some("I look.".into()),
        ..uses("bash", json!({"command": "echo one"}))
    };
    let overloaded = || {
        Some(Failure {
            kind: Some("overloaded_error".to_owned()),
            ..Failure::default()
        })
    };
    let limited = Failure {
        status: Some(429),
        retry_after: Some(0.0),
        ..Failure::default()
    };
    let too_long = Failure {
        status: Some(400),
        message: Some("prompt is too long: 210000 tokens > 200000 maximum".to_owned()),
        ..Failure::default()
    };
    let error = |failure| Turn {
        error: Some(failure),
        ..Turn::default()
    };
    let breaking = |turn| Turn {
        stream_error: overloaded(),
        ..turn
    };
    let cut = |turn| Turn { cut: true, ..turn };
    // The proxy takes its own end for the model's.
    let body = body_of(&call());
    let begun = body[..body.rfind("event: content_block_stop").unwrap()].replace("one\\\"}", "");
    let ended = Turn {
        wire: Some(Wire {
            body: Some(begun),
            ..Wire::default()
        }),
        ..Turn::default()
    };
    let then = |turn| [turn, call(), says("Done.")];
    vec![
        case("rate-limit", then(error(limited))),
        case("server-error", then(fails(500, "api_error"))),
        case("overloaded", then(fails(529, "overloaded_error"))),
        case("error-in-text", then(breaking(says("I look")))),
        case("error-in-a-call", then(breaking(call()))),
        case("error-at-once", then(breaking(Turn::default()))),
        case("cut-in-text", then(cut(says("I look")))),
        case("cut-in-a-call", then(cut(call()))),
        case("ended-in-a-call", then(ended)),
        Case {
            code: 1,
            ..case("bad-request", [fails(400, "invalid_request_error")])
        },
        Case {
            prompts: &["go", "go on", "go on"],
            ..case(
                "too-long",
                [
                    says("First."),
                    says("Second."),
                    error(too_long),
                    says("In short."),
                    says("Third."),
                ],
            )
        },
    ]
}

/// What came of a session.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// How the last run ended.
    code: Option<i32>,
    /// What the vendor refused.
    refusals: Vec<String>,
    stored: Vec<Value>,
    /// What the vendor was told in the end.
    asked: Vec<(String, Value)>,
    /// Whether it was asked for the beta, each time.
    has_beta: Vec<bool>,
}

impl Case {
    fn server(&self) -> Server {
        Server::new(self.turns.clone())
    }

    /// Runs through it, asking `model` of `server` as `reach` says.
    fn outcome(&self, server: &Server, model: &str, reach: impl Fn(Ah) -> Ah) -> Outcome {
        let world = World::new();
        let mut code = None;
        for prompt in self.prompts {
            let arguments = [&["-m", model], self.arguments, &[prompt]].concat();
            code = reach(world.ah(arguments)).run().without_panic().code;
        }
        let requests = server.requests();
        Outcome {
            code,
            refusals: server.refusals(),
            stored: stored(&world, server),
            asked: asked(&requests.last().unwrap().body, &world, server),
            has_beta: requests.iter().map(has_beta).collect(),
        }
    }

    /// What comes of it without a proxy.
    fn directly(&self) -> Outcome {
        let server = self.server();
        let outcome = self.outcome(&server, &format!("anthropic/{MODEL}"), |ah| {
            ah.env("ANTHROPIC_BASE_URL", server.url())
                .env("ANTHROPIC_API_KEY", "key")
        });
        let name = self.name;
        assert_eq!(outcome.code, Some(self.code), "{name}: {outcome:#?}");
        assert_eq!(outcome.refusals, Vec::<String>::new(), "{name}");
        let wants_beta = self.arguments.contains(&BETA);
        assert!(
            outcome.has_beta.iter().all(|it| *it == wants_beta),
            "{name}"
        );
        outcome
    }

    /// How what comes of it by chat completions and by the Messages API of `proxy` differs from what comes of it
    /// without.
    fn faults(&self, proxy: &Proxy, upstream: &Upstream) -> Vec<String> {
        let expected = format!("{:#?}", self.directly());
        let chat = format!("litellm/{}", upstream.chat.0);
        let by_chat = self.outcome(&upstream.chat.1, &chat, |ah| {
            ah.env("LITELLM_BASE_URL", proxy.url())
                .env("LITELLM_API_KEY", KEY)
        });
        let messages = format!("anthropic/{}", upstream.messages.0);
        let by_messages = self.outcome(&upstream.messages.1, &messages, |ah| {
            ah.env("ANTHROPIC_BASE_URL", proxy.url())
                .env("ANTHROPIC_API_KEY", KEY)
        });
        let outcomes = [(chat, by_chat), (messages, by_messages)];
        let outcomes = outcomes.map(|(model, outcome)| (model, format!("{outcome:#?}")));
        let others = outcomes.iter().filter(|(_, outcome)| *outcome != expected);
        others
            .map(|(model, outcome)| format!("{model}:\n{}", differences(&expected, outcome)))
            .collect()
    }
}

/// The servers behind the proxy for one case, by the names of their models.
struct Upstream {
    chat: (String, Server),
    messages: (String, Server),
}

impl Upstream {
    fn new(case: &Case) -> Self {
        let of = |protocol| (format!("{protocol}/{}/{MODEL}", case.name), case.server());
        Self {
            chat: of("chat"),
            messages: of("messages"),
        }
    }
}

#[test]
fn what_is_stored_is_the_same_as_without_the_proxy() {
    let Some(python) = env::var_os("AH_TEST_LITELLM") else {
        return;
    };
    let cases = cases();
    let upstreams: Vec<_> = cases.iter().map(Upstream::new).collect();
    let models = upstreams.iter().flat_map(|it| [&it.chat, &it.messages]);
    let started = Instant::now();
    let proxy = Proxy::start(&python, models);
    println!("the proxy was ready after {:?}", started.elapsed());
    // Most of the time is waited before another attempt.
    let faults: Vec<_> = thread::scope(|scope| {
        let pairs = cases.iter().zip(&upstreams);
        let threads: Vec<_> = pairs
            .map(|(case, upstream)| scope.spawn(|| case.faults(&proxy, upstream)))
            .collect();
        threads
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    println!("the sessions were over after {:?}", started.elapsed());
    let log = proxy.log().display();
    assert!(faults.is_empty(), "{}\nlog: {log}", faults.join("\n"));
}

fn has_beta(request: &Received) -> bool {
    let betas = request.headers.get("anthropic-beta");
    betas.is_some_and(|betas| betas.contains(BETA))
}

/// What the vendor was told, in one form: texts of one role as one, and results with theirs by whoever wrote them.
fn asked(body: &Value, world: &World, server: &Server) -> Vec<(String, Value)> {
    let body = without_place(&body.to_string(), world, server);
    let mut told: Vec<(String, Value)> = Vec::new();
    for (role, block) in blocks(&serde_json::from_str(&body).unwrap()) {
        let block = match block["type"].as_str() {
            Some("text") => block["text"].clone(),
            Some("tool_result") => result(&block),
            _ => block,
        };
        match (told.last_mut(), &block) {
            (Some((last, Value::String(text))), Value::String(more)) if *last == role => {
                text.push_str("\n\n");
                text.push_str(more);
            }
            _ => told.push((role, block)),
        }
    }
    told
}

fn result(block: &Value) -> Value {
    let content = &block["content"];
    let text = content.pointer("/0/text").unwrap_or(content).as_str();
    let prefix = if block["is_error"] == true {
        "Error: "
    } else {
        ""
    };
    json!({"of": block["tool_use_id"], "text": format!("{prefix}{}", text.unwrap_or_default())})
}

/// The lines that only one of two texts has, with some around them.
fn differences(expected: &str, told: &str) -> String {
    let changes = TextDiff::from_lines(expected, told);
    changes
        .unified_diff()
        .header("expected", "told")
        .to_string()
}
