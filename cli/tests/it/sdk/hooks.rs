//! Hooks of a host around a whole answer: after its calls, and in the place of its end.

use ah_testkit::script::{fails, says, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

fn hooks(event: &str) -> Value {
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

/// The shell commands in a command's text run only if the host's callback lets them; one that does not answer has not.
#[test]
fn a_hook_may_refuse_the_lines_of_a_command() {
    let event = "PreSkillShellCommand";
    let deny = json!({"hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": "not here"});
    for (answer, expected, runs) in [
        (Some(json!({})), "It says fine.", true),
        (
            Some(json!({ "hookSpecificOutput": deny })),
            "It says [`touch made; echo $0` was not run: not here].",
            false,
        ),
        (
            None,
            "It says [`touch made; echo $0` was not run: the hook callback `hook` failed: it timed out after 0.1 s].",
            false,
        ),
    ] {
        let world = World::new();
        world.write(
            ".claude/commands/look.md",
            "---\nallowed-tools: Bash\n---\nIt says !`touch made; echo $0`.",
        );
        let server = Server::new([says("done")]);
        let mut host = Host::new(&world, &server, &[]);
        let timeout = if answer.is_some() { 60.0 } else { 0.1 };
        let hook = json!({"matcher": "Bash", "hookCallbackIds": ["hook"], "timeout": timeout});
        host.ask("initialize", &json!({"hooks": {event: [hook]}}));
        host.prompt("/look fine");
        let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
        let input = &asked["request"]["input"];
        assert_eq!(input["hook_event_name"], event);
        assert_eq!(input["tool_name"], "Bash");
        assert_eq!(
            input["tool_input"],
            json!({"command": "touch made; echo fine"})
        );
        assert_eq!(input["command_name"], "look");
        assert_eq!(input["invoked_by"], "user");
        assert!(
            input["session_id"]
                .as_str()
                .is_some_and(|id| !id.is_empty())
        );
        if let Some(answer) = answer {
            host.answer(&asked, &answer);
        }
        assert_eq!(host.result()["result"], "done");
        let sent = server.requests()[0].body["messages"].to_string();
        assert_eq!(world.file("made").exists(), runs, "{sent}");
        assert!(sent.replace("\\n", "").contains(expected), "{sent}");
    }
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

/// Who does not answer has allowed nothing.
#[test]
fn a_prompt_waits_for_its_hook_and_is_blocked_without_an_answer() {
    let world = World::new();
    let server = Server::new([says("done")]);
    let mut host = Host::new(&world, &server, &[]);
    let hook = json!({"matcher": null, "hookCallbackIds": ["hook"], "timeout": 0.1});
    host.ask(
        "initialize",
        &json!({"hooks": {"UserPromptSubmit": [hook]}}),
    );
    host.prompt("go");
    let result = host.result();
    let text = result["result"].as_str().unwrap();
    assert!(
        text.starts_with("UserPromptSubmit operation blocked by hook:")
            && text.contains("timed out"),
        "{result}"
    );
    assert!(server.requests().is_empty());
}

/// A deferred call is asked about again when another process resumes the session, before and without a prompt.
#[test]
fn a_deferred_call_is_taken_up_by_another_process() {
    for (decision, prompt, is_made) in [
        ("allow", None, true),
        ("deny", None, false),
        ("allow", Some("and now?"), true),
    ] {
        let world = World::new();
        let touch = uses("Bash", json!({"command": "touch made"}));
        let server = Server::new([touch, says("Taken up."), says("Next.")]);
        let answer = |decision: &str| json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}});
        let is_call = |line: &Value| line["request"]["subtype"] == "hook_callback";
        let mut host = Host::new(&world, &server, &["--allowedTools", "Bash"]);
        host.ask("initialize", &hooks("PreToolUse"));
        host.prompt("go");
        let first = host.until(is_call);
        host.answer(&first, &answer("defer"));
        let deferred = host.result();
        let id = deferred["session_id"].as_str().unwrap();
        let arguments = [
            "--allowedTools",
            "Bash",
            "--await-initialize",
            "--resume",
            id,
        ];
        // The first one is killed: there is nothing that it had to do at its end.
        drop(host);

        let mut host = Host::new(&world, &server, &arguments);
        host.ask("initialize", &hooks("PreToolUse"));
        if let Some(prompt) = prompt {
            host.prompt(prompt);
        }
        let second = host.until(is_call);
        let ids = [&first, &second].map(|line| &line["request"]["tool_use_id"]);
        assert_eq!(ids[0], ids[1]);
        host.answer(&second, &answer(decision));
        let result = host.result();
        assert_eq!(
            (&result["result"], &result["num_turns"]),
            (&json!("Taken up."), &json!(1))
        );
        assert_eq!(world.file("made").exists(), is_made, "{decision}");
        if prompt.is_some() {
            assert_eq!(host.result()["result"], "Next.");
        }
        let shares = &result["modelUsage"];
        assert_eq!(shares.as_object().map(serde_json::Map::len), Some(1));
    }
}

/// A deferred call does not run, and the host is told which it is.
#[test]
fn a_deferred_call_ends_the_run() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "touch made"})), says("done")]);
    let mut host = Host::new(&world, &server, &["--allowedTools", "Bash"]);
    host.ask("initialize", &hooks("PreToolUse"));
    host.prompt("go");
    let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
    host.answer(
        &asked,
        &json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}),
    );
    let result = host.result();
    assert!(!world.file("made").exists());
    assert_eq!(server.requests().len(), 1);
    assert_eq!(
        (
            &result["stop_reason"],
            &result["terminal_reason"],
            &result["subtype"]
        ),
        (
            &json!("tool_deferred"),
            &json!("tool_deferred"),
            &json!("success")
        )
    );
    assert_eq!(
        (
            &result["deferred_tool_use"]["name"],
            &result["deferred_tool_use"]["input"]
        ),
        (&json!("Bash"), &json!({"command": "touch made"}))
    );
}

/// A subagent cannot leave a call to a later run: it is told that the call did not run, and goes on.
#[test]
fn a_subagent_cannot_defer_a_call() {
    let world = World::new();
    let task = json!({"description": "d", "prompt": "make it"});
    let server = Server::new([
        uses("Agent", task),
        uses("Bash", json!({"command": "touch made"})),
        says("not made"),
        says("done"),
    ]);
    let mut host = Host::new(&world, &server, &["--allowedTools", "Bash,Agent"]);
    host.ask("initialize", &hooks("PreToolUse"));
    host.prompt("go");
    let is_call = |line: &Value| line["request"]["subtype"] == "hook_callback";
    let asked = host.until(is_call);
    host.answer(&asked, &json!({}));
    let asked = host.until(is_call);
    host.answer(
        &asked,
        &json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}),
    );
    let result = host.result();
    assert!(!world.file("made").exists());
    assert_eq!(result["result"], json!("done"));
    assert_eq!(result.get("deferred_tool_use"), None);
    let told = server.requests()[2].body.to_string();
    assert!(
        told.contains("which is not possible in a subagent"),
        "{told}"
    );
}

/// The model reads the words of a replaced result in the tool's own form, and the host gets the object.
#[test]
fn a_replaced_result_keeps_the_form_of_its_tool() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "echo one"})), says("done")]);
    let mut host = Host::new(&world, &server, &["--allowedTools", "Bash"]);
    host.ask("initialize", &hooks("PostToolUse"));
    host.prompt("go");
    let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
    let other = json!({"stdout": "other", "stderr": "", "interrupted": false, "isImage": false});
    let output = json!({"hookEventName": "PostToolUse", "updatedToolOutput": other});
    host.answer(&asked, &json!({"hookSpecificOutput": output}));
    let told = host.until(|line| line["type"] == "user");
    assert_eq!(told["tool_use_result"]["stdout"], "other", "{told}");
    assert_eq!(told["message"]["content"][0]["content"], "other", "{told}");
}

#[test]
fn a_stop_hook_may_end_the_run() {
    let world = World::new();
    let server = Server::new([says("done")]);
    let mut host = Host::new(&world, &server, &[]);
    host.ask("initialize", &hooks("Stop"));
    host.prompt("go");
    let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
    host.answer(&asked, &json!({"continue": false, "stopReason": "enough"}));
    assert_eq!(host.result()["terminal_reason"], "stop_hook_prevented");
}

/// A host that has closed its side has allowed nothing, whenever it did so; the run ends with the reason.
#[test]
fn a_host_that_is_gone_allows_nothing() {
    let asks = |line: &Value| {
        let kind = &line["request"]["subtype"];
        kind == "hook_callback" || kind == "can_use_tool"
    };
    for (what, at_once) in [
        ("hook", true),
        ("hook", false),
        ("permission", true),
        ("permission", false),
    ] {
        let world = World::new();
        let call = uses("Bash", json!({"command": "touch made"}));
        let server = Server::new([call, says("Never said.")]);
        let arguments: &[&str] = match what {
            "hook" => &["--permission-mode", "bypassPermissions"],
            _ => &["--permission-prompt-tool", "stdio"],
        };
        let mut host = Host::new(&world, &server, arguments);
        if what == "hook" {
            host.ask("initialize", &hooks("PreToolUse"));
        }
        host.prompt("go");
        if !at_once {
            host.until(asks);
        }
        let over = host.end();
        let result = over.lines.iter().find(|line| line["type"] == "result");
        let reason = result.unwrap()["errors"][0].as_str().unwrap_or_default();
        assert!(!world.file("made").exists(), "{what} {at_once}");
        assert!(
            reason.contains("the host has closed its side"),
            "{what} {at_once}: {result:?}"
        );
        assert_eq!(server.requests().len(), 1, "{what} {at_once}");
        assert_eq!(over.code, Some(1), "{what} {at_once}");
    }
}
