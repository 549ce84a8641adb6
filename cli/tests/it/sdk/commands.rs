//! Commands that the program answers itself, and what a session has cost.

use std::fs;

use ah_conversation::Usage;
use ah_testkit::script::{Turn, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::extensions::put;
use crate::support::binary::World;

/// The lines of one type or subtype.
fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let is_it = |line: &&Value| line["type"] == kind || line["subtype"] == kind;
    lines.iter().filter(is_it).collect()
}

#[test]
fn a_cleared_conversation_is_another_one() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two.")]);
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("first");
    let first = host.result();
    host.ask("set_permission_mode", &json!({"mode": "acceptEdits"}));
    host.prompt("/clear");
    let cleared = host.result();
    assert_eq!(
        [
            &cleared["subtype"],
            &cleared["result"],
            &cleared["local_command"]
        ],
        ["success", "", "clear"]
    );
    assert_eq!(cleared["total_cost_usd"], 0.0);
    let reset = of(&host.seen, "conversation_reset")[0].clone();
    assert_eq!(reset["session_id"], first["session_id"]);
    assert!(reset["new_conversation_id"].is_string());
    assert_ne!(cleared["session_id"], first["session_id"]);
    host.prompt("second");
    let second = host.result();
    assert_eq!(second["session_id"], cleared["session_id"]);
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(sent.contains("second") && !sent.contains("first"), "{sent}");
    let over = host.end();
    let modes: Vec<_> = of(&over.lines, "init")
        .iter()
        .map(|init| init["permissionMode"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(modes[1..], ["acceptEdits", "acceptEdits"]);
    assert_eq!(over.code, Some(0));
    // The former conversation can be resumed.
    let id = first["session_id"].as_str().unwrap();
    let mut again = Host::new(&world, &server, &["--resume", id]);
    again.prompt("/cost");
    assert_eq!(again.result()["session_id"], first["session_id"]);
}

#[test]
fn commands_about_the_session_need_no_model() {
    let world = World::new();
    let server = Server::new([says("One.")]);
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("first");
    host.result();
    let mut told = Vec::new();
    for command in [
        "/context",
        "/cost",
        "/usage",
        "/model",
        "/effort high",
        "/effort",
        "/rename work",
        "/help",
    ] {
        host.prompt(command);
        let result = host.result();
        assert_eq!(result["num_turns"], 0, "{result}");
        let text = result["result"].as_str().unwrap().to_owned();
        let answer = &of(&host.seen, "assistant").last().unwrap()["message"];
        assert_eq!(answer["model"], "<synthetic>");
        assert_eq!(answer["content"][0]["text"], json!(text));
        told.push(format!("{command}: {}", text.lines().next().unwrap()));
    }
    assert_eq!(server.requests().len(), 1);
    assert!(
        told[1].starts_with("/cost: Estimated cost:        $0."),
        "{}",
        told[1]
    );
    assert_eq!(told[0], "/context: ## Context Usage");
    assert!(
        told[3].starts_with("/model: Current model: `"),
        "{}",
        told[3]
    );
    assert_eq!(
        told[4..],
        [
            "/effort high: Set effort level to high (this session only)",
            "/effort: Current effort level: high",
            "/rename work: Session renamed to: work",
            "/help: This command isn't available in this environment.",
        ]
    );
    // A prompt that is composed by a program, and the user's own command.
    let ran = world
        .asking(&server, ["-p", "-m", "sonnet", "/cost"])
        .run()
        .expect(0);
    assert!(
        ran.stdout.starts_with("Estimated cost:        $0.0000"),
        "{}",
        ran.stdout
    );
    assert_eq!(server.requests().len(), 1);
}

/// A command in the last of several texts, as actions send it behind its context.
#[test]
fn the_users_commands_are_expanded_in_the_last_text() {
    let world = World::new();
    let folder = world.project().join(".claude/commands");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("review-pr.md"),
        "Review the pull request $ARGUMENTS.",
    )
    .unwrap();
    fs::write(folder.join("cost.md"), "Count the costs.").unwrap();
    let server = Server::new([says("Done."), says("Counted.")]);
    let mut host = Host::new(&world, &server, &[]);
    host.say(&json!({
        "type": "user",
        "message": {"role": "user", "content": [
            {"type": "text", "text": "The context."},
            {"type": "text", "text": "/review-pr 12"},
        ]},
        "parent_tool_use_id": null,
    }));
    assert_eq!(host.result()["result"], "Done.");
    let sent = server.requests()[0].body["messages"].to_string();
    assert!(sent.contains("The context."), "{sent}");
    assert!(sent.contains("Review the pull request 12."), "{sent}");
    host.prompt("/cost");
    assert_eq!(host.result()["result"], "Counted.");
}

#[test]
fn the_cost_goes_on_over_a_resume_and_the_budget_is_of_the_process() {
    let world = World::new();
    let usage = Usage {
        input_tokens: 1_000,
        output_tokens: 50,
        ..Usage::default()
    };
    let server = Server::new(["1", "2", "3", "4", "5"].map(|text| Turn {
        usage: Some(usage),
        ..says(text)
    }));
    let cost = |result: &Value| result["total_cost_usd"].as_f64().unwrap();
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("first");
    let first = host.result();
    let id = first["session_id"].as_str().unwrap().to_owned();
    host.end();
    let mut resumed = Host::new(&world, &server, &["--resume", &id]);
    resumed.prompt("second");
    let second = resumed.result();
    assert!(
        (cost(&second) - 2.0 * cost(&first)).abs() < 1e-9,
        "{first} {second}"
    );
    resumed.end();
    // One and a half prompts: what the session cost before does not count.
    let budget = format!("{:.6}", 1.5 * cost(&first));
    let limited = ["--resume", &id, "--max-budget-usd", &budget];
    let mut host = Host::new(&world, &server, &limited);
    let mut endings = Vec::new();
    for prompt in ["third", "fourth", "fifth"] {
        host.prompt(prompt);
        endings.push(host.result()["subtype"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        endings,
        ["success", "error_max_budget_usd", "error_max_budget_usd"]
    );
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn settings_are_applied_together_or_not_at_all() {
    let world = World::new();
    let server = Server::new([
        says("One."),
        uses("Bash", json!({"command": "ls"})),
        says("Two."),
    ]);
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("first");
    host.result();
    let applied = host.ask(
        "apply_flag_settings",
        &json!({"settings": {
            "effortLevel": "low",
            "model": "haiku",
            "permissions": {"defaultMode": "acceptEdits", "allow": ["Bash(ls:*)"], "deny": ["WebFetch"]},
        }}),
    );
    assert_eq!(applied["subtype"], "success", "{applied}");
    let refused = host.ask(
        "apply_flag_settings",
        &json!({"settings": {"effortLevel": "immense", "model": "sonnet"}}),
    );
    assert_eq!(refused["subtype"], "error");
    let settings = host.ask("get_settings", &json!({}))["response"].clone();
    assert_eq!(settings["effective"]["effortLevel"], "low");
    assert_eq!(settings["applied"]["effort"], "low");
    assert!(
        settings["applied"]["model"]
            .as_str()
            .unwrap()
            .contains("haiku")
    );
    host.prompt("second");
    assert_eq!(host.result()["subtype"], "success");
    let rules = host.ask("list_permission_rules", &json!({}))["response"].to_string();
    assert!(rules.contains("Bash(ls:*)"), "{rules}");
    let init = of(&host.seen, "init").last().unwrap()["permissionMode"].clone();
    assert_eq!(init, "acceptEdits");
    let requests = server.requests();
    let model = requests[1].body["model"].as_str().unwrap();
    assert!(model.contains("haiku"), "{model}");
}

#[test]
fn hosts_read_models_files_and_context() {
    let world = World::new();
    fs::write(world.project().join("a.txt"), "hello\n").unwrap();
    let server = Server::new([says("One.")]);
    let mut host = Host::new(&world, &server, &[]);
    let models = host.ask("list_models", &json!({}))["response"]["models"].clone();
    let opus = { models.as_array().unwrap().iter() }
        .find(|model| model["value"] == "opus")
        .unwrap();
    assert_eq!(opus["supportsEffort"], true);
    assert!(opus["supportedEffortLevels"].as_array().unwrap().len() > 2);
    assert!(
        opus["resolvedModel"]
            .as_str()
            .unwrap()
            .starts_with("claude-opus")
    );
    host.prompt("first");
    host.result();
    let read = host.ask("read_file", &json!({"path": "a.txt"}));
    assert_eq!(read["response"]["contents"], "hello\n");
    for path in ["nope", "/etc/hostname", "../../etc/passwd"] {
        let read = host.ask("read_file", &json!({"path": path}));
        assert_eq!(read["error"], json!(format!("read denied: {path}")));
    }
    let usage = host.ask("get_context_usage", &json!({}))["response"].clone();
    let names: Vec<_> = { usage["categories"].as_array().unwrap().iter() }
        .map(|category| category["name"].as_str().unwrap())
        .collect();
    for name in ["System prompt", "System tools", "Free space"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // A new command is told once the files are read anew.
    let folder = world.project().join(".claude/commands");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("fresh.md"), "Fresh.").unwrap();
    let skills = host.ask("reload_skills", &json!({}))["response"].to_string();
    assert!(skills.contains("fresh"), "{skills}");
    let changed = of(&host.seen, "commands_changed")[0].to_string();
    assert!(changed.contains("fresh"), "{changed}");
    let cost = host.ask("get_session_cost", &json!({}))["response"]["text"].clone();
    assert!(cost.as_str().unwrap().contains("Usage by model:"), "{cost}");
    assert_eq!(
        host.ask("rename_session", &json!({"title": "work"}))["subtype"],
        "success"
    );
    let about = json!({"description": "mend the  parser\nof dates"});
    let title = host.ask("generate_session_title", &about)["response"]["title"].clone();
    assert_eq!(title, "mend the parser of dates");
    let session = host.seen.last().unwrap();
    assert!(session.is_object());
}

#[test]
fn a_run_that_a_hook_ends_says_so() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "echo hello"}))]);
    let mut host = Host::new(&world, &server, &[]);
    let hooks = json!({"PostToolUse": [{"matcher": null, "hookCallbackIds": ["h"]}]});
    host.ask("initialize", &json!({"hooks": hooks}));
    host.prompt("first");
    let asked = host.until(|line| line["request"]["subtype"] == "hook_callback");
    host.answer(&asked, &json!({"continue": false, "stopReason": "enough"}));
    let result = host.result();
    assert_eq!(
        [
            &result["subtype"],
            &result["terminal_reason"],
            &result["stop_reason"]
        ],
        ["success", "hook_stopped", "tool_use"]
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_output_style_is_told_and_changes_the_prompt() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two."), says("Three.")]);
    let folder = world.home().join(".claude/output-styles");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pirate.md"), "Talk like a pirate.").unwrap();
    for (style, told, text) in [
        ("Concise", "Concise", "# Output style: Concise"),
        ("pirate", "pirate", "Talk like a pirate."),
        ("nonsense", "nonsense", "# Working in a project"),
    ] {
        let settings = json!({"outputStyle": style}).to_string();
        let mut host = Host::new(&world, &server, &["--settings", &settings]);
        host.say(&json!({
            "type": "user",
            "message": {"role": "user", "content": "hello"},
            "parent_tool_use_id": null,
            "origin": {"kind": "human"},
        }));
        assert_eq!(host.result()["origin"], json!({"kind": "human"}));
        let init = of(&host.seen, "init")[0];
        assert_eq!(init["output_style"], told);
        let number = server.requests().len() - 1;
        let first = server.requests()[number].body["messages"][0].to_string();
        assert!(
            text.starts_with("# Working") || first.contains(text),
            "{first}"
        );
        let styles = host.ask("reload_output_styles", &json!({}))["response"].to_string();
        for name in [
            "default",
            "Concise",
            "Explanatory",
            "Learning",
            "Proactive",
            "pirate",
        ] {
            assert!(styles.contains(name), "{styles}");
        }
    }
}

/// A run whose schema was not met is an error; the denied calls of a subagent are among those of the session.
#[test]
fn what_is_missing_and_what_was_denied_is_told() {
    let world = World::new();
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    });
    let server = Server::new([says("No."), says("Still no.")]);
    let mut host = Host::new(&world, &server, &["--json-schema", &schema.to_string()]);
    host.prompt("first");
    let result = host.result();
    assert_eq!(
        [&result["subtype"], &result["terminal_reason"]],
        [
            "error_max_structured_output_retries",
            "structured_output_retry_exhausted"
        ]
    );
    assert!(result.get("result").is_none(), "{result}");
    let ask = json!({
        "description": "look",
        "prompt": "Look around.",
        "subagent_type": "general-purpose",
        "run_in_background": false,
    });
    let server = Server::new([
        uses("Agent", ask),
        uses("Bash", json!({"command": "touch x"})),
        says("Denied."),
        says("Done."),
    ]);
    let mut host = Host::new(&world, &server, &["--disallowedTools", "Bash(touch:*)"]);
    host.prompt("first");
    let result = host.result();
    let denied = of(&host.seen, "permission_denied")[0];
    assert_eq!(denied["tool_name"], "Bash");
    assert!(denied["agent_id"].is_string(), "{denied}");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Bash");
}

/// For the run of its prompt, a command brings its model and permissions along; its lines run only if they are allowed, and
/// its words are counted from zero. What cannot be read is named.
#[test]
fn a_command_brings_along_its_model_and_permissions() {
    let world = World::new();
    for (path, text) in [
        (
            "~/.claude/commands/make.md",
            "---\nargument-hint: [n]\nallowed-tools: Bash(touch:*)\nmodel: haiku\n---\n$0-$1 !`touch line` !`mkdir other`",
        ),
        (
            "~/.claude/commands/broken.md",
            "---\nmodel:\n  - list\n---\nx",
        ),
    ] {
        put(&world, path, text);
    }
    let calls = |name: &str| uses("Bash", json!({"command": format!("touch {name}")}));
    let server = Server::new([calls("first"), says("a"), calls("second"), says("b")]);
    let mut host = Host::new(&world, &server, &[]);
    host.prompt("/make one two");
    assert_eq!(host.result()["permission_denials"], json!([]));
    host.prompt("again");
    assert_eq!(
        host.result()["permission_denials"].as_array().map(Vec::len),
        Some(1)
    );
    let there = |name: &str| world.file(name).exists();
    assert_eq!(
        ["first", "second", "line", "other"].map(there),
        [true, false, true, false]
    );
    let requests = server.requests();
    let models: Vec<_> = requests
        .iter()
        .map(|it| it.body["model"].as_str())
        .collect();
    assert!(
        models[0].unwrap().contains("haiku") && models[2].unwrap().contains("sonnet"),
        "{models:?}"
    );
    let sent = requests[0].body["messages"].to_string();
    assert!(sent.contains("one-two"), "{sent}");
    let told = of(&host.seen, "informational");
    let told: Vec<_> = told.iter().map(|it| it["content"].to_string()).collect();
    let told = told.join("\n");
    for part in ["broken.md:", "`mkdir other` is not run"] {
        assert_eq!(told.matches(part).count(), 1, "{part}: {told}");
    }
}
