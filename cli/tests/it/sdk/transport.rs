//! Careless hosts, and the end of a session.

use std::collections::BTreeSet;

use ah_conversation::Usage;
use ah_testkit::script::{Turn, says, uses};
use ah_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::host::Host;
use crate::support::binary::World;

/// Hosts accept lines of up to 1 MiB. A longer call is shown truncated, and runs in full if the host returns the
/// truncated parts unchanged, with the host's other changes.
#[test]
fn a_call_that_is_too_long_for_a_line_is_run_whole() {
    let world = World::new();
    let content = "é\n".repeat(1024 * 1024);
    let call = uses(
        "Write",
        json!({"file_path": world.file("a.txt"), "content": content}),
    );
    // A low token count, so that it is not compacted.
    let usage = Some(Usage {
        input_tokens: 10,
        output_tokens: 10,
        ..Usage::default()
    });
    let server = Server::new([Turn { usage, ..call }, says("Written.")]);
    let mut host = Host::new(&world, &server, &["--permission-prompt-tool", "stdio"]);
    host.prompt("Write it.");
    let question = host.until(|line| line["request"]["subtype"] == "can_use_tool");
    assert!(question.to_string().len() < 1024 * 1024);
    let mut input = question["request"]["input"].clone();
    input["file_path"] = json!(world.file("b.txt"));
    host.answer(
        &question,
        &json!({"behavior": "allow", "updatedInput": input}),
    );
    assert_eq!(host.result()["result"], "Written.");
    let over = host.end();
    let longest = over.lines.iter().map(|line| line.to_string().len()).max();
    assert!(longest < Some(1024 * 1024), "{longest:?}");
    assert!(!world.file("a.txt").exists());
    assert!(world.text("b.txt") == content, "the file is whole");
}

/// One object per line; blank lines are ignored. Invalid lines are reported and skipped, and the session continues;
/// the exit code reports the error.
#[test]
fn a_line_that_cannot_be_read_ends_nothing() {
    let bad: [&[u8]; 7] = [
        b"{",
        b"[1, 2]",
        b"hello",
        b"{\"type\": \"user\", \"message\": \xff}",
        b"{\"no\": \"type\"}",
        b"{\"type\": \"user\"}",
        b"{\"type\": \"control_request\"}",
    ];
    for line in bad {
        let world = World::new();
        let server = Server::new([says("Hello.")]);
        let mut host = Host::new(&world, &server, &[]);
        host.write(line);
        host.prompt("Hello.");
        assert_eq!(host.result()["result"], "Hello.");
        let over = host.end();
        let told =
            |it: &&serde_json::Value| it["subtype"] == "informational" && it["level"] == "error";
        assert_eq!(over.lines.iter().filter(told).count(), 1, "{over:#?}");
        assert_eq!(over.code, Some(1), "{over:#?}");
    }
    let harmless: [&[u8]; 5] = [
        b"",
        b" \t\r",
        b"{\"type\": \"keep_alive\"}",
        b"{\"type\": \"something_new\", \"x\": 1}",
        b"{\"type\": \"control_response\", \"response\": {\"subtype\": \"success\", \"request_id\": \"nobody\"}}",
    ];
    let world = World::new();
    let server = Server::new([says("Hello.")]);
    let mut host = Host::new(&world, &server, &[]);
    harmless.iter().for_each(|line| host.write(line));
    host.prompt("Hello.");
    assert_eq!(host.result()["result"], "Hello.");
    assert_eq!(host.end().code, Some(0));
}

/// Messages written concurrently are not interleaved; [`Host`] parses each of them.
#[test]
fn answers_in_the_middle_of_a_stream() {
    const REQUESTS: usize = 200;
    let world = World::new();
    let server = Server::new([Turn {
        pieces: Some(2000),
        ..says(&"word ".repeat(2000))
    }]);
    let mut host = Host::new(&world, &server, &["--include-partial-messages"]);
    host.prompt("Speak.");
    let asked: BTreeSet<_> = (0..REQUESTS)
        .map(|_| host.request("mcp_status", &json!({})))
        .collect();
    host.result();
    let lines = host.end().lines;
    let answered = lines
        .iter()
        .filter_map(|line| line["response"]["request_id"].as_str());
    let answered: Vec<_> = answered.map(str::to_owned).collect();
    assert_eq!(answered.len(), REQUESTS);
    assert_eq!(answered.into_iter().collect::<BTreeSet<_>>(), asked);
    let deltas = lines
        .iter()
        .filter(|line| line["event"]["delta"]["text"].is_string());
    assert_eq!(deltas.count(), 2000);
}

/// After the end of input, all prompts are finished before the program exits.
#[test]
fn the_end_of_the_input_comes_after_all_prompts() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("First.");
    host.prompt("Second.");
    let over = host.end();
    assert_eq!(over.code, Some(0), "{over:#?}");
    let results = over.lines.iter().filter(|line| line["type"] == "result");
    assert_eq!(
        results
            .map(|line| line["result"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["One.", "Two."]
    );
    world.assert_nothing_runs();
}

/// Empty input gives empty output.
#[test]
fn an_empty_input() {
    let world = World::new();
    let over = Host::new(&world, &Server::new([says("never")]), &[]).end();
    assert_eq!((over.code, over.lines.len()), (Some(0), 0), "{over:#?}");
    assert_eq!(over.stderr, "");
}

/// SIGTERM ends a run and its processes; the messages so far are stored, and the session can be resumed.
#[test]
fn a_signal_ends_a_run_cleanly() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "touch started; sleep 300"}))]);
    let mut host = Host::new(&world, &server, &["--allowedTools", "Bash"]);
    host.prompt("Wait.");
    host.until(|line| line["type"] == "tool_progress");
    kill_process(
        Pid::from_raw(host.pid().try_into().unwrap()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    let over = host.end();
    assert_eq!(over.code, Some(143), "{over:#?}");
    world.assert_nothing_runs();

    let server = Server::new([says("Where were we?")]);
    let mut host = Host::new(&world, &server, &["--continue"]);
    host.prompt("Go on.");
    assert_eq!(host.result()["result"], "Where were we?");
    assert_eq!(host.end().code, Some(0));
    let body = server.requests()[0].body.to_string();
    assert!(body.contains("Wait.") && body.contains("Go on."), "{body}");
}
