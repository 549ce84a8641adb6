//! Between prompts: interrupts with queued prompts, permission mode changes, compaction, and sessions without a
//! prompt.

use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

fn named(text: &str, uuid: &str) -> Value {
    json!({
        "type": "user",
        "message": {"role": "user", "content": text},
        "uuid": uuid,
    })
}

/// A word for each message that belongs to a turn.
fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| {
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let kind = match word("type").as_str() {
            "system" => word("subtype"),
            kind => kind.to_owned(),
        };
        let more = [
            word("status"),
            word("permissionMode"),
            word("compact_result"),
            line["request"]["input"]["hook_event_name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ];
        let words = std::iter::once(kind).chain(more);
        let words = words.filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(kind).collect()
}

/// Editors wait for the end of each prompt by its UUID, also of one that is cancelled or never begins.
#[test]
fn prompts_with_uuids_are_followed_to_their_end() {
    let world = World::new();
    let server = Server::new([says("One."), hangs("Twice")]);
    let mut host = Host::new(&world, &server, &["--include-partial-messages"]);
    host.say(&named("a", "u-a"));
    let result = host.result();
    assert_eq!(result["user_message_uuids"], json!(["u-a"]));
    host.say(&named("b", "u-b"));
    host.until(|line| line["event"]["delta"]["text"] == "Twice");
    host.say(&named("c", "u-c"));
    host.ask("interrupt", &json!({"cancel_queued": true}));
    host.result();
    host.until(|line| line["command_uuid"] == "u-b" && line["state"] == "cancelled");
    let states = host.seen.iter().filter_map(|line| {
        Some(format!(
            "{} {}",
            line["command_uuid"].as_str()?,
            line["state"].as_str()?
        ))
    });
    insta::assert_snapshot!(states.collect::<Vec<_>>().join("\n"), @"
    u-a queued
    u-a started
    u-a completed
    u-b queued
    u-b started
    u-c queued
    u-c cancelled
    u-b cancelled
    ");
    let init = host
        .seen
        .iter()
        .find(|line| line["subtype"] == "init")
        .unwrap();
    assert_eq!(init["user_message_uuids"], json!(["u-a"]));
    let capabilities = init["capabilities"].as_array().unwrap();
    assert!(capabilities.contains(&json!("msg_lifecycle_v1")));
}

/// An early interrupt ends the run of the prompt before it and no other.
#[test]
fn an_interrupt_reaches_a_prompt_that_has_not_begun() {
    let world = World::new();
    let server = Server::new([says("Two.")]);
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("one");
    let id = host.request("interrupt", &json!({}));
    host.prompt("two");
    assert_eq!(host.answer_to(&id)["response"], json!({"still_queued": []}));
    assert_eq!(host.result()["subtype"], "error_during_execution");
    assert_eq!(host.result()["result"], "Two.");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(host.end().code, Some(0));
}

#[test]
fn prompts_that_wait_are_told_and_taken_back() {
    let world = World::new();
    let server = Server::new([hangs("Once"), hangs("Twice"), says("Done.")]);
    let mut host = Host::new(&world, &server, &["--include-partial-messages"]);
    host.prompt("a");
    host.until(|line| line["event"]["delta"]["text"] == "Once");
    for (text, uuid) in [("b", "u-b"), ("c", "u-c"), ("d", "u-d")] {
        host.say(&named(text, uuid));
    }
    let answer = host.ask("cancel_async_message", &json!({"message_uuid": "u-b"}));
    assert_eq!(answer["response"], json!({"cancelled": true}));
    let answer = host.ask("interrupt", &json!({}));
    let expected = json!({"still_queued": ["u-c", "u-d"]});
    assert_eq!(answer["response"], expected);
    host.result();
    host.until(|line| line["event"]["delta"]["text"] == "Twice");
    let answer = host.ask("cancel_async_message", &json!({"message_uuid": "u-c"}));
    assert_eq!(answer["response"], json!({"cancelled": false}));
    let answer = host.ask("interrupt", &json!({"cancel_queued": true}));
    let expected = json!({"still_queued": [], "cancelled": ["u-d"]});
    assert_eq!(answer["response"], expected);
    host.result();
    host.prompt("e");
    assert_eq!(host.result()["result"], "Done.");
    let prompts = server.requests();
    let last = |body: &Value| {
        body["messages"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .to_string()
    };
    let prompts: Vec<_> = prompts.iter().map(|request| last(&request.body)).collect();
    assert!(
        prompts[1].contains("\"c\"") && prompts[2].contains("\"e\""),
        "{prompts:?}"
    );
    assert!(!prompts.concat().contains("\"b\"") && !prompts.concat().contains("\"d\""));
}

/// A host is notified of every permission mode change: by itself, by its permission answer, by an approved plan.
#[test]
fn a_change_of_the_mode_is_told() {
    let world = World::new();
    let server = Server::new([
        uses("ExitPlanMode", json!({"plan": "Write it."})),
        uses("Bash", json!({"command": "touch made"})),
        says("Done."),
    ]);
    let mut host = Host::new(&world, &server, &["--permission-prompt-tool", "stdio"]);
    let answer = host.ask("set_permission_mode", &json!({"mode": "plan"}));
    assert_eq!(answer["subtype"], "success");
    let told = host.next().unwrap();
    assert_eq!(
        (&told["subtype"], &told["permissionMode"]),
        (&json!("status"), &json!("plan"))
    );
    host.prompt("plan it");
    let asks = |line: &Value| line["request"]["subtype"] == "can_use_tool";
    let asked = host.until(asks);
    let input = &asked["request"]["input"];
    host.answer(&asked, &json!({"behavior": "allow", "updatedInput": input}));
    let told = host.until(|line| line["subtype"] == "status");
    assert_eq!(told["permissionMode"], "default");
    let asked = host.until(asks);
    let input = &asked["request"]["input"];
    let update = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
    host.answer(
        &asked,
        &json!({"behavior": "allow", "updatedInput": input, "updatedPermissions": [update]}),
    );
    let told = host.until(|line| line["subtype"] == "status");
    assert_eq!(told["permissionMode"], "acceptEdits");
    host.result();
    let over = host.end();
    let changes = kinds(&over.lines);
    let changes = changes.iter().filter(|kind| kind.starts_with("status"));
    assert_eq!(changes.count(), 3);
}

/// Compaction on a host's request sends the messages in the original's order, with hooks around it; its result is
/// empty.
#[test]
fn hosts_are_told_of_a_summary() {
    let world = World::new();
    let server = Server::new([
        says("A long answer."),
        says("What was said."),
        says("After."),
    ]);
    let mut host = Host::new(&world, &server, &[]);
    let hook = |id: &str| json!([{"matcher": null, "hookCallbackIds": [id]}]);
    let hooks = json!({"PreCompact": hook("before"), "SessionStart": hook("begins")});
    host.ask("initialize", &json!({"hooks": hooks}));
    host.prompt("go");
    let asks = |line: &Value| line["request"]["subtype"] == "hook_callback";
    let asked = host.until(asks);
    assert_eq!(asked["request"]["input"]["source"], "startup");
    host.answer(&asked, &json!({}));
    host.result();
    let before = host.seen.len();
    host.prompt("/compact keep the names");
    let asked = host.until(asks);
    let input = &asked["request"]["input"];
    assert_eq!(input["trigger"], "manual");
    assert_eq!(input["custom_instructions"], "keep the names");
    host.answer(&asked, &json!({}));
    let asked = host.until(asks);
    assert_eq!(asked["request"]["input"]["source"], "compact");
    host.answer(&asked, &json!({}));
    let result = host.result();
    assert_eq!(
        (&result["result"], &result["num_turns"]),
        (&json!(""), &json!(0))
    );
    insta::assert_snapshot!(kinds(&host.seen[before..]).join("\n"), @"
init default
status compacting
control_request PreCompact
status success
compact_boundary
user
control_request SessionStart
user
result
");
    let boundary = host
        .seen
        .iter()
        .find(|line| line["subtype"] == "compact_boundary");
    assert_eq!(boundary.unwrap()["compact_metadata"]["trigger"], "manual");
    let asked = server.requests()[1].body.to_string();
    assert!(asked.contains("keep the names"), "{asked}");
    host.prompt("after");
    assert_eq!(host.result()["result"], "After.");
    let body = server.requests()[2].body["messages"].to_string();
    assert!(
        body.contains("What was said.") && !body.contains("A long answer."),
        "{body}"
    );
}

/// A session without a prompt leaves no file behind.
#[test]
fn a_session_in_which_nothing_was_said_is_gone() {
    let world = World::new();
    let server = Server::new([says("One.")]);
    let databases = || {
        let entries = std::fs::read_dir(world.file(".ah")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name != ".gitignore")
            .collect::<Vec<_>>()
    };
    let mut host = Host::new(&world, &server, &[]);
    host.ask("initialize", &json!({"hooks": null}));
    host.ask("mcp_status", &json!({}));
    assert_eq!(host.end().code, Some(0));
    assert_eq!(databases(), Vec::<String>::new());
    assert!(!world.home().join(".claude").exists());
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("one");
    host.result();
    assert_eq!(host.end().code, Some(0));
    assert!(!databases().is_empty());
}
