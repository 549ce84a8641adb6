//! A scenario gives the same answers over a socket as by the scripted model: the loopback server and the decoder of the
//! Messages API agree with the player.

use std::collections::BTreeMap;
use std::time::Duration;

use ah_conversation::{Delta, Environment, StreamEvent};
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::retry::Policy;
use ah_provider::script::format::{ScriptedCall, Turn};
use ah_provider::script::play::{Step, TurnContext};
use ah_provider::{Options, connect};
use ah_testkit::server::{Pick, Server};
use proptest::prelude::*;

use super::*;

/// The real client, without retries, for `server`.
fn client(server: &Server) -> Arc<dyn Provider> {
    let variables = [
        ("ANTHROPIC_BASE_URL", server.url()),
        ("ANTHROPIC_API_KEY", "k".to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let options = Options {
        environment: &Environment::new(variables, "/".into()),
        catalog: &Catalog::built_in(),
        servers: &BTreeMap::new(),
        key_source: &crate::route::no_command,
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
            first_delay: Duration::ZERO,
            ..Policy::default()
        },
        seed: 1,
    };
    connect("anthropic/test", &options).expect("a key and an address")
}

/// The answer of `provider`, without the request's size and id, the answer's id and the token counts, which differ.
async fn told(provider: &dyn Provider) -> Vec<String> {
    let events = provider.stream(request(&[user(0, "hello")]));
    let told = events.filter_map(async |event| match event {
        Ok(
            StreamEvent::Sent { .. } | StreamEvent::Accepted { .. } | StreamEvent::Started { .. },
        ) => None,
        Ok(event) => Some(format!("{event:?}")),
        Err(error) => Some(format!(
            "{:?} {:?} {:?}",
            error.class, error.status, error.retry_after
        )),
    });
    told.collect().await
}

async fn agree(yaml: &str) {
    let scenario = Scenario::parse(yaml).expect("valid");
    let server = Server::start(scenario.clone(), Pick::InOrder, 0).expect("a free port");
    let client = client(&server);
    let script = Script::new("test", scenario.clone()).expect("valid");
    for turn in &scenario.turns {
        assert_eq!(told(&*client).await, told(&script).await, "{turn:?}");
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn the_server_says_what_the_script_says() {
    agree(
        r#"
turns:
  - thinking: [Two , words]
    text: [Let me, " look."]
    tools:
      - {name: bash, id: toolu_1, input: {command: "ls\n", nested: {list: [1, 2.5, null, "ü"]}}}
      - {name: read, id: toolu_2}
    pieces: 5
    usage: {input_tokens: 7, output_tokens: 5, cache_read_input_tokens: 3, cache_creation_input_tokens: 2}
  - content: [{redacted_thinking: abc}, {text: a}, {other: {type: new_thing, x: 1}}, {text: b}]
    stop_reason: max_tokens
  - {text: "", stop_reason: refusal}
  - {tool: {name: bash, id: toolu_3, input_json: '{"comm'}, stop_reason: max_tokens}
  - {error: {status: 429, type: rate_limit_error, message: slow down, retry_after: 7}}
  - {error: {status: 400, message: "prompt is too long: 2 > 1"}}
  - {error: {status: 401}}
  - {error: {message: reset}}
  - {text: Well, stream_error: {type: overloaded_error, message: Overloaded}}
  - {text: Well, cut: true}
"#,
    )
    .await;
}

#[tokio::test]
async fn the_demo_is_the_same_over_a_socket() {
    let demo = std::fs::read_to_string("src/script/demo.yaml").expect("the crate's folder");
    let demo = Scenario {
        chunk_delay_ms: None,
        ..Scenario::parse(&demo).expect("valid")
    };
    let server = Server::start(demo.clone(), Pick::InOrder, 0).expect("a free port");
    let client = client(&server);
    let words = words(&*client, &[user(0, demo::PROMPT)]).await;
    assert_eq!(
        words,
        "I'll run the test first, to see the failure for myself."
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Text is the same however it is cut, and a scenario is the same after writing and parsing.
    #[test]
    fn a_scenario_survives_being_written(text in "(?s).{1,40}|[ \\n\\ta#:|>-]{1,12}", key in "[a-z]{1,5}", value in "(?s).{0,20}|[ \\n\\r\\ta:-]{0,9}", pieces in 1_usize..9) {
        prop_assume!(!text.is_empty());
        let scenario = Scenario {
            turns: vec![Turn {
                text: Some(text.as_str().into()),
                tool: Some(ScriptedCall {
                    name: "bash".to_owned(),
                    input: json!({ key: value }).as_object().cloned().unwrap_or_default(),
                    ..ScriptedCall::default()
                }),
                pieces: Some(pieces),
                ..Turn::default()
            }],
            ..Scenario::default()
        };
        let yaml = serde_saphyr::to_string(&scenario).expect("plain data");
        prop_assert_eq!(&Scenario::parse(&yaml).expect("just written"), &scenario);
        let json = serde_json::to_string(&scenario).expect("plain data");
        prop_assert_eq!(&Scenario::parse(&json).expect("just written"), &scenario);
        let steps = scenario.turns[0].steps(&TurnContext::default(), None);
        let said: String = steps.iter().filter_map(|step| match step {
            Step::Event(StreamEvent::Delta { delta: Delta::Text(piece), .. }) => Some(piece.as_str()),
            _ => None,
        }).collect();
        prop_assert_eq!(said, text);
    }
}
