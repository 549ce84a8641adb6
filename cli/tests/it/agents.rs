//! Subagents through the real program: their definitions in all layers, their lines for a host, and what a kill leaves.

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::binary::{Ah, Ended, World, wait_for_file};

fn host<'a>(world: &World, server: &Server, more: impl IntoIterator<Item = &'a str>) -> Ah {
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

fn messages(ended: &Ended) -> Vec<Value> {
    let messages = ended.stdout.lines().map(serde_json::from_str);
    messages.collect::<Result<_, _>>().unwrap()
}

fn delegate(kind: &str, more: &Value) -> Turn {
    let mut input = json!({"description": "dig it", "prompt": "Find gold.", "subagent_type": kind});
    input
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    uses("Agent", input)
}

const PROMPT: &str = r#"{"type":"user","message":{"role":"user","content":"go"}}"#;

fn initialize(more: &Value) -> String {
    let mut request = json!({"subtype": "initialize", "agents": {
        "digger": {"description": "digs", "prompt": "You dig.", "tools": ["Bash"]},
    }});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"type": "control_request", "request_id": "1", "request": request}).to_string()
}

/// Feature row A1 and port 08 j: the host is told of a task and of what is done in it, is asked by name who wants to do
/// something, and its hooks hear of the beginning and the end.
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

/// Port 08b: of one name the nearest definition counts, faults are told, and what is denied is not there.
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
    let kinds = kinds
        .skip_while(|line| !line.starts_with("The kinds"))
        .skip(1);
    let kinds: Vec<_> = kinds
        .map(|line| line.chars().take(28).collect::<String>())
        .collect();
    insta::assert_snapshot!(kinds.join("\n"), @"
- Explore: Finds things in a
- general-purpose: For any t
- one: given
- Plan: Works out how a chan
- two: of the project, ours
");
}

/// A project that is not trusted cannot widen what its subagents may do.
#[test]
fn an_untrusted_definition_widens_nothing() {
    let world = World::new();
    world.write(
        ".ah/agents/wild.md",
        "---\nname: wild\ndescription: d\npermissionMode: acceptEdits\n---\nYou are wild.\n",
    );
    for (trust, is_made) in [(&[] as &[_], false), (&["--trust"], true)] {
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
            "default",
        ];
        let words = arguments.iter().chain(trust).copied().chain(["go"]);
        world.asking(&server, words).run().expect(0);
        assert_eq!(world.file("made").exists(), is_made, "{trust:?}");
    }
}

/// Feature row A2: a kill in the midst of a subagent loses nothing that was stored; the tree shows it, and by its id it
/// goes on.
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
    let id = body.split("What the subagent ").nth(1).unwrap();
    let id = id.split(' ').next().unwrap();
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

/// `--agent` runs the main conversation as a definition says.
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
    assert_eq!(body["model"], "claude-haiku-4-5-20251001");
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
