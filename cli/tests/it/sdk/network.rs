//! The host's control over network and files, with commands sandboxed by its settings.

use std::fs;

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::confined::{greeter, knocking};
use crate::sandbox::is_missing;
use crate::support::binary::World;

/// Runs one command of the model with these settings. The host answers each question about a network host with
/// `answer`; returns the questions and the text of the result.
fn run(
    world: &World,
    sandbox: &Value,
    command: &str,
    answer: Option<&Value>,
) -> (Vec<Value>, String) {
    let server = Server::new([uses("Bash", json!({ "command": command })), says("Done.")]);
    let settings = json!({ "sandbox": sandbox }).to_string();
    let asks = answer.map_or(&[][..], |_| &["--permission-prompt-tool", "stdio"]);
    let mut host = Host::new(world, &server, &[&["--settings", &settings], asks].concat());
    host.prompt("Go.");
    let mut questions = Vec::new();
    loop {
        let line = host
            .until(|line| line["type"] == "result" || line["request"]["subtype"] == "can_use_tool");
        if line["type"] == "result" {
            break;
        }
        host.answer(&line, answer.unwrap());
        questions.push(line["request"].clone());
    }
    let lines = host.end().lines;
    let results = lines.iter().map(|line| &line["message"]["content"][0]);
    let mut results = results.filter(|content| content["type"] == "tool_result");
    (questions, results.next().unwrap()["content"].to_string())
}

#[test]
fn the_host_is_asked_about_hosts_of_the_network() {
    if is_missing() {
        return;
    }
    let rule = |to: &str, destination: &str| {
        json!({ "behavior": "allow", "updatedInput": {}, "updatedPermissions": [{
            "type": "addRules", "behavior": "allow", "destination": destination,
            "rules": [{ "toolName": "WebFetch", "ruleContent": format!("domain:{to}") }],
        }]})
    };
    let allow = || json!({ "behavior": "allow", "updatedInput": {} });
    let deny = || json!({ "behavior": "deny", "message": "no" });
    let expected = [(1, 0, false), (2, 2, false), (1, 2, false), (1, 2, true)];
    for (number, (asked, served, is_kept)) in expected.into_iter().enumerate() {
        let (world, to) = (World::new(), greeter());
        let answers = [
            deny(),
            allow(),
            rule(&to, "session"),
            rule(&to, "userSettings"),
        ];
        let answer = &answers[number];
        let on = json!({ "enabled": true });
        let (questions, result) = run(&world, &on, &knocking(&to), Some(answer));
        assert_eq!(questions.len(), asked, "{number}: {questions:#?}");
        assert_eq!(
            result.matches("greeted").count(),
            served,
            "{number}: {result}"
        );
        let question = &questions[0];
        assert_eq!(question["tool_name"], "SandboxNetworkAccess");
        assert_eq!(question["input"]["host"], "127.0.0.1");
        assert_eq!(question["input"]["address"], to);
        assert_eq!(
            question["description"],
            format!("Allow network connection to {to}?")
        );
        let settings = fs::read_to_string(world.home().join(".claude/settings.json"));
        let settings: Value =
            serde_json::from_str(&settings.unwrap_or_default()).unwrap_or_default();
        let expected = is_kept.then(|| json!([to]));
        assert_eq!(
            settings.pointer("/sandbox/allowHosts"),
            expected.as_ref(),
            "{number}"
        );
    }
}

#[test]
fn nobody_is_asked_where_nobody_answers_or_the_list_is_complete() {
    if is_missing() {
        return;
    }
    let allow = json!({ "behavior": "allow", "updatedInput": {} });
    let to = greeter();
    let named = json!(["127.0.0.1"]);
    for (sandbox, answer) in [
        (json!({ "enabled": true }), None),
        (
            json!({ "enabled": true, "network": { "strictAllowlist": true } }),
            Some(&allow),
        ),
        (
            json!({ "enabled": true, "network": { "deniedDomains": named } }),
            Some(&allow),
        ),
        (
            json!({ "enabled": true, "allowHosts": [to], "network": { "deniedDomains": named } }),
            Some(&allow),
        ),
    ] {
        let (questions, result) = run(&World::new(), &sandbox, &knocking(&to), answer);
        assert_eq!(questions, Vec::<Value>::new(), "{sandbox}");
        assert!(result.contains("403 Forbidden"), "{sandbox}: {result}");
    }
}

#[test]
fn what_the_host_does_not_want_read_is_not_seen() {
    if is_missing() {
        return;
    }
    let world = World::new();
    world.write("secret/key", "canary");
    world.write("secret/public/key", "public");
    world.write("token", "canary");
    let command =
        "cat secret/key token; cat secret/public/key; echo x > made && cat made; ls secret";
    let sandbox = json!({ "enabled": true, "filesystem": {
        "denyRead": ["secret", "token", "~/", "missing"], "allowRead": ["secret/public"],
    }});
    let (_, result) = run(&world, &sandbox, command, None);
    assert!(!result.contains("canary"), "{result}");
    assert!(
        result.contains("public") && result.contains('x'),
        "{result}"
    );
    // Tools that run in this process obey the same policy.
    for (path, is_seen) in [
        ("secret/key", false),
        ("token", false),
        ("secret/public/key", true),
    ] {
        let server = Server::new([
            uses("Read", json!({ "file_path": world.file(path) })),
            says("Done."),
        ]);
        let settings = json!({ "sandbox": sandbox }).to_string();
        let mut host = Host::new(&world, &server, &["--settings", &settings]);
        host.prompt("Go.");
        host.result();
        let lines = host.end().lines;
        let text = json!(lines).to_string();
        assert!(!text.contains("canary"), "{path}: {text}");
        assert_eq!(text.contains("public\""), is_seen, "{path}: {text}");
    }
}

#[test]
fn a_server_that_fails_in_the_sandbox_says_what_would_let_it_out() {
    if is_missing() {
        return;
    }
    for (is_enabled, is_told) in [(false, false), (true, true)] {
        let world = World::new();
        let script = McpScript::new().start("echo no network >&2; exit 1\n");
        let servers = json!({ "mcpServers": { "s": script.config() } }).to_string();
        let settings = json!({ "sandbox": { "enabled": is_enabled } }).to_string();
        let server = Server::new([says("Done.")]);
        let arguments = ["--mcp-config", &servers, "--settings", &settings];
        let mut host = Host::new(&world, &server, &arguments);
        host.prompt("Go.");
        host.result();
        let status = host.ask("mcp_status", &json!({})).to_string();
        assert!(status.contains("no network"), "{status}");
        for word in ["allowHosts", "unconfinedServers"] {
            assert_eq!(status.contains(word), is_told, "{is_enabled}: {status}");
        }
        host.end();
    }
}
