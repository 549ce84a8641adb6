//! Options that a host sends with `initialize`, and what they change in the model's requests.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::interrupted_again_and_again::blocks;
use crate::support::binary::World;

/// The texts of the messages of a request.
fn texts(body: &Value) -> Vec<String> {
    let texts = blocks(body).into_iter();
    texts
        .filter_map(|(_, block)| Some(block["text"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn the_environment_is_told_in_a_message() {
    for options in [json!({"excludeDynamicSections": true}), json!({})] {
        let world = World::new();
        let server = Server::new([says("one"), says("two")]);
        let mut host = Host::new(&world, &server, &[]);
        host.ask("initialize", &options);
        for prompt in ["first", "second"] {
            host.prompt(prompt);
            host.result();
        }
        let requests = server.requests();
        let place = world.project().display().to_string();
        let system = requests[0].body["system"].to_string();
        assert!(!system.contains(&place), "{system}");
        assert_eq!(requests[1].body["system"].to_string(), system);
        let said = requests[1].body["messages"].to_string();
        assert_eq!(said.matches(&place).count(), 1, "{said}");
    }
}

#[test]
fn plan_mode_has_the_hosts_instructions() {
    let world = World::new();
    let server = Server::new([says("a plan"), says("done")]);
    let mut host = Host::new(&world, &server, &["--permission-mode", "plan"]);
    host.ask(
        "initialize",
        &json!({"planModeInstructions": "List risks first."}),
    );
    host.prompt("go");
    host.result();
    host.ask("set_permission_mode", &json!({"mode": "acceptEdits"}));
    host.prompt("go on");
    host.result();
    let requests = server.requests();
    let first = texts(&requests[0].body);
    let has = |texts: &[String], part: &str| texts.iter().any(|text| text.contains(part));
    assert!(has(&first, "List risks first."), "{first:#?}");
    let second = texts(&requests[1].body);
    assert!(has(&second, "`plan mode` no longer applies"), "{second:#?}");
}

#[test]
fn a_tool_is_called_in_the_place_of_another() {
    let world = World::new();
    let server = Server::new([
        uses("Bash", json!({"command": "touch made"})),
        uses("OldName", json!({})),
        says("done"),
    ]);
    let script = McpScript::new()
        .tool("run")
        .on_call("run", "text elsewhere");
    let servers = json!({"mcpServers": {"s": script.config()}}).to_string();
    let arguments = ["--allowedTools=mcp__s__run", "--mcp-config", &servers];
    let mut host = Host::new(&world, &server, &arguments);
    let aliases = json!({"Bash": "mcp__s__run", "OldName": "mcp__s__run"});
    host.ask("initialize", &json!({"toolAliases": aliases}));
    host.prompt("go");
    assert_eq!(host.result()["result"], "done");
    assert!(!world.file("made").exists());
    for request in &server.requests()[1..] {
        let told = blocks(&request.body);
        let (_, last) = told.last().unwrap();
        assert!(last.to_string().contains("elsewhere"), "{last}");
    }
}
