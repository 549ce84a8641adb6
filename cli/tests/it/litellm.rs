//! Sessions through the real LiteLLM proxy, in front of a server that plays the vendor: what is stored is what would be
//! stored without it, whichever of its protocols it is asked by.
//!
//! `cargo xtask test --all` installs the proxy and says where it is; otherwise there is nothing to do here.

mod proxy;

use std::env;
use std::thread;
use std::time::Instant;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::says;
use ah_testkit::server::{Received, Server};
use serde_json::{Value, json};
use similar::TextDiff;

use self::proxy::{KEY, Proxy};
use crate::binary::{Ah, World};
use crate::cases::{BETA, Case, cases};
use crate::stored::{stored, without_place};
use crate::talk::blocks;

/// A model that the proxy knows, and with it what Claude can do.
const MODEL: &str = "claude-sonnet-4-5";

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
    /// Runs through it, asking `model` of `server` as `reach` says.
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
        let outcomes = [(chat, by_chat), (messages, by_messages)]
            .map(|(model, outcome)| (model, format!("{outcome:#?}")));
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
    assert_headers_arrive(&proxy, &headers.0, &headers.1);
    assert_cost_and_effort_are_the_models(&proxy, &priced.0, &priced.1);
}

/// What the proxy says that a call costs counts more than our list, and a word for effort comes to the model as the
/// vendor wants it.
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

/// What the settings say of headers, and betas, come to the server behind the proxy.
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
