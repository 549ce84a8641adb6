//! Commands that still run in the background when the host has no more prompts.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

const ALLOWED: [&str; 2] = ["--allowedTools", "Bash"];

/// A command that runs until the file `go` is there, then writes `made`.
fn waiting() -> Value {
    let line = "until [ -e go ]; do sleep 0.02; done; echo yes >made";
    json!({"command": line, "description": "d", "run_in_background": true})
}

/// What is told of tasks and results, in order.
fn told(lines: &[Value]) -> Vec<String> {
    let word = |line: &Value| match line["subtype"].as_str() {
        Some("task_notification") => Some(format!("ended {}", line["status"])),
        Some("task_started") => Some("started".to_owned()),
        _ if line["type"] == "result" => Some(format!("result {}", line["result"])),
        _ => None,
    };
    lines.iter().filter_map(word).collect()
}

/// The command is waited for; the model is told, and what it says then is the last result.
#[test]
fn a_command_is_waited_for_at_the_end_of_the_input() {
    let world = World::new();
    let server = Server::new([
        uses("Bash", waiting()),
        says("Started."),
        says("It has ended."),
    ]);
    let mut host = Host::new(&world, &server, &ALLOWED);
    host.prompt("go");
    host.result();
    host.close();
    world.write("go", "");
    let over = host.end();
    assert_eq!(over.code, Some(0));
    assert_eq!(
        told(&over.lines),
        [
            "started",
            "result \"Started.\"",
            "ended \"completed\"",
            "result \"It has ended.\""
        ]
    );
    let last = over.lines.iter().rfind(|line| line["type"] == "result");
    assert_eq!(last.unwrap()["origin"]["kind"], "task-notification");
    assert_eq!(world.text("made"), "yes\n");
    let request = server.requests().pop().unwrap().body.to_string();
    assert!(request.contains("has ended: completed"), "{request}");
}

/// A command that takes too long is ended, and the host is told.
#[test]
fn a_command_that_takes_too_long_is_ended() {
    let world = World::new();
    let server = Server::new([uses("Bash", waiting()), says("Started.")]);
    let options = [
        "-p",
        "go",
        "-m",
        "sonnet",
        "--output-format",
        "stream-json",
        "--verbose",
    ];
    let run = world.asking(&server, options.into_iter().chain(ALLOWED));
    let ended = run.env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "1").run();
    let lines = ended.expect(0).stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        told(&lines),
        ["started", "result \"Started.\"", "ended \"stopped\""]
    );
    world.assert_nothing_runs();
}

/// A prompt on the command line waits as well, and prints both answers.
#[test]
fn a_prompt_on_the_command_line_waits_for_its_commands() {
    let world = World::new();
    let line = json!({"command": "sleep 0.3; echo yes >made", "run_in_background": true});
    let server = Server::new([uses("Bash", line), says("Started."), says("Ended.")]);
    let options = ["-p", "go", "-m", "sonnet"];
    let run = world.asking(&server, options.into_iter().chain(ALLOWED));
    assert_eq!(run.run().expect(0).stdout, "Started.\nEnded.\n");
    assert_eq!(world.text("made"), "yes\n");
}
