//! Hooks of a host around a whole answer: after its calls, and in the place of its end.

use ah_testkit::script::{fails, says, uses_all};
use ah_testkit::server::Server;
use serde_json::json;

use super::host::Host;
use crate::binary::World;

fn hooks(event: &str) -> serde_json::Value {
    json!({"hooks": {event: [{"matcher": null, "hookCallbackIds": ["hook"]}]}})
}

#[test]
fn a_hook_sees_all_calls_of_an_answer_at_once() {
    let world = World::new();
    world.write("a.txt", "one");
    let read = |name: &str| json!({"file_path": world.file(name)});
    let calls = uses_all([("Read", read("a.txt")), ("Read", read("missing.txt"))]);
    let server = Server::new([calls, says("done")]);
    let mut host = Host::new(&world, &server, &[]);
    host.ask("initialize", &hooks("PostToolBatch"));
    host.prompt("go");
    let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
    let input = &asked["request"]["input"];
    assert_eq!(input["hook_event_name"], "PostToolBatch");
    let told = input["tool_calls"].as_array().unwrap();
    let names: Vec<_> = told.iter().map(|call| &call["tool_name"]).collect();
    assert_eq!(names, ["Read", "Read"]);
    assert_eq!(told[0]["tool_input"], read("a.txt"));
    let text = told[0]["tool_response"].as_str().unwrap();
    assert!(text.contains("one"), "{text}");
    let context = json!({"hookEventName": "PostToolBatch", "additionalContext": "now the tests"});
    host.answer(&asked, &json!({"hookSpecificOutput": context}));
    assert_eq!(host.result()["result"], "done");
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(sent.contains("[HOOK] now the tests"), "{sent}");
}

#[test]
fn a_hook_is_told_why_a_run_failed() {
    let world = World::new();
    let server = Server::new([fails(400, "invalid_request_error")]);
    let mut host = Host::new(&world, &server, &[]);
    host.ask("initialize", &hooks("StopFailure"));
    host.prompt("go");
    let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
    assert_eq!(asked["request"]["input"]["error"], "invalid_request");
    host.answer(&asked, &json!({}));
    assert_eq!(host.result()["is_error"], true);
}
