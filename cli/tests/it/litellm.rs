//! Sessions through the real LiteLLM proxy in front of a server that plays the vendor: over each of its protocols the
//! stored conversation is the same as without it.
//!
//! `cargo xtask test --all` installs the proxy and passes its path; without it, these tests pass without testing
//! anything.

pub mod proxy;

use std::env;
use std::thread;
use std::time::Instant;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::says;
use ah_testkit::server::{Received, Server};
use serde_json::{Value, json};

use self::proxy::{KEY, Proxy};
use crate::interrupted_again_and_again::blocks;
use crate::support::binary::{Ah, World};
use crate::support::cases::{BETA, Case, cases};
use crate::support::stored::{stored, without_place};

/// A model in the proxy's catalogue, with the capabilities of Claude.
const MODEL: &str = "claude-sonnet-4-5";

/// The outcome of a session.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The exit code of the last run.
    code: Option<i32>,
    /// Requests that the vendor's server refused.
    refusals: Vec<String>,
    stored: Vec<Value>,
    /// The conversation in the last request to the vendor.
    asked: Vec<(String, Value)>,
    /// Whether each request had the beta flag.
    has_beta: Vec<bool>,
}

impl Case {
    /// Runs the case with `model` of `server`, as `reach` configures it.
    fn outcome(&self, server: &Server, model: &str, reach: impl Fn(Ah) -> Ah) -> Outcome {
        let (world, code) = self.run(model, reach);
        let requests = server.requests();
        Outcome {
            code,
            refusals: server.refusals(),
            stored: stored(&world, server),
            asked: asked(&requests.last().unwrap().body, &world, server),
            has_beta: requests.iter().map(has_beta).collect(),
        }
    }

    /// The outcome without a proxy.
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

    /// The differences between the outcomes through `proxy`, by chat completions and by the Messages API, and the
    /// outcome without it.
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
        let outcomes = [(chat, by_chat), (messages, by_messages)]
            .map(|(model, outcome)| (model, format!("{outcome:#?}")));
        let others = outcomes.iter().filter(|(_, outcome)| *outcome != expected);
        others
            .map(|(model, outcome)| format!("{model}:\n{}", differences(&expected, outcome)))
            .collect()
    }
}

/// The servers behind the proxy for one case, by model name.
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
    let headers = (format!("headers/{MODEL}"), Server::new([says("Done.")]));
    let models = upstreams.iter().flat_map(|it| [&it.chat, &it.messages]);
    let turn = Turn {
        usage: Some(Usage {
            input_tokens: 1_000,
            output_tokens: 100,
            ..Usage::default()
        }),
        ..says("Done.")
    };
    let priced = ("priced/claude-opus-4-6".to_owned(), Server::new([turn]));
    let models = models.chain([&headers, &priced]);
    let started = Instant::now();
    let proxy = Proxy::start(
        &python,
        models.map(|(name, server)| proxy::of_vendor(name, server)),
    );
    println!("the proxy was ready after {:?}", started.elapsed());
    // Most of the time is spent in retry delays, so the cases run in parallel.
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
    assert_headers_arrive(&proxy, &headers.0, &headers.1);
    assert_cost_and_effort_are_the_models(&proxy, &priced.0, &priced.1);
}

/// Costs reported by the proxy override our catalogue, and an effort level is translated for the vendor.
fn assert_cost_and_effort_are_the_models(proxy: &Proxy, model: &str, server: &Server) {
    let model = format!("litellm/{model}");
    let world = World::new();
    let asked = world
        .ah(["-m", &model, "--effort", "max", "go"])
        .env("LITELLM_BASE_URL", proxy.url());
    asked.env("LITELLM_API_KEY", KEY).run().expect(0);
    let body = &server.requests()[0].body;
    assert_eq!(body["output_config"]["effort"], "max", "{body}");
    assert_eq!(body["thinking"]["type"], "adaptive", "{body}");
    let usage = world.ah(["usage", "--json"]).run().expect(0);
    let usage: Value = serde_json::from_str(&usage.stdout).unwrap();
    let expected = 1_000.0 * proxy::INPUT_PRICE + 100.0 * proxy::OUTPUT_PRICE;
    assert_eq!(usage["cost_usd"], expected, "{usage}");
}

/// Configured headers and betas reach the server behind the proxy.
fn assert_headers_arrive(proxy: &Proxy, model: &str, server: &Server) {
    let gateway = json!({
        "api": "openai",
        "baseUrl": proxy.url(),
        "keyEnv": "GATEWAY_KEY",
        "headers": {"x-team": "blue"},
        "quirks": {"extraHeaders": true},
    });
    let settings = json!({"providers": {"gateway": gateway}}).to_string();
    let model = format!("gateway/{model}");
    let world = World::new();
    let arguments = ["-m", &model, "--settings", &settings, "--betas", BETA, "go"];
    let asked = world.ah(arguments).env("GATEWAY_KEY", KEY);
    asked.run().expect(0);
    let requests = server.requests();
    assert!(has_beta(&requests[0]), "{:?}", requests[0].headers);
    assert_eq!(requests[0].headers["x-team"], "blue");
    let sent = format!("{:?}{}", requests[0].headers, requests[0].body);
    assert!(
        !sent.contains(KEY),
        "the key of the proxy is not for those behind it: {sent}"
    );
}

fn has_beta(request: &Received) -> bool {
    let betas = request.headers.get("anthropic-beta");
    betas.is_some_and(|betas| betas.contains(BETA))
}

/// The conversation that the vendor received, normalised: consecutive texts of one role joined, and results merged
/// with the text beside them, whoever sent it.
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

/// The lines in which two texts differ, with some context.
fn differences(expected: &str, told: &str) -> String {
    ah_diff::unified(("expected", expected), ("told", told))
}
