//! Subagents through the real binary: definitions in all layers, messages for a host, and recovery after a kill.

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::binary::{Ah, Ended, Running, World, wait_for_file};

pub fn host<'a>(world: &World, server: &Server, more: impl IntoIterator<Item = &'a str>) -> Ah {
    let wire = [
        "-m",
        "sonnet",
        "--output-format=stream-json",
        "--verbose",
        "--input-format=stream-json",
        "--setting-sources=",
        "--permission-prompt-tool=stdio",
    ];
    world.asking(server, wire.into_iter().chain(more))
}

pub fn messages(ended: &Ended) -> Vec<Value> {
    let messages = ended.stdout.lines().map(serde_json::from_str);
    messages.collect::<Result<_, _>>().unwrap()
}

pub fn delegate(kind: &str, more: &Value) -> Turn {
    let mut input = json!({"description": "dig it", "prompt": "Find gold.", "subagent_type": kind});
    input
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    uses("Agent", input)
}

pub const PROMPT: &str = r#"{"type":"user","message":{"role":"user","content":"go"}}"#;

pub fn initialize(more: &Value) -> String {
    let mut request = json!({"subtype": "initialize", "agents": {
        "digger": {"description": "digs", "prompt": "You dig.", "tools": ["Bash"]},
    }});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"type": "control_request", "request_id": "1", "request": request}).to_string()
}

/// A host sees the task and its messages, permission requests name the subagent, and the host's hooks run at its
/// start and its stop.
#[test]
fn a_host_follows_a_subagent_and_is_asked_by_it() {
    let world = World::new();
    let server = Server::new([
        delegate("digger", &json!({})),
        uses("Bash", json!({"command": "touch made"})),
        Turn {
            usage: Some(Usage {
                output_tokens: 7,
                ..Usage::default()
            }),
            ..says("Gold.")
        },
        says("It found gold."),
    ]);
    let hooks = json!({"hooks": {
        "SubagentStart": [{"matcher": "digger", "hookCallbackIds": ["start"]}],
        "SubagentStop": [{"matcher": null, "hookCallbackIds": ["stop"]}],
        "Stop": [{"matcher": null, "hookCallbackIds": ["end"]}],
    }});
    let mut running = host(&world, &server, []).with_silent_stdin().start();
    running.say(&initialize(&hooks));
    running.say(PROMPT);
    let mut heard = Vec::new();
    for subtype in ["start", "can_use_tool", "stop", "end"] {
        let mark = match subtype {
            "can_use_tool" => "\"subtype\":\"can_use_tool\"".to_owned(),
            id => format!("\"callback_id\":\"{id}\""),
        };
        running.wait_for_output(&mark);
        let so_far = running.output_so_far();
        let line = so_far.lines().find(|line| line.contains(&mark)).unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        let asked = match subtype {
            "can_use_tool" => &line["request"],
            _ => &line["request"]["input"],
        };
        heard.push(format!(
            "{subtype}: {} {}",
            asked["agent_id"].is_string(),
            asked["agent_type"]
        ));
        let answer = match subtype {
            "can_use_tool" => json!({"behavior": "allow", "updatedInput": asked["input"]}),
            _ => json!({}),
        };
        let response =
            json!({"subtype": "success", "request_id": line["request_id"], "response": answer});
        running.say(&json!({"type": "control_response", "response": response}).to_string());
    }
    running.say_no_more();
    let ended = running.wait().expect(0);
    assert_eq!(
        heard,
        [
            "start: true \"digger\"",
            "can_use_tool: true null",
            "stop: true \"digger\"",
            "end: false null",
        ]
    );
    assert!(world.file("made").exists());
    let told = messages(&ended).into_iter().filter(|message| {
        message["type"] != "control_request" && message["type"] != "tool_progress"
    });
    let told = told.map(|message| {
        let word = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let words = [
            "/type",
            "/subtype",
            "/status",
            "/message/content/0/type",
            "/subagent_type",
        ];
        let words: Vec<_> = words.into_iter().filter_map(word).collect();
        let below = message["parent_tool_use_id"].is_string();
        format!("{}{}", if below { "  " } else { "" }, words.join(" "))
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
control_response
system init
assistant tool_use
system task_started digger
  user text digger
  assistant tool_use digger
system task_progress digger
  user tool_result digger
system task_updated
system task_notification completed
user tool_result
assistant text
result success
");
    let result = messages(&ended).pop().unwrap();
    assert_eq!(result["result"], "It found gold.");
    let of_main = result["usage"]["output_tokens"].as_u64();
    let usage = result["modelUsage"].as_object().unwrap().values().next();
    assert_eq!(of_main, Some(0), "{result}");
    assert_eq!(usage.unwrap()["outputTokens"], 7, "{result}");
}

/// The nearest definition of a name applies, errors are reported, and denied definitions are not offered.
#[test]
fn definitions_come_from_all_layers() {
    let world = World::new();
    let definition = |name: &str, description: &str| {
        format!("---\nname: {name}\ndescription: {description}\n---\nYou are {name}.\n")
    };
    world.write("~/.claude/agents/one.md", definition("one", "of the user"));
    world.write("~/.claude/agents/two.md", definition("two", "of the user"));
    world.write(
        ".claude/agents/deep/two.md",
        definition("two", "of the project"),
    );
    world.write(
        ".ah/agents/two.md",
        definition("two", "of the project, ours"),
    );
    world.write(".ah/agents/bad.md", "---\nname: bad\n---\nNothing.\n");
    world.write(".ah/agents/gone.md", definition("gone", "denied"));
    let server = Server::new([says("Hi.")]);
    let given = r#"{"one": {"description": "given", "prompt": "p"}}"#;
    let ended = world
        .asking(
            &server,
            ["--agents", given, "--disallowed-tools", "Task(gone)", "go"],
        )
        .run()
        .expect(0);
    assert!(
        ended
            .stderr
            .contains("bad.md:1: a subagent needs a `description`"),
        "{}",
        ended.stderr
    );
    let body = &server.requests()[0].body;
    let tools = body["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "agent").unwrap();
    let kinds = tool["description"].as_str().unwrap().lines();
    let kinds: Vec<_> = kinds
        .filter(|line| line.starts_with("- "))
        .map(|line| line.chars().take(26).collect::<String>())
        .collect();
    insta::assert_snapshot!(kinds.join("\n"), @"
- Explore: Finds things in
- general-purpose: Default
- one: given
- Plan: Plans a change, re
- two: of the project, our
");
}

/// An untrusted project cannot extend what its subagents may do, nor can any definition end the plan of a session.
#[test]
fn an_untrusted_definition_widens_nothing() {
    let world = World::new();
    world.write(
        ".ah/agents/wild.md",
        "---\nname: wild\ndescription: d\npermissionMode: acceptEdits\n---\nYou are wild.\n",
    );
    for (trust, mode, is_made) in [
        (&[] as &[_], "default", false),
        (&["--trust"], "plan", false),
        (&["--trust"], "default", true),
    ] {
        let path = world.file("made").display().to_string();
        let server = Server::new([
            delegate("wild", &json!({})),
            uses("Write", json!({"file_path": path, "content": "x"})),
            says("Written."),
            says("Done."),
        ]);
        let arguments = [
            "-p",
            "--setting-sources",
            "user,project",
            "--permission-mode",
            mode,
        ];
        let words = arguments.iter().chain(trust).copied().chain(["go"]);
        world.asking(&server, words).run().expect(0);
        assert_eq!(world.file("made").exists(), is_made, "{trust:?} {mode}");
    }
}

/// A kill during a subagent loses no stored message; the tree shows the subagent, and it resumes by its id.
#[test]
fn a_kill_in_a_subagent_leaves_what_it_has_done() {
    let world = World::new();
    let server = Server::new([
        delegate("general-purpose", &json!({})),
        uses("bash", json!({"command": "echo now > started; sleep 600"})),
        says("Back."),
    ]);
    let arguments = ["--permission-mode", "bypassPermissions", "go"];
    let running = world.asking(&server, arguments).start();
    wait_for_file(&world.file("started"));
    let ended = running.kill();
    assert_eq!(ended.signal, Some(Signal::KILL.as_raw()));
    world.asking(&server, ["go on"]).run().expect(0);
    let body = server.requests()[2].body.to_string();
    let id = body
        .split("What the subagent ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let tree = world.ah(["tree"]).run().expect(0).stdout;
    assert!(tree.contains(&format!("[{id}] Find gold.")), "{tree}");
    let branches = world.ah(["branches"]).run().expect(0).stdout;
    assert_eq!(branches.lines().count(), 1, "{branches}");

    let resume = json!({"resume": id});
    let server = Server::new([
        delegate("general-purpose", &resume),
        says("Gold after all."),
        says("Good."),
    ]);
    let ended = world.asking(&server, ["and now"]).run().expect(0);
    assert!(ended.stdout.contains("Good."), "{}", ended.stdout);
    let below = server.requests()[1].body["messages"].to_string();
    assert!(
        below.contains("echo now") && below.contains("may have run"),
        "{below}"
    );
}

/// `--agent` runs the main conversation with a definition.
#[test]
fn the_main_agent_can_be_one_of_them() {
    let world = World::new();
    let given = r#"{"brief": {"description": "d", "prompt": "You are brief.", "tools": ["Read", "Bash"],
        "model": "haiku", "maxTurns": 1, "initialPrompt": "Be quick."}}"#;
    let server = Server::new([says("Ok.")]);
    let arguments = ["--agents", given, "--agent", "brief", "go"];
    world.asking(&server, arguments).run().expect(0);
    let body = &server.requests()[0].body;
    let tools = body["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["read", "bash"]);
    assert_eq!(body["model"], "claude-haiku-5-5");
    assert!(
        body["system"].to_string().contains("You are brief."),
        "{body}"
    );
    assert!(
        body["messages"].to_string().contains("Be quick.\\n\\ngo"),
        "{body}"
    );

    let ended = world
        .asking(&server, ["--agent", "nobody", "go"])
        .run()
        .expect(2);
    assert!(
        ended.stderr.contains("there is no agent `nobody`"),
        "{}",
        ended.stderr
    );
}

pub fn control(number: &str, request: &Value) -> String {
    json!({"type": "control_request", "request_id": number, "request": request}).to_string()
}

fn stop_task(number: &str, id: &str) -> String {
    control(number, &json!({"subtype": "stop_task", "task_id": id}))
}

/// The first line so far that contains `words`.
fn line_with(running: &Running, words: &str) -> Value {
    running.wait_for_output(words);
    let so_far = running.output_so_far();
    let line = so_far.lines().find(|line| line.contains(words));
    serde_json::from_str(line.unwrap()).unwrap()
}

pub fn of_subtype<'a>(messages: &'a [Value], subtype: &str) -> Vec<&'a Value> {
    let is_it = |message: &&Value| message["subtype"] == subtype;
    messages.iter().filter(is_it).collect()
}

/// The texts of the tool results, in the order of the calls.
pub fn results(messages: &[Value]) -> Vec<String> {
    let results = messages
        .iter()
        .filter(|message| message["type"] == "user")
        .filter_map(|message| message.pointer("/message/content/0/content"));
    let text = |content: &Value| {
        let text = content.pointer("/0/text").unwrap_or(content);
        text.as_str().unwrap_or_default().to_owned()
    };
    results.map(text).collect()
}

/// A host stops a task by its id, and the run continues.
#[test]
fn a_host_stops_a_subagent() {
    let world = World::new();
    let server = Server::new([
        delegate("digger", &json!({})),
        hangs("Digging"),
        says("It was stopped."),
    ]);
    let mut running = host(&world, &server, []).with_silent_stdin().start();
    running.say(&initialize(&json!({})));
    running.say(PROMPT);
    server.wait_until(|seen| seen.len() == 2);
    running.say(&stop_task("2", "nobody"));
    let started = line_with(&running, "task_started");
    running.say(&stop_task("3", started["task_id"].as_str().unwrap()));
    running.wait_for_output("\"type\":\"result\"");
    running.say_no_more();
    let told = messages(&running.wait().expect(0));
    let ended = of_subtype(&told, "task_notification");
    assert_eq!(ended[0]["status"], "stopped");
    assert_eq!(told.last().unwrap()["result"], "It was stopped.");
    let is_error = |message: &Value| message.pointer("/response/error").is_some();
    assert!(
        !told.iter().any(is_error),
        "a task that has ended is stopped"
    );
}

/// The model queries a background subagent and stops it.
#[test]
fn the_model_asks_for_a_subagent_and_stops_it() {
    let world = World::new();
    let below = world.scenario("below.json", [hangs("Digging")]);
    let server = Server::new([
        delegate(
            "digger",
            &json!({"run_in_background": true, "model": below}),
        ),
        uses(
            "Bash",
            json!({"command": "until [ -e go ]; do sleep 0.01; done"}),
        ),
    ]);
    let mut running = host(&world, &server, ["--allowedTools=Bash"])
        .with_silent_stdin()
        .start();
    running.say(&initialize(&json!({})));
    running.say(PROMPT);
    // A second model that knows the id, which the first could not.
    let started = line_with(&running, "task_started");
    let id = started["task_id"].as_str().unwrap();
    let knowing = world.scenario(
        "knowing.json",
        [
            uses("TaskOutput", json!({"task_id": id, "block": false})),
            uses("TaskStop", json!({"task_id": id})),
            uses("TaskOutput", json!({"task_id": id})),
            says("It was stopped."),
        ],
    );
    server.wait_until(|seen| seen.len() == 2);
    running.say(&control(
        "2",
        &json!({"subtype": "set_model", "model": knowing}),
    ));
    line_with(&running, "Set model to");
    world.write("go", "");
    running.wait_for_output("\"type\":\"result\"");
    running.say_no_more();
    let told = messages(&running.wait().expect(0));
    let results = results(&told);
    let results: Vec<_> = results.iter().map(|text| text.replace(id, "ID")).collect();
    let launched = "The subagent `digger` works in the background as ID";
    assert!(
        results.iter().any(|text| text.starts_with(launched)),
        "{results:?}"
    );
    let of_tools: Vec<_> = results.iter().rev().take(3).rev().collect();
    assert_eq!(
        of_tools,
        [
            "[still running]",
            "stopped task ID: dig it",
            "it was stopped\n[stopped]",
        ]
    );
    assert_eq!(
        of_subtype(&told, "task_notification")[0]["status"],
        "stopped"
    );
    assert_eq!(told.last().unwrap()["result"], "It was stopped.");
}

#[test]
fn a_lead_that_waits_for_a_subagent_hears_what_the_user_says() {
    let world = World::new();
    let below = world.scenario("below.json", [hangs("Digging")]);
    let server = Server::new([
        delegate(
            "general-purpose",
            &json!({"run_in_background": true, "model": below}),
        ),
        says("I wait."),
        says("I heard you."),
    ]);
    let arguments = ["--permission-mode", "bypassPermissions", "Dig."];
    let running = world.asking(&server, arguments).start();
    running.wait_for_output("I wait.");
    world.ah(["--steer", "Hurry."]).run().expect(0);
    running.wait_for_output("I heard you.");
    running.signal(Signal::INT);
    running.wait().expect(130);
}

/// As in the SDKs, a background command is a task: the host is notified and may stop it; the model learns of its end
/// with the next request.
#[test]
fn a_host_follows_commands_in_the_background_and_stops_one() {
    let world = World::new();
    let beside = |command: &str, what: &str| {
        uses(
            "Bash",
            json!({"command": command, "description": what, "run_in_background": true}),
        )
    };
    let server = Server::new([
        beside("exit 3", "Fails"),
        beside("sleep 1000", "Sleeps"),
        says("Both are on their way."),
        says("I know."),
    ]);
    let mut running = host(&world, &server, ["--allowedTools=Bash"])
        .with_silent_stdin()
        .start();
    running.say(&initialize(&json!({})));
    running.say(PROMPT);
    running.wait_for_output("\"type\":\"result\"");
    line_with(&running, "\"status\":\"failed\",\"output_file\"");
    let sleeping = line_with(&running, "\"description\":\"Sleeps\",\"is_backgrounded\"");
    running.say(&stop_task("2", sleeping["task_id"].as_str().unwrap()));
    line_with(&running, "\"status\":\"stopped\",\"output_file\"");
    running.say(PROMPT);
    running.wait_for_output("I know.");
    running.say_no_more();
    let told = messages(&running.wait().expect(0));
    let of_tasks = ["task_started", "task_updated", "task_notification"].map(|subtype| {
        let mut lines: Vec<_> = of_subtype(&told, subtype)
            .into_iter()
            .map(|line| {
                let word = |pointer| line.pointer(pointer).unwrap_or(&Value::Null);
                let of_task = [
                    word("/task_type"),
                    word("/is_backgrounded"),
                    word("/description"),
                ];
                let of_end = [word("/status"), word("/patch/status"), word("/summary")];
                let words = of_task.into_iter().chain(of_end);
                let words = words.filter(|word| !word.is_null()).map(Value::to_string);
                words.collect::<Vec<_>>().join(" ")
            })
            .collect();
        // The order in which they end is not determined.
        lines.sort();
        format!("{subtype}: {}", lines.join(", "))
    });
    insta::assert_snapshot!(of_tasks.join("\n"), @r#"
    task_started: "local_bash" true "Fails", "local_bash" true "Sleeps"
    task_updated: "failed", "killed"
    task_notification: "failed" "ended, exit code: 3", "stopped" "stopped"
    "#);
    let last = server.requests().pop().unwrap().body.to_string();
    for words in ["(Fails) has ended: failed.", "(Sleeps) has ended: stopped."] {
        assert!(last.contains(words), "{last}");
    }
}
