//! The Agent SDK protocol without an SDK: valid and invalid lines from a host.

use std::fs;

use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ah, Ended, Running, World};

const WIRE: [&str; 7] = [
    "-m",
    "sonnet",
    "--output-format=stream-json",
    "--verbose",
    "--input-format=stream-json",
    "--setting-sources=",
    "--permission-prompt-tool=stdio",
];

fn host<'a>(world: &World, server: &Server, more: impl IntoIterator<Item = &'a str>) -> Ah {
    world.asking(server, WIRE.into_iter().chain(more))
}

fn prompt(text: &str) -> String {
    json!({"type": "user", "message": {"role": "user", "content": text}}).to_string()
}

fn request(id: &str, request: &Value) -> String {
    json!({"type": "control_request", "request_id": id, "request": request}).to_string()
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn messages(ended: &Ended) -> Vec<Value> {
    let messages = ended.stdout.lines().map(serde_json::from_str);
    messages.collect::<Result<_, _>>().unwrap()
}

/// The kind of each message, with a word about its content.
fn kinds(messages: &[Value]) -> String {
    let kind = |message: &Value| {
        let word = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let words = [
            word("/type"),
            word("/subtype"),
            word("/request/subtype"),
            word("/event/type"),
            word("/message/content/0/type"),
            word("/status"),
            word("/state"),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    messages.iter().map(kind).collect::<Vec<_>>().join("\n")
}

/// The responses to our control requests, by id.
fn replies(messages: &[Value]) -> String {
    let replies = messages.iter().filter_map(|message| {
        let response = message.get("response")?;
        let id = response["request_id"].as_str()?;
        let said = match response["error"].as_str() {
            Some(error) => format!("error: {error}"),
            None => response["response"].to_string(),
        };
        Some(format!("{id}: {said}"))
    });
    replies.collect::<Vec<_>>().join("\n")
}

fn answered(running: &mut Running, id: &str, response: &Value) {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    running.say(&json!({"type": "control_response", "response": response}).to_string());
}

/// Other hosts than the SDKs ask for the state by another variable.
#[test]
fn the_state_is_told_to_whoever_asks_for_it() {
    for (variable, value, is_told) in [
        ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1", true),
        ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "true", true),
        ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "0", false),
        ("ANOTHER", "1", false),
    ] {
        let world = World::new();
        let server = Server::new([says("Done.")]);
        let ended = host(&world, &server, []).env(variable, value);
        let ended = ended.stdin(lines(&[prompt("one")])).run().expect(0);
        let told = ended.stdout.contains("session_state_changed");
        assert_eq!(told, is_told, "{variable} {value}");
    }
}

/// Init, then the messages, then one result per prompt; each message has ids of its own.
#[test]
fn r2_a_prompt_is_told_in_the_messages_of_the_sdk() {
    let world = World::new();
    let server = Server::new([
        uses("Bash", json!({"command": "echo hi"})),
        says("Done."),
        says("And again."),
    ]);
    let more = ["--allowedTools", "Bash", "--include-partial-messages"];
    let ended = host(&world, &server, more)
        .env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1")
        .stdin(lines(&[prompt("one"), prompt("two")]))
        .run()
        .expect(0);
    let messages = messages(&ended);
    insta::assert_snapshot!(kinds(&messages), @r#"
system session_state_changed running
system init
system status requesting
stream_event message_start
stream_event content_block_start
stream_event content_block_delta
assistant tool_use
stream_event content_block_stop
stream_event message_delta
stream_event message_stop
tool_progress
tool_progress
user tool_result
system status requesting
stream_event message_start
stream_event content_block_start
stream_event content_block_delta
assistant text
stream_event content_block_stop
stream_event message_delta
stream_event message_stop
result success
system init
system status requesting
stream_event message_start
stream_event content_block_start
stream_event content_block_delta
assistant text
stream_event content_block_stop
stream_event message_delta
stream_event message_stop
result success
system session_state_changed idle
"#);
    let ids: Vec<_> = { messages.iter() }
        .map(|message| message["uuid"].as_str().unwrap())
        .collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len());
    let sessions = messages.iter().map(|message| &message["session_id"]);
    assert!(sessions.clone().all(|id| *id == messages[0]["session_id"]));
}

/// Each subtype of the specification gets a response, also while the model is asked; an unknown one gets an error.
#[test]
fn r3_control_requests_are_answered_while_a_run_goes_on() {
    let world = World::new();
    let server = Server::new([hangs("So far"), says("Done.")]);
    let mut running = host(&world, &server, []).with_silent_stdin().start();
    running.say(&request("1", &json!({"subtype": "initialize"})));
    running.wait_for_output("\"request_id\":\"1\"");
    running.say(&prompt("go"));
    server.wait_until(|seen| seen.len() == 1);
    let asked = [
        json!({"subtype": "initialize"}),
        json!({"subtype": "set_permission_mode", "mode": "plan"}),
        json!({"subtype": "set_permission_mode", "mode": "yolo"}),
        json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}),
        json!({"subtype": "set_model", "model": "haiku"}),
        json!({"subtype": "set_model", "model": "openai/x"}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2_000}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": null}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": "much"}),
        json!({"subtype": "mcp_status"}),
        json!({"subtype": "mcp_reconnect", "serverName": "none"}),
        json!({"subtype": "mcp_toggle", "serverName": "none", "enabled": true}),
        json!({"subtype": "mcp_set_servers", "servers": {}}),
        json!({"subtype": "mcp_message", "server_name": "none", "message": {}}),
        json!({"subtype": "mcp_reconnect"}),
        json!({"subtype": "rewind_files", "user_message_id": "none"}),
        json!({"subtype": "can_use_tool"}),
        json!({"subtype": "hook_callback"}),
        json!({"subtype": "never_heard_of"}),
        json!({}),
        json!({"subtype": "interrupt"}),
    ];
    for (at, asked) in asked.iter().enumerate() {
        running.say(&request(&format!("{}", at + 2), asked));
    }
    running.wait_for_output("error_during_execution");
    running.say(&prompt("again"));
    running.say_no_more();
    let ended = running.wait().expect(0);
    let messages = messages(&ended);
    // In any order.
    let told = replies(&messages[1..]);
    let mut told: Vec<_> = told.lines().collect();
    let number = |line: &&str| line.split(':').next().unwrap().parse::<usize>().unwrap();
    told.sort_by_key(number);
    // The host may have lost the first response.
    assert!(told.remove(0).contains("\"commands\""));
    insta::assert_snapshot!(told.join("\n"), @r#"
3: {"mode":"plan"}
4: error: unknown permission mode `yolo`; known are default, sandboxed, acceptEdits, plan, dontAsk, delegate, bypassPermissions
5: error: Cannot set permission mode to bypassPermissions: the session was not started with --dangerously-skip-permissions or --allow-dangerously-skip-permissions
6: {"model":"claude-haiku-5-5"}
7: error: no API key for OpenAI
8: {}
9: {}
10: error: `max_thinking_tokens` is not a number of tokens
11: {"mcpServers":[]}
12: error: there is no MCP server `none`; none are configured
13: error: there is no MCP server `none`; none are configured
14: {"added":[],"removed":[],"errors":{}}
15: error: there is no server `none` in the host
16: error: `mcp_reconnect` needs `serverName`
17: error: No file checkpoint found for message none
18: error: Unsupported control request subtype: can_use_tool
19: error: Unsupported control request subtype: hook_callback
20: error: Unsupported control request subtype: never_heard_of
21: error: Unsupported control request subtype: 
22: {"still_queued":[]}
"#);
    assert_eq!(server.requests()[1].body["model"], "claude-haiku-5-5");
}

/// The flat form of the older specification is accepted, and answered in that form.
#[test]
fn control_requests_come_flat_too() {
    let world = World::new();
    let server = Server::new([says("unasked")]);
    let flat = |command: &str, params: Value| {
        json!({"type": "control_request", "command": command, "params": params}).to_string()
    };
    let ended = host(&world, &server, [])
        .stdin(lines(&[
            flat("setPermissionMode", json!({"mode": "acceptEdits"})),
            flat("setModel", json!({"model": "haiku"})),
            flat("mcpServerStatus", json!({})),
            flat("interrupt", json!({})),
            flat("fly", json!({})),
        ]))
        .run()
        .expect(0);
    let mut told: Vec<_> = { messages(&ended).into_iter() }
        .filter(|message| message["type"] == "control_response")
        .map(|message| message.to_string())
        .collect();
    // In any order.
    told.sort_unstable();
    insta::assert_snapshot!(told.join("\n"), @r#"
{"type":"control_response","command":"fly","success":false,"error":"Unsupported control request subtype: fly"}
{"type":"control_response","command":"interrupt","success":true,"result":{"still_queued":[]}}
{"type":"control_response","command":"mcpServerStatus","success":true,"result":{"mcpServers":[]}}
{"type":"control_response","command":"setModel","success":true,"result":{"model":"claude-haiku-5-5"}}
{"type":"control_response","command":"setPermissionMode","success":true,"result":{"mode":"acceptEdits"}}
"#);
}

/// An interrupt cancels a pending permission request, and the session continues.
#[test]
fn a_question_is_withdrawn_by_an_interrupt() {
    let world = World::new();
    let server = Server::new([
        uses("Bash", json!({"command": "touch made"})),
        says("Fine."),
    ]);
    let mut running = host(&world, &server, []).with_silent_stdin().start();
    running.say(&prompt("go"));
    running.wait_for_output("can_use_tool");
    running.say(&request("stop", &json!({"subtype": "interrupt"})));
    running.wait_for_output("error_during_execution");
    running.say(&prompt("next"));
    running.say_no_more();
    let ended = running.wait().expect(0);
    insta::assert_snapshot!(kinds(&messages(&ended)), @r#"
system init
assistant tool_use
control_request can_use_tool
control_response
control_cancel_request
user tool_result
user text
result error_during_execution
system init
assistant text
result success
"#);
    assert!(!world.file("made").exists());
}

/// Questions of the model go to the host in every mode; the answers are in the input that it returns, and an approved
/// plan ends plan mode.
#[test]
fn the_host_answers_questions_and_approves_plans() {
    let question = json!({"questions": [{
        "question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [
            {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"},
        ],
    }]});
    let world = World::new();
    let write = json!({"file_path": world.file("painted"), "content": "blue"});
    let server = Server::new([
        uses("AskUserQuestion", question.clone()),
        uses("ExitPlanMode", json!({"plan": "Paint it."})),
        uses("Write", write.clone()),
        says("Done."),
    ]);
    let mode = ["--permission-mode", "plan"];
    let mut running = host(&world, &server, mode).with_silent_stdin().start();
    running.say(&prompt("go"));
    let mut questioned = question;
    questioned["answers"] = json!({"Which colour?": "blue"});
    for (tool, response) in [
        (
            "AskUserQuestion",
            json!({"behavior": "allow", "updatedInput": questioned}),
        ),
        (
            "ExitPlanMode",
            json!({"behavior": "allow", "updatedInput": {"plan": "Paint it blue."}}),
        ),
        ("Write", json!({"behavior": "allow", "updatedInput": write})),
    ] {
        let name = format!("\"subtype\":\"can_use_tool\",\"tool_name\":\"{tool}\"");
        running.wait_for_output(&name);
        let asked = running.output_so_far();
        let asked = asked.lines().find(|line| line.contains(&name)).unwrap();
        let asked: Value = serde_json::from_str(asked).unwrap();
        let id = asked["request_id"].as_str().unwrap();
        answered(&mut running, id, &response);
    }
    running.say_no_more();
    running.wait().expect(0);
    assert!(world.file("painted").exists());
    let told = |at: usize| server.requests()[at].body["messages"].to_string();
    assert!(told(1).contains("- Which colour? blue"), "{}", told(1));
    assert!(told(2).contains("Paint it blue."), "{}", told(2));
}

/// The host decides: the call runs with the input that it returns.
#[test]
fn the_host_allows_a_call_with_another_input() {
    let world = World::new();
    let server = Server::new([
        uses("Bash", json!({"command": "touch made"})),
        says("Fine."),
    ]);
    let mut running = host(&world, &server, []).with_silent_stdin().start();
    running.say(&prompt("go"));
    running.wait_for_output("can_use_tool");
    let asked = running.output_so_far();
    let asked: Value = { asked.lines() }
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["request"]["subtype"] == "can_use_tool")
        .unwrap();
    let id = asked["request_id"].as_str().unwrap();
    let response = json!({"behavior": "allow", "updatedInput": {"command": "touch other"}});
    answered(&mut running, id, &response);
    running.say_no_more();
    running.wait().expect(0);
    assert!(world.file("other").exists() && !world.file("made").exists());
}

/// Invalid lines are reported and the others are processed, including one of 10 MB.
#[test]
fn lines_that_cannot_be_read_are_named_and_survived() {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let mut input = b"not json\n\xff\xfe\n[1]\n{\"type\":7}\n{\"type\":\"user\"}\n".to_vec();
    input.extend(
        format!(
            "{{\"type\":\"keep_alive\",\"x\":\"{}\"}}\n",
            "x".repeat(10 << 20)
        )
        .bytes(),
    );
    input.extend(lines(&[prompt("go")]).bytes());
    let ended = host(&world, &server, []).stdin(input).run().expect(1);
    let messages = messages(&ended);
    let faults: Vec<_> = { messages.iter() }
        .filter_map(|message| message["content"].as_str())
        .collect();
    insta::assert_snapshot!(faults.join("\n"), @r#"
line 1 of the input is ignored: it is not JSON: expected ident at line 1 column 2
line 2 of the input is ignored: it is not JSON: EOF while parsing a value at line 1 column 0
line 3 of the input is ignored: it is not a JSON object
line 4 of the input is ignored: it has no `type`
line 5 of the input is ignored: the user message has no `message.content`
"#);
    let results = messages
        .iter()
        .filter(|message| message["type"] == "result");
    let results: Vec<_> = results.map(|result| &result["result"]).collect();
    assert_eq!(results, ["Done."]);
}

/// A closed output ends the run, and the messages so far are stored.
#[test]
fn a_host_that_does_not_listen_any_more_ends_the_run() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "echo hi"})), says("Done.")]);
    let ended = host(&world, &server, ["--allowedTools", "Bash"])
        .stdin(lines(&[prompt("go")]))
        .without_reader()
        .run()
        .expect(141);
    assert_eq!(ended.stdout, "");
    let stored = world.ah(["scan"]).run().expect(0);
    assert!(stored.stdout.contains("go"), "{}", stored.stdout);
}

/// Ten thousand messages reach a reader that stalls for five seconds, without piling up in memory.
#[test]
fn ten_thousand_messages_reach_a_reader_that_stalls() {
    const PIECES: usize = 10_000;
    let answer = || Turn {
        pieces: Some(PIECES),
        ..says(
            &"All work and no play makes an engine a dull boy, and a reader one too. "
                .repeat(PIECES),
        )
    };
    let peak = |reader: &str| {
        let world = World::new();
        let server = Server::new([answer()]);
        let pipe = format!("\"$0\" \"$@\" | {{ {reader} cat; }}");
        let running = host(&world, &server, ["--include-partial-messages"])
            .stdin(lines(&[prompt("go")]))
            .through("sh", ["-c", &pipe])
            .start();
        let mut running = Some(running);
        let mut peak = 0;
        let ended = loop {
            peak = world
                .processes()
                .iter()
                .map(|(pid, _)| most_memory(*pid))
                .fold(peak, u64::max);
            let time = std::time::Duration::from_millis(20);
            match running.take().unwrap().wait_for_end(time) {
                Ok(ended) => break ended,
                Err(still) => running = Some(still),
            }
        };
        let messages = messages(&ended.expect(0));
        let pieces = messages
            .iter()
            .filter(|message| message["event"]["type"] == "content_block_delta");
        assert_eq!(pieces.count(), PIECES);
        assert_eq!(messages.last().unwrap()["type"], "result");
        peak
    };
    let (quick, stalled) = (peak(""), peak("sleep 5;"));
    // The messages are about 5 MB in total.
    assert!(
        stalled < quick + (3 << 20),
        "{quick} bytes, and {stalled} with a reader that stalls"
    );
}

/// The peak memory of a process in bytes; 0 if it is not our program, or has ended.
fn most_memory(pid: rustix::process::Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    match (field("Name:").as_deref(), field("VmHWM:")) {
        (Some("ah"), Some(size)) => size.parse::<u64>().unwrap() << 10,
        _ => 0,
    }
}
