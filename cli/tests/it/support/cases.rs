//! Sessions of every kind, for tests that run them over several protocols.

use ah_conversation::Usage;
use ah_provider::script::failure::Failure;
use ah_provider::script::format::{ScriptedCall, Turn, Wire};
use ah_testkit::script::{fails, says, thinks, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::json;

use crate::streams::body_of;
use crate::support::binary::{Ah, World};

/// A beta flag of the API.
pub const BETA: &str = "context-1m-2025-08-07";

/// A session, independent of the protocol.
pub struct Case {
    pub name: &'static str,
    pub arguments: &'static [&'static str],
    /// The prompts, one run each.
    pub prompts: &'static [&'static str],
    pub turns: Vec<Turn>,
    /// The exit code of the last run.
    pub code: i32,
}

/// Sessions with every kind of answer and every kind of failure.
pub fn cases() -> Vec<Case> {
    let mut cases = whole();
    cases.extend(broken());
    cases
}

/// Complete answers of every kind.
fn whole() -> Vec<Case> {
    let garbled = ScriptedCall {
        name: "bash".to_owned(),
        input_json: Some("{\"command\": \"echo".to_owned()),
        ..ScriptedCall::default()
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

/// Answers that fail or break off.
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
    // The proxy treats the end of its own stream as the end of the model's answer.
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

fn case(name: &'static str, turns: impl IntoIterator<Item = Turn>) -> Case {
    // Without usage, each protocol would report other defaults.
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

impl Case {
    /// A server that plays the model.
    pub fn server(&self) -> Server {
        Server::new(self.turns.clone())
    }

    /// Runs the session with `model`, as `reach` configures it. Returns the world and the exit code of the last run.
    pub fn run(&self, model: &str, reach: impl Fn(Ah) -> Ah) -> (World, Option<i32>) {
        let world = World::new();
        let mut code = None;
        for prompt in self.prompts {
            let arguments = [&["-m", model], self.arguments, &[prompt]].concat();
            code = reach(world.ah(arguments)).run().without_panic().code;
        }
        (world, code)
    }
}
