//! The messages of a run.

use std::collections::BTreeSet;

use ah_conversation::Usage;
use ah_testkit::script::{Turn, fails, says, thinks, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

/// Each kind of message, and its required fields besides `type`, `uuid` and `session_id`. Of the kinds in the SDKs'
/// types, `files_persisted`, `hook_progress`, `auth_status` and `tool_use_summary` are about features that do not
/// exist here, and `task_notification` is tested with subagents.
const KINDS: &[(&str, &[&str])] = &[
    (
        "system/init",
        &[
            "apiKeySource",
            "claude_code_version",
            "cwd",
            "tools",
            "mcp_servers",
            "model",
            "permissionMode",
            "slash_commands",
            "output_style",
            "skills",
            "plugins",
            "agents",
        ],
    ),
    ("system/status", &["status"]),
    (
        "system/api_retry",
        &[
            "attempt",
            "max_retries",
            "retry_delay_ms",
            "error_status",
            "error",
        ],
    ),
    ("system/compact_boundary", &["compact_metadata"]),
    ("assistant", &["message", "parent_tool_use_id"]),
    ("user", &["message", "parent_tool_use_id"]),
    (
        "user/replay",
        &["message", "parent_tool_use_id", "isReplay"],
    ),
    ("stream_event", &["event", "parent_tool_use_id"]),
    (
        "system/hook_started",
        &["hook_id", "hook_name", "hook_event"],
    ),
    (
        "system/hook_response",
        &[
            "hook_id",
            "hook_name",
            "hook_event",
            "output",
            "stdout",
            "stderr",
            "outcome",
        ],
    ),
    (
        "tool_progress",
        &[
            "tool_use_id",
            "tool_name",
            "parent_tool_use_id",
            "elapsed_time_seconds",
        ],
    ),
    (
        "result/success",
        &[
            "duration_ms",
            "duration_api_ms",
            "is_error",
            "num_turns",
            "result",
            "stop_reason",
            "total_cost_usd",
            "usage",
            "modelUsage",
            "permission_denials",
        ],
    ),
    (
        "result/error_max_turns",
        &[
            "duration_ms",
            "duration_api_ms",
            "is_error",
            "num_turns",
            "errors",
            "stop_reason",
            "total_cost_usd",
            "usage",
            "modelUsage",
            "permission_denials",
        ],
    ),
];

/// The name of a message's kind.
fn kind(line: &Value) -> String {
    let kind = line["type"].as_str().unwrap();
    match (kind, line["subtype"].as_str()) {
        ("user", _) if line["isReplay"] == true => "user/replay".to_owned(),
        (_, Some(subtype)) => format!("{kind}/{subtype}"),
        _ => kind.to_owned(),
    }
}

fn tokens(turn: Turn) -> Turn {
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 2,
        cache_read_input_tokens: 3,
        ..Usage::default()
    };
    Turn {
        usage: Some(usage),
        ..turn
    }
}

/// A session in which every kind of message occurs.
fn of_all_kinds() -> Vec<Value> {
    let world = World::new();
    let server = Server::new([
        fails(529, "overloaded_error"),
        tokens(Turn {
            text: Some("Let me see.".into()),
            ..uses("Bash", json!({"command": "echo hi"}))
        }),
        tokens(thinks("Hm.", "Done.")),
        tokens(says("A summary.")),
        tokens(uses("Bash", json!({"command": "echo 1"}))),
        tokens(uses("Bash", json!({"command": "echo 2"}))),
    ]);
    let hook = json!({"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]});
    let settings = json!({"hooks": {"PreToolUse": [hook]}}).to_string();
    let shown = ["--include-partial-messages", "--replay-user-messages"];
    let limits = ["--allowedTools", "Bash", "--max-turns", "2"];
    let hooks = ["--include-hook-events", "--settings", &settings];
    let arguments = [&shown[..], &limits, &hooks].concat();
    let mut host = Host::new(&world, &server, &arguments);
    host.prompt("Go.");
    host.result();
    host.prompt("/compact");
    host.result();
    host.prompt("Go on.");
    host.result();
    let over = host.end();
    assert_eq!(over.code, Some(1), "the last result is an error: {over:#?}");
    over.lines
}

/// Each message has the fields of its type in the SDKs, and `isReplay` tells a replayed prompt from a new one.
#[test]
fn each_line_has_the_fields_of_its_kind() {
    let lines = of_all_kinds();
    let mut told = BTreeSet::new();
    for line in &lines {
        let kind = kind(line);
        let fields = KINDS.iter().find(|(name, _)| *name == kind);
        let (_, fields) = fields.unwrap_or_else(|| panic!("{kind} is of no known kind: {line}"));
        for field in fields.iter().chain(&["uuid", "session_id"]) {
            assert!(
                line.get(field).is_some(),
                "{kind} without `{field}`: {line}"
            );
        }
        told.insert(kind);
    }
    let missing: Vec<_> = KINDS
        .iter()
        .filter(|(kind, _)| !told.contains(*kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");

    let uuids: BTreeSet<_> = lines
        .iter()
        .map(|line| line["uuid"].as_str().unwrap())
        .collect();
    assert_eq!(uuids.len(), lines.len(), "each line has an id of its own");
    for uuid in uuids {
        assert_eq!(uuid.len(), 36, "{uuid}");
        assert!(uuid.split('-').map(str::len).eq([8, 4, 4, 4, 12]), "{uuid}");
    }
    let sessions: BTreeSet<_> = lines
        .iter()
        .map(|line| line["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
}

/// A content block has the fields of its kind and no others.
#[test]
fn a_block_has_no_foreign_fields() {
    let lines = of_all_kinds();
    let blocks = lines
        .iter()
        .filter_map(|line| line["message"]["content"].as_array());
    let mut told = BTreeSet::new();
    for block in blocks.flatten() {
        let fields: Vec<_> = block
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let expected: &[&str] = match block["type"].as_str().unwrap() {
            "text" => &["type", "text"],
            "thinking" => &["type", "thinking", "signature"],
            "tool_use" => &["type", "id", "name", "input"],
            "tool_result" => &["type", "tool_use_id", "content", "is_error"],
            other => panic!("{other}"),
        };
        assert_eq!(fields, expected);
        told.insert(expected[1]);
    }
    assert_eq!(told.len(), 4, "{told:?}");
}

/// Usage is never null, and usage per model has the SDKs' field names.
#[test]
fn usage_is_always_told() {
    const TOKENS: [&str; 4] = [
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    ];
    let lines = of_all_kinds();
    let with_usage = lines.iter().filter_map(|line| match line["type"].as_str() {
        Some("assistant") => Some(&line["message"]["usage"]),
        Some("result") => Some(&line["usage"]),
        _ => None,
    });
    let mut count = 0;
    for usage in with_usage {
        assert!(TOKENS.iter().all(|name| usage[*name].is_u64()), "{usage}");
        count += 1;
    }
    assert!(count > 5, "{count}");
    let result = lines.iter().find(|line| line["type"] == "result").unwrap();
    assert_eq!(result["usage"]["input_tokens"], 20);
    assert_eq!(result["usage"]["cache_read_input_tokens"], 6);
    let models = result["modelUsage"].as_object().unwrap();
    let (_, usage) = models.iter().next().unwrap();
    let fields: Vec<_> = usage
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        fields,
        [
            "inputTokens",
            "outputTokens",
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
            "webSearchRequests",
            "costUSD",
            "contextWindow",
            "maxOutputTokens",
            "cacheCreationEphemeral5mInputTokens",
            "cacheCreationEphemeral1hInputTokens",
            "canonicalModel",
            "provider",
            "costBasis",
        ]
    );
}

/// The messages of a run are in order, one for each content block, and the next prompt's follow.
#[test]
fn lines_come_in_their_order() {
    let world = World::new();
    let server = Server::new([
        Turn {
            text: Some("Let me see.".into()),
            ..uses_all([
                ("Bash", json!({"command": "touch one; echo one"})),
                ("Bash", json!({"command": "touch two; echo two"})),
            ])
        },
        says("Done."),
        says("Yes."),
    ]);
    let mut host = Host::new(&world, &server, &["--allowedTools", "Bash"]);
    host.prompt("Go.");
    host.result();
    host.prompt("Sure?");
    host.result();
    let lines = host.end();
    assert_eq!(lines.code, Some(0), "{lines:#?}");
    let shown: Vec<_> = lines.lines.iter().map(shown).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    system/init
    assistant text Let me see.
    assistant tool_use Bash
    assistant tool_use Bash
    tool_progress
    tool_progress
    user tool_result one
    tool_progress
    tool_progress
    user tool_result two
    assistant text Done.
    result/success Done.
    system/init
    assistant text Yes.
    result/success Yes.
    ");
}

fn shown(line: &Value) -> String {
    let kind = kind(line);
    let block = &line["message"]["content"][0];
    let words = ["text", "name", "content"].into_iter();
    let words = { words }
        .find_map(|name| block[name].as_str())
        .unwrap_or_default();
    let said = match line["type"].as_str() {
        Some("result") => line["result"].as_str().unwrap_or_default().to_owned(),
        _ => format!(
            "{} {}",
            block["type"].as_str().unwrap_or_default(),
            words.trim()
        ),
    };
    format!("{kind} {}", said.trim()).trim().to_owned()
}

/// The result lists the denied calls of its own prompt, whoever denied them.
#[test]
fn denials_are_listed_in_the_result() {
    let world = World::new();
    let calls = |command: &str| uses("Bash", json!({"command": command}));
    let server = Server::new([
        uses_all([
            ("Bash", json!({"command": "touch a"})),
            ("Bash", json!({"command": "rm -r b"})),
            ("Bash", json!({"command": "echo fine"})),
        ]),
        says("A pity."),
        calls("echo fine"),
        says("Fine."),
    ]);
    let arguments = [
        "--disallowedTools",
        "Bash(rm:*)",
        "--permission-prompt-tool",
        "stdio",
    ];
    let mut host = Host::new(&world, &server, &arguments);
    host.prompt("Go.");
    let question = host.until(|line| line["request"]["subtype"] == "can_use_tool");
    assert_eq!(question["request"]["input"]["command"], "touch a");
    host.answer(&question, &json!({"behavior": "deny", "message": "no"}));
    let denied = host.result()["permission_denials"].clone();
    let denied = denied.as_array().unwrap().iter();
    let denied: Vec<_> = denied
        .map(|it| {
            (
                it["tool_name"].as_str().unwrap(),
                it["tool_input"]["command"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(denied, [("Bash", "touch a"), ("Bash", "rm -r b")]);
    host.prompt("Again.");
    assert_eq!(host.result()["permission_denials"], json!([]));
    assert_eq!(host.end().code, Some(0));
}

/// A disallowed tool is not offered, and denied if called anyway; with a list of tools only those are offered.
#[test]
fn tools_are_those_that_are_allowed() {
    let world = World::new();
    let write = json!({"file_path": "a.txt", "content": "a"});
    for (arguments, offered) in [
        (["--disallowedTools", "Write"], None),
        (["--tools", "Read,Bash"], Some(vec!["Read", "Bash"])),
        (["--tools", ""], Some(vec![])),
    ] {
        let server = Server::new([uses("Write", write.clone()), says("A pity.")]);
        let arguments = [&arguments[..], &["--permission-mode", "bypassPermissions"]].concat();
        let mut host = Host::new(&world, &server, &arguments);
        host.prompt("Go.");
        host.result();
        let lines = host.end().lines;
        let init = lines.iter().find(|line| line["subtype"] == "init").unwrap();
        let told: Vec<_> = init["tools"].as_array().unwrap().iter().collect();
        let body = &server.requests()[0].body;
        let sent = body["tools"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let sent: Vec<_> = sent
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert!(
            !sent.contains(&"Write") && !told.contains(&&json!("Write")),
            "{sent:?}"
        );
        if let Some(offered) = offered {
            assert_eq!(sent, offered);
        }
        let result = lines
            .iter()
            .find(|line| line["message"]["content"][0]["type"] == "tool_result");
        assert_eq!(result.unwrap()["message"]["content"][0]["is_error"], true);
        assert!(!world.file("a.txt").exists());
    }
}
