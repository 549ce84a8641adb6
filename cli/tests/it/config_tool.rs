//! The tool `Config` of the profile `sdk`: for hosts that name it.

use std::fs;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::World;

const NAMED: [&str; 4] = ["--profile", "sdk", "--tools", "Read,Config"];

fn settings(world: &World) -> Value {
    let path = world.home().join(".ah/settings.json");
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn settings_are_read_and_a_few_are_changed_for_later_sessions() {
    let world = World::new();
    let server = Server::new([
        uses("Config", json!({"setting": "model"})),
        uses("Config", json!({"setting": "effort", "value": "high"})),
        uses("Config", json!({"setting": "permissions", "value": "all"})),
        uses("Config", json!({"setting": "effort", "value": "endless"})),
        says("Done."),
    ]);
    let arguments = NAMED.iter().chain(&["-m", "sonnet", "Set it"]).copied();
    world.asking(&server, arguments).run().expect(0);
    let requests = server.requests();
    let last = requests.last().unwrap().body["messages"].to_string();
    for said in [
        r#"model = \"sonnet\""#,
        r#"effort = \"high\"; it applies from the next session"#,
        "`permissions` is the user's to set",
        "is not a value of `effort`",
    ] {
        assert!(last.contains(said), "{said}: {last}");
    }
    assert_eq!(settings(&world), json!({"effort": "high"}));
}

#[test]
fn a_change_is_asked_about_and_the_tool_has_to_be_named() {
    let world = World::new();
    let server = Server::new([
        uses("Config", json!({"setting": "model", "value": "opus"})),
        says("No."),
    ]);
    let arguments = NAMED
        .iter()
        .chain(&["-m", "sonnet", "-p", "Set it"])
        .copied();
    world.asking_as_typed(&server, arguments).run().expect(0);
    assert_eq!(settings(&world), Value::Null);
    let tools = world
        .as_typed(["--profile", "sdk", "tools"])
        .run()
        .expect(0);
    assert!(!tools.stdout.contains("Config"), "{}", tools.stdout);
}
