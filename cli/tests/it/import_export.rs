//! Sessions from other programs and for them: `ah import`, and the formats of `ah export` that others read.

use std::fs;
use std::path::Path;
use std::process::Command;

use ah_testkit::script::{says, uses};
use serde_json::{Value, json};

use crate::extensions::put;
use crate::support::binary::World;

/// A session of Codex about the project.
fn codex(world: &World) {
    let lines = [
        json!({"timestamp": "2026-11-20T10:00:00.000Z", "type": "session_meta", "payload": {"id": "0199f000-0000-7000-8000-000000000000", "cwd": world.project()}}),
        json!({"timestamp": "2026-11-20T10:00:01.000Z", "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List it"}]}}),
        json!({"timestamp": "2026-11-20T10:00:02.000Z", "type": "response_item", "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}}),
        json!({"timestamp": "2026-11-20T10:00:03.000Z", "type": "response_item", "payload": {"type": "function_call_output", "call_id": "c0", "output": "lost"}}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let name = "~/.codex/sessions/2026/11/20/rollout-2026-11-20T10-00-00-0199f000.jsonl";
    put(world, name, &format!("{lines}{{\"cut"));
}

#[test]
fn sessions_of_this_folder_are_found_taken_once_and_continued() {
    let world = World::new();
    codex(&world);
    put(
        &world,
        "~/.codex/sessions/2026/11/20/rollout-other.jsonl",
        "{\"payload\":{\"cwd\":\"/elsewhere\"}}\n",
    );
    let found = world.as_typed(["import"]).run().expect(0);
    assert!(
        found.stdout.starts_with("Codex: 1\n  ") && found.stderr.contains("`ah import --all`"),
        "{}",
        found.stdout
    );
    let done = world.as_typed(["import", "--all"]).run().expect(0);
    assert!(
        done.stdout.ends_with(
            "  Codex, 3 messages\n  left out: line 5: not JSON, or cut off\n  left out: line 4: the result of a call that is not there\n"
        ),
        "{}",
        done.stdout
    );
    let again = world.as_typed(["import", "--all"]).run().expect(0);
    assert!(
        again.stdout.ends_with(" was already imported\n"),
        "{}",
        again.stdout
    );
    assert_eq!(world.databases().len(), 1);
    let listed = world.as_typed(["sessions"]).run().expect(0).stdout;
    assert!(
        listed.contains("2026-11-20T10:00") && listed.contains("List it"),
        "{listed}"
    );
    let scenario = world.scenario("next", [says("Two files.")]);
    let uuid = "0199f000-0000-7000-8000-000000000000";
    world
        .ah(["-r", uuid, "-m", &scenario, "and now?"])
        .run()
        .expect(0);
    let shown = world.as_typed(["scan"]).run().expect(0).stdout;
    assert!(
        shown.contains("List it") && shown.contains("and now?") && shown.contains("Two files."),
        "{shown}"
    );
    let refused = world.as_typed(["import", "nothing.jsonl"]).run().expect(1);
    assert!(
        refused.stderr.contains("there is no session in"),
        "{}",
        refused.stderr
    );
    put(&world, "text.jsonl", "just text\n");
    let refused = world.as_typed(["import", "text.jsonl"]).run().expect(1);
    assert!(
        refused
            .stderr
            .contains("it is not a session of Claude Code"),
        "{}",
        refused.stderr
    );
}

/// A session with an answer, a call and its result.
fn session(world: &World) {
    put(world, "a.txt", "content");
    let call = uses("read", json!({"path": "a.txt"}));
    let scenario = world.scenario("first", [call, says("It says content.")]);
    world
        .ah(["-m", &scenario, "what does a.txt say?"])
        .run()
        .expect(0);
}

fn said(world: &World) -> Vec<Value> {
    let lines = world
        .as_typed(["export", "--format", "jsonl"])
        .run()
        .expect(0)
        .stdout;
    let messages = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = messages.map(|message| {
        let mut content = message["content"].clone();
        for block in content.as_array_mut().unwrap() {
            // Only `ah` knows these.
            for key in ["duration_ms", "details"] {
                block.as_object_mut().unwrap().remove(key);
            }
        }
        // Results are found by the call that they answer.
        let id = if message["origin"] == "results" {
            &Value::Null
        } else {
            &message["id"]
        };
        json!([
            id,
            message["seq"],
            message["role"],
            message["origin"],
            content
        ])
    });
    messages.collect()
}

#[test]
fn an_exported_transcript_is_the_same_session_elsewhere() {
    let world = World::new();
    session(&world);
    let transcript = world
        .as_typed(["export", "--format", "claude"])
        .run()
        .expect(0)
        .stdout;
    let other = World::new();
    fs::write(other.file("copy.jsonl"), &transcript).unwrap();
    let done = other
        .as_typed(["import", "copy.jsonl", "--json"])
        .run()
        .expect(0)
        .stdout;
    let done: Value = serde_json::from_str(&done).unwrap();
    assert_eq!(
        (&done[0]["program"], &done[0]["left_out"]),
        (&json!("Claude Code"), &json!([]))
    );
    assert_eq!(said(&other), said(&world));
    let again = other
        .as_typed(["export", "--format", "claude"])
        .run()
        .expect(0)
        .stdout;
    let uuids = |text: &str| {
        let rows = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.map(|row| json!([row["uuid"], row["parentUuid"], row["sessionId"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(uuids(&again), uuids(&transcript));
    // Where it came from, it is known.
    fs::write(world.file("copy.jsonl"), &transcript).unwrap();
    let known = world
        .as_typed(["import", "copy.jsonl"])
        .run()
        .expect(0)
        .stdout;
    assert!(known.ends_with(" was already imported\n"), "{known}");
}

/// The published model of the format decides, where it is installed.
#[test]
fn a_trajectory_keeps_the_rules_of_its_format() {
    let world = World::new();
    session(&world);
    let text = world
        .as_typed(["export", "--format", "atif"])
        .run()
        .expect(0)
        .stdout;
    let trajectory: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(trajectory["schema_version"], "ATIF-v1.8");
    let steps = trajectory["steps"].as_array().unwrap();
    let short: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step["step_id"].as_u64().unwrap(),
                step["source"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(short, [(1, "user"), (2, "agent"), (3, "agent")]);
    assert_eq!(steps[0]["message"], "what does a.txt say?");
    let (call, result) = (
        &steps[1]["tool_calls"][0],
        &steps[1]["observation"]["results"][0],
    );
    assert_eq!(
        (&call["function_name"], &call["arguments"]),
        (&json!("read"), &json!({"path": "a.txt"}))
    );
    assert_eq!(call["tool_call_id"], result["source_call_id"]);
    assert!(result["content"].as_str().unwrap().contains("content"));
    assert_eq!(steps[2]["message"], "It says content.");
    assert_eq!(trajectory["final_metrics"]["total_steps"], 3);
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let known = [
        "step_id",
        "timestamp",
        "source",
        "message",
        "model_name",
        "reasoning_content",
        "tool_calls",
        "observation",
        "metrics",
    ];
    assert!(
        steps
            .iter()
            .flat_map(keys)
            .all(|key| known.contains(&&*key))
    );
    let python = std::env::var("AH_TEST_ATIF_PYTHON").unwrap_or_default();
    if Path::new(&python).is_file() {
        let file = world.write("trajectory.json", &text);
        let check = "import sys; from atif import Trajectory; Trajectory.model_validate_json(open(sys.argv[1]).read())";
        let done = Command::new(python)
            .args(["-c", check])
            .arg(file)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}
