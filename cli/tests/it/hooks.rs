//! Command hooks from settings, run by the real binary.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use ah_testkit::script::{says, uses};
use serde_json::{Value, json};

use crate::support::binary::World;

const PAGE: &str = include_str!("../../../docs/hooks.md");

fn command(event: &str, matcher: &str, command: &str) -> Value {
    json!({"hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}})
}

/// Runs `touch made` with these settings; returns standard error and the text of the result.
fn run(world: &World, settings: &Value, name: &str) -> (String, String) {
    let model = world.scenario(
        name,
        [
            uses("bash", json!({"command": "touch made"})),
            says("Done."),
        ],
    );
    let ended = world
        .ah([
            "-n",
            "-m",
            &model,
            "--settings",
            &settings.to_string(),
            "go",
        ])
        .run()
        .expect(0);
    let shown = world.ah(["show", "3"]).run();
    (ended.stderr, shown.stdout)
}

/// The hooks of the user's own settings are the user's programs, and have the user's keys; a project's have none.
#[test]
fn only_the_users_own_hooks_get_keys() {
    let hook = command("PreToolUse", "", "printf %s \"$ANTHROPIC_API_KEY\" >>got");
    for (at, file, gets) in [
        ("home", ".ah/settings.json", "sk-of-the-user-1"),
        ("home", ".claude/settings.json", "sk-of-the-user-1"),
        ("inline", "", "sk-of-the-user-1"),
        ("project", ".ah/settings.json", ""),
        ("project", ".claude/settings.json", ""),
        ("project", ".claude/settings.local.json", ""),
    ] {
        let world = World::new();
        let touch = uses("bash", json!({"command": "touch made"}));
        let model = world.scenario("s", [touch, says("Done.")]);
        let text = hook.to_string();
        let mut arguments = vec!["-n", "--trust", "-m", &model, "go"];
        match at {
            "home" => {
                let path = world.home().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, &text).unwrap();
            }
            "project" => {
                world.write(file, &text);
            }
            _ => arguments.extend(["--settings", &text]),
        }
        let run = world
            .ah(arguments)
            .env("ANTHROPIC_API_KEY", "sk-of-the-user-1");
        run.run().expect(0);
        assert_eq!(world.text("got"), gets, "{at} {file}");
    }
}

/// Exit code 2 blocks the call, and standard error is the reason.
#[test]
fn exit_code_2_blocks() {
    let world = World::new();
    let settings = command("PreToolUse", "Bash", "echo forbidden-91 >&2; exit 2");
    let (stderr, _) = run(&world, &settings, "s");
    assert!(!world.file("made").exists());
    assert!(
        stderr.contains("PreToolUse:bash hook error: forbidden-91"),
        "{stderr}"
    );
}

/// The payload arrives on standard input, and JSON on standard output is the answer.
#[test]
fn a_command_reads_the_payload_and_answers_in_json() {
    let world = World::new();
    let answer = r#"cat > told.json; cp "$(sed 's/.*"transcript_path":"\([^"]*\)".*/\1/' told.json)" seen.jsonl; echo '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "touch other"}}}'"#;
    run(&world, &command("PreToolUse", "", answer), "s");
    assert!(world.file("other").exists() && !world.file("made").exists());
    let told: Value = serde_json::from_str(&world.text("told.json")).unwrap();
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!(told["tool_name"], "bash");
    assert_eq!(told["tool_input"]["command"], "touch made");
    assert_eq!(
        told["cwd"],
        json!(fs::canonicalize(world.project()).unwrap())
    );
    let path = told["transcript_path"].as_str().unwrap();
    assert!(path.ends_with(".jsonl"), "{path}");
    // What the hook could read, and what came after it.
    let transcript = fs::read_to_string(path).unwrap();
    let rows = transcript
        .lines()
        .map(|row| serde_json::from_str::<Value>(row).unwrap());
    let kinds: Vec<_> = rows
        .map(|row| row["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["user", "assistant", "user", "assistant"]);
    let seen = world.text("seen.jsonl");
    assert_eq!(seen.lines().count(), 2, "{seen}");
    assert!(transcript.starts_with(&seen));
}

/// A hook that times out is stopped, a failing one is reported; neither has allowed the call, and the run continues.
#[test]
fn a_slow_or_failing_command_allows_nothing() {
    let world = World::new();
    let mut slow = command("PreToolUse", "", "sleep 60 & echo $! > pid; wait");
    slow["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"] = json!(0.3);
    let (stderr, _) = run(&world, &slow, "slow");
    assert!(
        stderr.contains("failed: it timed out after 0.3 s"),
        "{stderr}"
    );
    assert!(!world.file("made").exists());
    let pid = world.text("pid");
    assert!(
        !std::path::Path::new("/proc")
            .join(pid.trim())
            .join("cwd")
            .exists()
    );

    let world = World::new();
    let (stderr, _) = run(
        &world,
        &command("PreToolUse", "", "echo oh no >&2; exit 3"),
        "fails",
    );
    assert!(stderr.contains("failed: oh no"), "{stderr}");
    assert!(!world.file("made").exists());

    for (name, line) in [
        ("dies", "kill -9 $$"),
        ("missing", "/nowhere/guard"),
        ("breaks-off", r#"printf '{"decision": "blo'"#),
    ] {
        let world = World::new();
        run(&world, &command("PreToolUse", "", line), name);
        assert!(!world.file("made").exists(), "{name}");
        let mut lenient = command("PreToolUse", "", line);
        lenient["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"] = json!("continue");
        run(&world, &lenient, &format!("{name}-lenient"));
        // What begins like an answer may be a refusal.
        assert_eq!(world.file("made").exists(), name != "breaks-off", "{name}");
    }
}

/// The answer of a hook is found behind what shells and Windows write before it.
#[test]
fn a_denial_counts_behind_other_output() {
    let denial = r#"{"decision": "block", "reason": "no-58"}"#;
    let utf16: Vec<u8> = denial.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, output) in [
        ("mark", [b"\xef\xbb\xbf", denial.as_bytes()].concat()),
        ("utf16", [&b"\xff\xfe"[..], &utf16].concat()),
        ("profile", format!("Welcome\n{denial}\nBye\n").into_bytes()),
        ("colour", format!("\u{1b}[0m{denial}").into_bytes()),
    ] {
        let world = World::new();
        fs::write(world.file("said"), output).unwrap();
        let (stderr, _) = run(&world, &command("PreToolUse", "", "cat said"), name);
        assert!(!world.file("made").exists(), "{name}");
        assert!(stderr.contains("no-58"), "{name}: {stderr}");
    }
}

/// An asynchronous hook does not block the run, and is stopped after its own timeout.
#[test]
fn nobody_waits_for_an_asynchronous_command() {
    let world = World::new();
    let patient = r#"echo '{"async": true, "asyncTimeout": 30}'; sleep 50; touch late"#;
    run(&world, &command("PreToolUse", "", patient), "s");
    assert!(world.file("made").exists() && !world.file("late").exists());
}

/// A host that asks for hook events gets each hook that runs, with its output.
#[test]
fn hosts_are_shown_the_hooks() {
    let world = World::new();
    let settings = json!({"hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [
            {"type": "command", "command": "echo '{}'"},
            {"type": "command", "command": "echo not now >&2; exit 2"},
        ]}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "true"}]}],
    }});
    let model = world.scenario(
        "s",
        [
            uses("Bash", json!({"command": "touch made"})),
            says("Done."),
        ],
    );
    let settings = settings.to_string();
    let common = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "-m",
        &model,
    ];
    let run = |more: &[&str]| {
        let arguments = [&common[..], &["--settings", &settings], more, &["go"]].concat();
        let ended = world.ah(arguments).run().expect(0);
        let lines = ended.stdout.lines().map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            for key in ["uuid", "session_id"] {
                line.as_object_mut().unwrap().remove(key);
            }
            line.to_string()
        });
        let hooks: Vec<_> = lines.filter(|line| line.contains("\"hook_")).collect();
        hooks.join("\n")
    };
    assert_eq!(run(&[]), "");
    insta::assert_snapshot!(run(&["--include-hook-events"]), @r#"
        {"type":"system","subtype":"hook_started","hook_id":"hook_run_1","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse"}
        {"type":"system","subtype":"hook_response","hook_id":"hook_run_1","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse","output":"{}\n","stdout":"{}\n","stderr":"","exit_code":0,"outcome":"success"}
        {"type":"system","subtype":"hook_started","hook_id":"hook_run_2","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse"}
        {"type":"system","subtype":"hook_response","hook_id":"hook_run_2","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse","output":"not now\n","stdout":"","stderr":"not now\n","exit_code":2,"outcome":"error"}
        {"type":"system","subtype":"hook_started","hook_id":"hook_run_3","hook_name":"SessionEnd:other","hook_event":"SessionEnd"}
        {"type":"system","subtype":"hook_response","hook_id":"hook_run_3","hook_name":"SessionEnd:other","hook_event":"SessionEnd","output":"","stdout":"","stderr":"","exit_code":0,"outcome":"success"}
        "#);
}

/// Hooks of a project are code: they run only if the project is trusted.
#[test]
fn a_projects_hooks_run_only_where_it_is_trusted() {
    let world = World::new();
    let settings = command("SessionStart", "", "touch hooked");
    world.write(".claude/settings.json", settings.to_string());
    let model = world.scenario("s", [says("Done.")]);
    world.ah(["-n", "-m", &model, "go"]).run().expect(0);
    assert!(!world.file("hooked").exists());
    world
        .ah(["-n", "-m", &model, "--trust", "go"])
        .run()
        .expect(0);
    assert!(world.file("hooked").exists());
}

/// The settings shown in the documentation work as documented.
#[test]
fn the_examples_of_the_page_work() {
    let examples: Vec<Value> = { PAGE.split("```json\n").skip(1) }
        .map(|rest| serde_json::from_str(rest.split("```").next().unwrap()).unwrap())
        .filter(|example: &Value| example.get("hooks").is_some())
        .collect();
    let [log, guard, check] = examples.as_slice() else {
        panic!("{} examples", examples.len());
    };
    let world = World::new();
    run(&world, log, "log");
    let lines = world.text("calls.jsonl");
    assert!(lines.contains("touch made"), "{lines}");

    let world = World::new();
    let model = world.scenario(
        "s",
        [
            uses("bash", json!({"command": "git push --force"})),
            uses("bash", json!({"command": "touch made"})),
            says("Done."),
        ],
    );
    let settings = guard.to_string();
    let ended = world
        .ah(["-m", &model, "--settings", &settings, "go"])
        .run()
        .expect(0);
    assert!(ended.stderr.contains("push by hand"), "{}", ended.stderr);
    assert!(world.file("made").exists());

    let world = World::new();
    let model = world.scenario(
        "s",
        [
            says("Done."),
            uses("bash", json!({"command": "touch report.md"})),
            says("Really."),
        ],
    );
    let settings = check.to_string();
    let ended = world
        .ah(["-m", &model, "--settings", &settings, "go"])
        .run()
        .expect(0);
    assert!(ended.stdout.contains("Really."), "{}", ended.stdout);
}

/// A hook that would never be called is a guard that is silently absent.
#[test]
fn a_matcher_that_is_no_expression_ends_the_run() {
    let hook = |matcher: &str| {
        json!({"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [{"type": "command", "command": "true"}]}]}})
            .to_string()
    };
    for (matcher, is_valid) in [("(Bash", false), ("*.ts", false), ("^(?!mcp__).*", true)] {
        let world = World::new();
        let model = world.scenario("s", [says("Done.")]);
        let settings = hook(matcher);
        let ended = world
            .ah(["-m", &model, "--settings", &settings, "go"])
            .run();
        assert_eq!(ended.code == Some(0), is_valid, "{matcher}: {ended:#?}");
        let text = format!("the hook matcher `{matcher}` is not a regular expression");
        assert_eq!(ended.stderr.contains(&text), !is_valid, "{}", ended.stderr);
    }
}

/// Returns settings with one hook before commands.
fn before(hook: &Value) -> Value {
    json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}})
}

/// A script may answer and fail then, as one that ends with a command that fails.
#[test]
fn an_answer_in_json_counts_whatever_the_exit_code_is() {
    let world = World::new();
    let denial = r#"echo '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no-31"}}'; exit 1"#;
    let (stderr, _) = run(&world, &command("PreToolUse", "Bash", denial), "s");
    assert!(!world.file("made").exists());
    assert!(stderr.contains("no-31"), "{stderr}");
}

/// A condition is a rule on the call, arguments see no shell, and a failure blocks where that is wanted.
#[test]
fn conditions_arguments_and_failures_of_hooks_count() {
    let denies = |more: Value| {
        let mut hook = json!({"type": "command", "command": "echo no >&2; exit 2"});
        let fields = more.as_object().unwrap().clone();
        hook.as_object_mut().unwrap().extend(fields);
        hook
    };
    let writes = json!({"type": "command", "command": "touch", "args": ["$HOME; a file"]});
    for (name, hook, runs) in [
        ("other", denies(json!({"if": "Bash(git *)"})), true),
        ("same", denies(json!({"if": "Bash(touch *)"})), false),
        ("arguments", writes, true),
        ("failing", denies(json!({"command": "exit 1"})), false),
        (
            "lasting",
            denies(json!({"command": "exit 1", "onFailure": "continue"})),
            true,
        ),
        (
            "blocking",
            denies(json!({"command": "exit 1", "onFailure": "block"})),
            false,
        ),
    ] {
        let world = World::new();
        run(&world, &before(&hook), name);
        assert_eq!(world.file("made").exists(), runs, "{name}");
        assert_eq!(
            world.file("$HOME; a file").exists(),
            name == "arguments",
            "{name}"
        );
    }
}

/// The condition of a hook is about the call as it will run, after what an earlier hook has made of it.
#[test]
fn a_condition_counts_for_a_call_that_an_earlier_hook_has_changed() {
    let change =
        r#"echo '{"hookSpecificOutput": {"updatedInput": {"command": "cp /dev/null made"}}}'"#;
    let change = json!({"type": "command", "command": change});
    let deny = json!({"type": "command", "command": "exit 2", "if": "Bash(cp *)"});
    let world = World::new();
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [change, deny]}]}});
    run(&world, &hooks, "s");
    assert!(!world.file("made").exists());
}

/// Neither the user nor the model sees a password in the address of a hook.
#[test]
fn a_failed_address_is_named_without_its_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    drop(listener);
    let world = World::new();
    let hook = before(&json!({
        "type": "http", "url": format!("http://me:secret-1@{place}/secret-2?key=secret-3"), "onFailure": "block"
    }));
    let (stderr, _) = run(&world, &hook, "s");
    let transcript = world.ah(["export", "--format", "jsonl"]).run().expect(0);
    let said = stderr + &transcript.stdout;
    assert!(!world.file("made").exists());
    assert!(
        said.contains(&format!("the hook `http://{place}` failed")),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
}

/// The payload is posted, with the variables that are named, and the answer has the words of a command's output.
#[test]
fn an_address_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !request.ends_with(b"}") {
            let read = stream.read(&mut piece).unwrap();
            request.extend_from_slice(&piece[..read]);
        }
        let answer = r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no-47"}}"#;
        let length = answer.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + answer).as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    let world = World::new();
    let settings = before(&json!({
        "type": "http", "url": url, "headers": {"x-from": "at $HOME$PATH."}, "allowedEnvVars": ["HOME"]
    }));
    let (stderr, _) = run(&world, &settings, "s");
    assert!(!world.file("made").exists());
    assert!(stderr.contains("no-47"), "{stderr}");
    let request = asked.join().unwrap();
    assert!(request.starts_with("POST /hook "), "{request}");
    assert!(
        request.contains(r#""tool_input":{"command":"touch made"}"#),
        "{request}"
    );
    let home = format!("x-from: at {}.\r\n", world.home().display());
    assert!(request.contains(&home), "{request}");
}

/// A hook that cannot be called is left out only where nothing depends on it.
#[test]
fn a_kind_that_is_unknown_ends_the_run_where_it_would_decide() {
    for (event, is_valid) in [
        ("PreToolUse", false),
        ("UserPromptSubmit", false),
        ("Stop", true),
    ] {
        let world = World::new();
        let model = world.scenario("s", [says("Done.")]);
        let hook = json!({"type": "prompt", "prompt": "May it?"});
        let settings = json!({"hooks": {event: [{"hooks": [hook]}]}}).to_string();
        let ended = world
            .ah(["-m", &model, "--settings", &settings, "go"])
            .run();
        assert_eq!(ended.code == Some(0), is_valid, "{event}: {ended:#?}");
        let text = format!("a hook for {event} is of type `prompt`, which is not supported");
        assert_eq!(ended.stderr.contains(&text), !is_valid, "{}", ended.stderr);
    }
}

/// A project that nobody trusts cannot turn off the guards of the user.
#[test]
fn all_hooks_can_be_turned_off() {
    let deny = command("PreToolUse", "Bash", "exit 2");
    let world = World::new();
    let mut off = deny.clone();
    off["disableAllHooks"] = json!(true);
    run(&world, &off, "off");
    assert!(world.file("made").exists());

    let world = World::new();
    world.write(".ah/settings.json", r#"{"disableAllHooks": true}"#);
    run(&world, &deny, "untrusted");
    assert!(!world.file("made").exists());
}

/// A machine is set up where that is asked for, and tasks of the list are told as they come and are done.
#[test]
fn setup_and_tasks_are_told() {
    let world = World::new();
    let log = r#"cat >> events; echo >> events"#;
    let hook = json!([{"hooks": [{"type": "command", "command": log}]}]);
    let hooks = json!({"hooks": {
        "Setup": hook, "SessionStart": hook, "TaskCreated": hook, "TaskCompleted": hook,
    }});
    world.write(".claude/settings.json", hooks.to_string());
    let list = |status: &str| json!({"todos": [{"content": "paint", "status": status}]});
    let turns = || {
        [
            uses("todo", list("pending")),
            uses("todo", list("completed")),
            says("Done."),
        ]
    };
    let run = |options: &[&str]| {
        let _ = fs::remove_file(world.file("events"));
        let model = world.scenario("tasks", turns());
        let arguments = [&["--trust", "-n", "-m", &model], options].concat();
        world.ah(arguments).run().expect(0);
        let lines = world.text("events");
        let told = lines.lines().filter(|line| !line.is_empty()).map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let about = ["trigger", "source", "task_subject"].map(|key| event[key].as_str());
            let about = about.into_iter().flatten().collect::<String>();
            format!("{} {about}", event["hook_event_name"].as_str().unwrap())
        });
        told.collect::<Vec<_>>()
    };
    let tasks = ["TaskCreated paint", "TaskCompleted paint"];
    let begun = "SessionStart startup";
    assert_eq!(run(&["go"]), [&[begun][..], &tasks].concat());
    assert_eq!(
        run(&["--init", "go"]),
        [&["Setup init", begun][..], &tasks].concat()
    );
    let maintained = [&["Setup maintenance", begun][..], &tasks].concat();
    assert_eq!(run(&["--maintenance", "go"]), maintained);
    assert_eq!(run(&["--init-only"]), ["Setup init", begun]);
}
