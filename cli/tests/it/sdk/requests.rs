//! A host's control requests before, during and after a run.

use ah_conversation::PermissionMode;
use ah_testkit::script::{hangs, says};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

/// The SDKs' control requests with their fields, and whether each succeeds without an MCP server and a checkpoint.
fn requests() -> [(&'static str, Value, bool); 13] {
    let nothing = json!({});
    [
        ("initialize", json!({"hooks": null}), true),
        ("set_permission_mode", json!({"mode": "acceptEdits"}), true),
        ("set_model", json!({"model": "claude-haiku-4-5"}), true),
        (
            "set_max_thinking_tokens",
            json!({"max_thinking_tokens": 2048}),
            true,
        ),
        ("mcp_status", nothing.clone(), true),
        ("mcp_reconnect", json!({"serverName": "nobody"}), false),
        (
            "mcp_toggle",
            json!({"serverName": "nobody", "enabled": false}),
            false,
        ),
        ("mcp_set_servers", json!({"servers": {}}), true),
        (
            "mcp_message",
            json!({"server_name": "nobody", "message": {}}),
            false,
        ),
        ("rewind_files", json!({"user_message_id": "nothing"}), false),
        // A request that only we send, sent to us by mistake.
        (
            "can_use_tool",
            json!({"tool_name": "Bash", "input": {}}),
            false,
        ),
        (
            "hook_callback",
            json!({"callback_id": "hook_0", "input": {}}),
            false,
        ),
        ("interrupt", nothing, true),
    ]
}

/// All 13 control requests get a response with their id, before a prompt and during a run; an unknown one gets an
/// error.
#[test]
fn every_request_is_answered() {
    let world = World::new();
    let server = Server::new([hangs("Once upon a time"), says("As you wish.")]);
    let mut host = Host::new(&world, &server, &["--include-partial-messages"]);
    for in_a_run in [false, true] {
        if in_a_run {
            host.prompt("Tell me a story.");
            host.until(|line| line["event"]["delta"]["text"].is_string());
        }
        for (subtype, fields, is_granted) in requests() {
            let answer = host.ask(subtype, &fields);
            let expected = if is_granted { "success" } else { "error" };
            assert_eq!(answer["subtype"], expected, "{subtype}: {answer}");
            assert_eq!(
                answer["error"].is_string(),
                !is_granted,
                "{subtype}: {answer}"
            );
        }
        let answer = host.ask("make_coffee", &json!({}));
        assert_eq!(
            answer["error"],
            "Unsupported control request subtype: make_coffee"
        );
        assert_eq!(answer["error_code"], "unsupported_request");
    }
    // The last request was an interrupt.
    assert_eq!(host.result()["subtype"], "error_during_execution");
    host.prompt("A short one, then.");
    assert_eq!(host.result()["result"], "As you wish.");
    let over = host.end();
    assert_eq!(over.code, Some(0), "{over:#?}");
    let init = over
        .lines
        .iter()
        .rev()
        .find(|line| line["subtype"] == "init");
    assert_eq!(init.unwrap()["permissionMode"], "acceptEdits");
    let body = &server.requests()[1].body;
    assert!(
        body["model"].as_str().unwrap().contains("haiku"),
        "{}",
        body["model"]
    );
    assert_eq!(body["thinking"]["budget_tokens"], 2048);
}

/// The 13 requests in the flat form of the older specification get responses in that form.
#[test]
fn the_flat_form_is_answered_as_it_asks() {
    let world = World::new();
    let server = Server::new([says("never")]);
    let mut host = Host::new(&world, &server, &[]);
    for (command, params, succeeds) in [
        ("initializationResult", json!({}), true),
        ("supportedCommands", json!({}), true),
        ("supportedModels", json!({}), true),
        ("accountInfo", json!({}), true),
        ("interrupt", json!({}), true),
        ("setPermissionMode", json!({"mode": "plan"}), true),
        ("setModel", json!({"model": "haiku"}), true),
        (
            "setMaxThinkingTokens",
            json!({"maxThinkingTokens": null}),
            true,
        ),
        ("mcpServerStatus", json!({}), true),
        ("reconnectMcpServer", json!({"serverName": "nobody"}), false),
        (
            "toggleMcpServer",
            json!({"serverName": "nobody", "enabled": true}),
            false,
        ),
        ("setMcpServers", json!({"servers": {}}), true),
        ("rewindFiles", json!({"userMessageId": "nothing"}), false),
    ] {
        host.say(&json!({"type": "control_request", "command": command, "params": params}));
        let answer = host.until(|line| line["type"] == "control_response");
        assert_eq!(answer["command"], command);
        assert_eq!(answer["success"], succeeds, "{answer}");
        assert_eq!(answer.get("result").is_some(), succeeds, "{answer}");
    }
    assert_eq!(host.end().code, Some(0));
}

/// The six permission modes that the SDKs know are accepted, and words that are none are not.
#[test]
fn the_modes_are_six() {
    let world = World::new();
    let server = Server::new([says("never")]);
    let mut host = Host::new(&world, &server, &["--permission-mode", "bypassPermissions"]);
    let of_hosts = |mode: &PermissionMode| *mode != PermissionMode::Sandboxed;
    let modes: Vec<_> = { PermissionMode::ALL.into_iter() }
        .filter(of_hosts)
        .collect();
    assert_eq!(modes.len(), 6);
    for word in modes.into_iter().map(PermissionMode::as_str) {
        let answer = host.ask("set_permission_mode", &json!({"mode": word}));
        assert_eq!(answer["subtype"], "success", "{answer}");
        assert_eq!(answer["response"]["mode"], word, "the mode in effect");
    }
    let answer = host.ask("set_permission_mode", &json!({"mode": "yolo"}));
    assert_eq!(answer["error_code"], "invalid_mode");
    assert_eq!(host.end().code, Some(0));
}

/// The hook events are accepted; an unknown one is reported to the host, and nothing breaks.
#[test]
fn the_events_of_hooks_are_known() {
    const EVENTS: [&str; 19] = [
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "Notification",
        "UserPromptSubmit",
        "SessionStart",
        "SessionEnd",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "PostModelSwitch",
        "TaskCreated",
        "PermissionRequest",
        "Setup",
        "TeammateIdle",
        "TaskCompleted",
        "PreSkillShellCommand",
    ];
    for (more, is_told) in [(None, false), (Some("AtDawn"), true)] {
        let world = World::new();
        let server = Server::new([says("Hello.")]);
        let mut host = Host::new(&world, &server, &[]);
        let matchers = |_: &str| json!([{"matcher": null, "hookCallbackIds": ["none"]}]);
        // None of them is called, as the test has no answers for them.
        let events = EVENTS.iter().chain(&more).filter(|event| {
            !["SessionStart", "SessionEnd", "UserPromptSubmit", "Stop"].contains(event)
        });
        let hooks: serde_json::Map<_, _> = events
            .map(|event| ((*event).to_owned(), matchers(event)))
            .collect();
        host.ask("initialize", &json!({"hooks": hooks}));
        host.prompt("Hello.");
        assert_eq!(host.result()["result"], "Hello.");
        let lines = host.end().lines;
        let told = lines.iter().any(|line| line.to_string().contains("AtDawn"));
        assert_eq!(told, is_told, "{lines:#?}");
    }
}

/// A string replaces the system prompt, a preset keeps the built-in one, and an appended text is last. Invalid values
/// are errors.
#[test]
fn the_system_prompt_is_a_text_or_a_preset() {
    for (wishes, own, built_in) in [
        (
            json!({"systemPrompt": ["You are a pirate."]}),
            "You are a pirate.",
            false,
        ),
        (
            json!({"systemPrompt": "You are a pirate."}),
            "You are a pirate.",
            false,
        ),
        (
            json!({"appendSystemPrompt": "Be brief."}),
            "Be brief.",
            true,
        ),
    ] {
        let world = World::new();
        let server = Server::new([says("Aye.")]);
        let mut host = Host::new(&world, &server, &[]);
        assert_eq!(host.ask("initialize", &wishes)["subtype"], "success");
        host.prompt("Speak.");
        host.result();
        assert_eq!(host.end().code, Some(0));
        let system = server.requests()[0].body["system"].clone();
        let system = system.as_array().unwrap().iter();
        let system: Vec<_> = system
            .map(|block| block["text"].as_str().unwrap())
            .collect();
        let system = system.join("\n");
        assert!(system.contains(own), "{system}");
        assert_eq!(system.len() > 500, built_in, "{system}");
        assert!(!built_in || system.trim_end().ends_with(own), "{system}");
    }
    let world = World::new();
    let mut host = Host::new(&world, &Server::new([says("never")]), &[]);
    let answer = host.ask("initialize", &json!({"systemPrompt": 7}));
    assert_eq!(answer["subtype"], "error");
    assert!(
        answer["error"].as_str().unwrap().contains("initialize"),
        "{answer}"
    );
}

/// Every option of the SDKs tested here is accepted in both spellings.
#[test]
fn the_options_of_the_sdks_are_understood() {
    let world = World::new();
    world.write("prompt.md", "You are a pirate.");
    world.write("servers.json", r#"{"mcpServers": {}}"#);
    for arguments in [
        &["--system-prompt", ""][..],
        &["--system-prompt-file", "prompt.md"],
        &["--append-system-prompt", "Be brief."],
        &[
            "--tools",
            "Read,Bash",
            "--allowedTools",
            "Read,Bash(git:*)",
            "--disallowedTools",
            "Write",
        ],
        &["--tools=default", "--allowedTools=Read Edit"],
        &[
            "--max-turns",
            "3",
            "--max-budget-usd",
            "1.5",
            "--task-budget",
            "1000",
        ],
        &["--fallback-model=sonnet,haiku", "--betas", "a,b"],
        &[
            "--permission-prompt-tool",
            "stdio",
            "--permission-mode",
            "plan",
        ],
        &[
            "--permission-mode=dontAsk",
            "--allow-dangerously-skip-permissions",
        ],
        &["--continue"],
        &["--session-id=6a2f41a3-c54c-4ab1-bbc4-93ac7b1c8a3e"],
        &[
            "--settings",
            r#"{"permissions": {"deny": ["Read(secret)"]}}"#,
        ],
        &["--setting-sources="],
        &[
            "--setting-sources=user,project",
            "--add-dir",
            "/tmp",
            "--add-dir=/var",
        ],
        &["--mcp-config", "servers.json", "--strict-mcp-config"],
        &["--mcp-config", r#"{"mcpServers": {}}"#],
        &[
            "--include-partial-messages",
            "--replay-user-messages",
            "--include-hook-events",
        ],
        &[
            "--thinking",
            "adaptive",
            "--max-thinking-tokens",
            "2048",
            "--effort",
            "low",
        ],
        &[
            "--thinking=disabled",
            "--thinking-display=omitted",
            "--permission-prompts=host",
        ],
        &["--no-session-persistence"],
    ] {
        let server = Server::new([says("Aye.")]);
        let mut host = Host::new(&world, &server, arguments);
        host.prompt("Speak.");
        let over = host.end();
        assert_eq!(over.code, Some(0), "{arguments:?}: {over:#?}");
        assert_eq!(over.lines.last().unwrap()["result"], "Aye.", "{over:#?}");
    }
}
