//! Each server of the table, reached by its name alone as a user does, against a server that refuses what the vendor refuses.

use ah_provider::presets::{self, Preset};
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, scenario, uses, uses_all};
use ah_testkit::server::vendor::Vendor;
use ah_testkit::server::{Pick, Server};
use serde_json::json;

use crate::support::binary::World;

/// Answers of a run.
const ANSWERS: usize = 50;

/// Answers with one call and with several, of which some fail.
fn turns() -> impl Iterator<Item = Turn> {
    let read = |path: &str| ("read", json!({"path": path}));
    let turn = move |number: usize| match number % 3 {
        0 => uses_all([read("a"), read("b"), read("missing")]),
        1 => uses("bash", json!({"command": format!("echo {number}; exit 3")})),
        _ => uses("read", json!({"path": "a"})),
    };
    (1..ANSWERS).map(turn).chain([says("Done.")])
}

/// Runs a prompt with the example of the row; returns what went wrong.
fn failure(preset: &Preset) -> Option<String> {
    let name = preset.name.as_str();
    let server = Server::start(scenario(turns()), Pick::InOrder, 0).unwrap();
    let server = match Vendor::of_row(name) {
        Some(vendor) => server.of(vendor),
        None => server,
    };
    let world = World::new();
    world.write("a", "one\n");
    world.write("b", "two\n");
    let model = format!("{name}/{}", preset.example);
    // At an address of its own, the row would be that of a compatible server.
    let api = preset.compatible.map(|_| preset.api);
    let settings = json!({"providers": {name: {"api": api}}}).to_string();
    let mut arguments = vec!["-p", "-m", &model, "go"];
    if api.is_some() {
        arguments.extend(["--settings", &settings]);
    }
    let ended = { world.ah(arguments) }
        .env(&preset.address_variable, server.url())
        .env(&preset.keys[0], "secret")
        .run()
        .without_panic();
    let requests = server.requests().len();
    let (refused, lost) = (server.refusals(), server.losses());
    let is_right = ended.code == Some(0)
        && ended.stdout.trim() == "Done."
        && requests == ANSWERS
        && refused.is_empty()
        && lost.is_empty();
    (!is_right).then(|| format!("{name}: {requests} requests, {refused:?} {lost:?}\n{ended:#?}"))
}

#[test]
fn each_server_of_the_table_answers_fifty_times() {
    let failures: Vec<_> = presets::servers().filter_map(failure).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A server that refuses one protocol for a model is asked by the other, also by the next process.
#[test]
fn the_protocol_that_a_server_takes_is_remembered() {
    let server = Server::start(scenario([says("One."), says("Two.")]), Pick::InOrder, 0).unwrap();
    let server = server.of(Vendor::named("openai").expect("a vendor"));
    let world = World::new();
    for said in ["One.", "Two."] {
        let ended = { world.ah(["-p", "-m", "openai/gpt-6.1-sol", "go"]) }
            .env("OPENAI_BASE_URL", server.url())
            .env("OPENAI_API_KEY", "secret")
            .run()
            .expect(0);
        assert_eq!(ended.stdout.trim(), said);
    }
    let requests = server.requests();
    let paths: Vec<_> = requests.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/v1/chat/completions", "/v1/responses", "/v1/responses"]
    );
}
