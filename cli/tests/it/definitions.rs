//! Effects of a subagent's definition (hooks, servers, model, skills, memory, limits), and the list of definitions.

use std::fs;
use std::os::unix::fs::symlink;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::World;

const ALLOWED: [&str; 2] = ["--permission-mode", "bypassPermissions"];

fn delegate(kind: &str) -> Turn {
    let input = json!({"description": "dig it", "prompt": "Find gold.", "subagent_type": kind});
    uses("agent", input)
}

/// The names of the tools offered in a request.
fn offered(server: &Server, request: usize) -> Vec<String> {
    let body = &server.requests()[request].body;
    let tools = body["tools"].as_array().unwrap();
    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Hooks of a definition run for that subagent only, its `Stop` hook when it has ended.
#[test]
fn hooks_of_a_definition_hold_for_it_alone() {
    let hook = |word: &str| {
        let command = format!("cat >/dev/null; echo {word} >>told");
        json!([{"hooks": [{"type": "command", "command": command}]}])
    };
    let hooks = json!({"PreToolUse": hook("call"), "Stop": hook("end")});
    let given = json!({"digger": {"description": "digs", "prompt": "You dig.", "hooks": hooks}})
        .to_string();
    let works = || uses("bash", json!({"command": "true"}));
    let (below, main) = (World::new(), World::new());
    let server = Server::new([
        works(),
        delegate("digger"),
        works(),
        says("Gold."),
        says("Done."),
    ]);
    let arguments = ["--agents", &given, "go"];
    let run = below.asking(&server, ALLOWED.into_iter().chain(arguments));
    run.run().expect(0);
    assert_eq!(below.text("told"), "call\nend\n");

    // Those of the main agent apply to the conversation.
    let server = Server::new([works(), says("Done.")]);
    let as_main = ["--agents", &given, "--agent", "digger", "go"];
    let run = main.asking(&server, ALLOWED.into_iter().chain(as_main));
    run.run().expect(0);
    assert_eq!(main.text("told"), "call\nend\n");

    let faulty = r#"{"digger": {"description": "digs", "hooks": {"Stop": [{"hooks": [{"type": "prompt"}]}]}}}"#;
    let ended = main.ah(["--agents", faulty, "agents"]).run().expect(2);
    let fault = "unknown hook type `prompt`; the types are `command` and `http`";
    assert!(ended.stderr.contains(fault), "{}", ended.stderr);
}

/// A definition's own MCP server is available to it alone, and stops with it.
#[test]
fn a_server_of_a_definition_is_its_own() {
    let world = World::new();
    let greeter = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello")
        .config();
    let given = json!({
        "guest": {"description": "greets", "prompt": "You greet.", "mcpServers": [{"s": greeter}]},
    });
    let server = Server::new([
        delegate("guest"),
        uses("mcp__s__greet", json!({})),
        says("It was said."),
        says("Done."),
    ]);
    let given = given.to_string();
    let arguments = ["--agents", &given, "go"];
    let run = world.asking(&server, ALLOWED.into_iter().chain(arguments));
    run.run().expect(0);
    let has = |request| offered(&server, request).contains(&"mcp__s__greet".to_owned());
    assert_eq!([has(0), has(1), has(3)], [false, true, false]);
    let result = server.requests()[2].body["messages"].to_string();
    assert!(result.contains("hello"), "{result}");
    world.assert_nothing_runs();
}

/// Definitions of an untrusted project run nothing.
#[test]
fn an_untrusted_definition_runs_nothing() {
    let world = World::new();
    let server = McpScript::new().start("echo >>started\n").tool("greet");
    let front = json!({
        "name": "wild",
        "description": "d",
        "hooks": {"SubagentStart": [{"hooks": [{"type": "command", "command": "echo >>started"}]}]},
        "mcpServers": [{"s": server.config()}],
    });
    world.write(
        ".ah/agents/wild.md",
        format!("---\n{front}\n---\nYou are wild.\n"),
    );
    for (trust, has_started) in [(&[] as &[_], false), (&["--trust"], true)] {
        let server = Server::new([delegate("wild"), says("Wild."), says("Done.")]);
        let sources = [
            "-p",
            "--setting-sources",
            "user,project",
            "--profile",
            "default",
        ];
        let words = ALLOWED
            .into_iter()
            .chain(sources)
            .chain(trust.iter().copied())
            .chain(["go"]);
        world.asking(&server, words).run().expect(0);
        assert_eq!(world.file("started").exists(), has_started, "{trust:?}");
    }
}

/// `ah agents` lists the source, model and tools of each definition.
#[test]
fn all_definitions_are_listed() {
    let world = World::new();
    let definition = |more: &str| {
        format!("---\nname: reviewer\ndescription: Reviews.\n{more}---\nYou review.\n")
    };
    world.write("~/.claude/agents/reviewer.md", definition("model: opus\n"));
    world.write(
        ".ah/agents/reviewer.md",
        definition("model: sonnet\ntools: read, grep\nmaxTurns: 20\nmemory: project\n"),
    );
    let given =
        r#"{"helper": {"description": "Helps.", "prompt": "p", "disallowedTools": ["Write"]}}"#;
    let listed = world.ah(["--agents", given, "agents"]).run().expect(0);
    world.write("given.json", given);
    let of_file = world.ah(["--agents", "given.json", "agents"]).run();
    assert_eq!(of_file.expect(0).stdout, listed.stdout);
    let of_ours = ["agent ", "helper ", "reviewer "];
    let lines = { listed.stdout.lines() }
        .filter(|line| of_ours.iter().any(|name| line.starts_with(name)))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    agent model tools layer from
    helper inherit all but Write command line Helps.
    reviewer sonnet read, grep project .ah/agents/reviewer.md Reviews.
    ");
    // A memory is a folder to write, which needs trust.
    let words = ["--trust", "agents", "--json"];
    let listed = world.ah(words).run().expect(0).stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let reviewer = listed
        .iter()
        .find(|agent| agent["name"] == "reviewer")
        .unwrap();
    let path = world.file(".ah/agents/reviewer.md");
    assert_eq!(reviewer["path"], json!(path.display().to_string()));
    assert_eq!(
        (
            &reviewer["model"],
            &reviewer["tools"],
            &reviewer["maxTurns"],
            &reviewer["memory"]
        ),
        (
            &json!("sonnet"),
            &json!(["read", "grep"]),
            &json!(20),
            &json!("project")
        )
    );
}

/// Undoing a prompt also undoes what subagents changed for it, in one step.
#[test]
fn what_a_subagent_changed_is_taken_back_with_its_prompt() {
    let world = World::new();
    let write = |path: &str| uses("write", json!({"path": path, "content": "new\n"}));
    let server = Server::new([
        delegate("general-purpose"),
        write("below"),
        says("Written."),
        write("above"),
        says("Done."),
    ]);
    let run = world.asking(&server, ALLOWED.into_iter().chain(["go"]));
    run.run().expect(0);
    let there = || [world.file("below").exists(), world.file("above").exists()];
    assert_eq!(there(), [true, true]);
    world.ah(["undo"]).run().expect(0);
    assert_eq!(there(), [false, false]);
    world.ah(["redo"]).run().expect(0);
    assert_eq!(there(), [true, true]);
}

/// Runs `turns` with these definitions and options, and returns the server with its requests.
fn run(
    world: &World,
    given: &Value,
    turns: impl IntoIterator<Item = Turn>,
    more: &[&str],
) -> Server {
    let server = Server::new(turns);
    let given = given.to_string();
    let arguments = ["--agents", &given, "-m", "sonnet", "go"];
    let words = ALLOWED.into_iter().chain(more.iter().copied());
    world
        .asking(&server, words.chain(arguments))
        .run()
        .expect(0);
    server
}

/// The model of the call overrides that of the definition, which overrides the parent's.
#[test]
fn the_model_is_that_of_the_call_the_definition_or_the_parent() {
    for (defined, called, expected) in [
        (None, None, "sonnet"),
        (Some("inherit"), None, "sonnet"),
        (Some("haiku"), None, "haiku"),
        (Some("haiku"), Some("opus"), "opus"),
        (Some("haiku"), Some("inherit"), "sonnet"),
    ] {
        let world = World::new();
        let given = json!({"digger": {"description": "digs", "prompt": "p", "model": defined}});
        let mut input =
            json!({"description": "dig it", "prompt": "Find gold.", "subagent_type": "digger"});
        if let Some(model) = called {
            input["model"] = json!(model);
        }
        let turns = [uses("agent", input), says("Gold."), says("Done.")];
        let server = run(&world, &given, turns, &[]);
        let model = server.requests()[1].body["model"].to_string();
        assert!(model.contains(expected), "{defined:?} {called:?}: {model}");
    }
}

/// Skills are included in full, a memory with its first 200 lines, and the tools to edit it are offered.
#[test]
fn a_definition_brings_skills_and_a_memory() {
    let world = World::new();
    world.write(
        ".claude/skills/digging/SKILL.md",
        "---\nname: digging\ndescription: How to dig.\n---\nDig deep.\n",
    );
    let memory: String = (1..=201).map(|line| format!("fact {line}.\n")).collect();
    world.write(".claude/agent-memory/digger/MEMORY.md", memory);
    let given = json!({"digger": {
        "description": "digs", "prompt": "You dig.", "tools": ["Grep"], "skills": ["digging"], "memory": "project",
    }});
    let turns = [delegate("digger"), says("Gold."), says("Done.")];
    let server = run(&world, &given, turns, &["--trust"]);
    let [main, below] = [0, 1].map(|at| server.requests()[at].body["messages"][0].to_string());
    for (words, is_there) in [
        ("Dig deep.", true),
        ("fact 200.", true),
        ("fact 201.", false),
    ] {
        assert_eq!(below.contains(words), is_there, "{words}");
        assert!(!main.contains(words), "{words}");
    }
    let mut tools = offered(&server, 1);
    tools.sort();
    assert_eq!(tools, ["edit", "grep", "read", "write"]);
}

/// A memory is a folder that may be written, and a text that is shown: that of a project's definition is no other one, and needs
/// trust.
#[test]
fn a_memory_is_no_other_folder_of_the_user() {
    let control = &["fact 1."][..];
    for (trust, link, expected) in [
        (&["--trust"][..], None, control),
        (&[], None, &[]),
        (&["--trust"], Some("digger"), &[]),
        (&["--trust"], Some("digger/MEMORY.md"), &[]),
        (&[], Some("digger"), &[]),
        (&[], Some("digger/MEMORY.md"), &[]),
    ] {
        let world = World::new();
        let docs = world.home().join("docs");
        fs::create_dir(&docs).unwrap();
        fs::write(docs.join("MEMORY.md"), "fact 1.").unwrap();
        world.write(
            ".claude/agents/digger.md",
            "---\nname: digger\ndescription: digs\nmemory: project\n---\nYou dig.\n",
        );
        let place = world.file(".claude/agent-memory");
        fs::create_dir_all(place.join("digger")).unwrap();
        match link {
            None => drop(world.write(".claude/agent-memory/digger/MEMORY.md", "fact 1.")),
            Some("digger") => {
                fs::remove_dir(place.join("digger")).unwrap();
                symlink(&docs, place.join("digger")).unwrap();
            }
            Some(name) => symlink(docs.join("MEMORY.md"), place.join(name)).unwrap(),
        }
        let path = place.join("digger/new").display().to_string();
        let server = Server::new([
            delegate("digger"),
            uses("write", json!({"path": path, "content": "x"})),
            says("Gold."),
            says("Done."),
        ]);
        let mode = ["--permission-mode", "acceptEdits"];
        let words = mode.iter().chain(trust).chain(&["go"]);
        world.asking(&server, words.copied()).run().expect(0);
        let below = server.requests()[1].body.to_string();
        let is_shown = below.contains("fact 1.");
        assert_eq!(is_shown, !expected.is_empty(), "{trust:?} {link:?}");
        assert!(!docs.join("new").exists(), "{trust:?} {link:?}");
    }
}

/// A subagent has limits of its own and shares the run's remaining ones.
#[test]
fn a_subagent_keeps_to_its_limits_and_to_those_of_the_run() {
    let world = World::new();
    let given = json!({"digger": {"description": "digs", "prompt": "You dig.", "maxTurns": 1}});
    let works = || uses("bash", json!({"command": "touch made"}));
    let turns = [delegate("digger"), works(), says("A pity.")];
    let server = run(&world, &given, turns, &[]);
    let told = server.requests()[2].body["messages"].to_string();
    assert!(told.contains("it did not finish: max_turns"), "{told}");

    let world = World::new();
    let dear = Turn {
        usage: Some(Usage {
            output_tokens: 1_000_000,
            ..Usage::default()
        }),
        ..works()
    };
    let server = Server::new([delegate("general-purpose"), dear]);
    let budget = ["--max-budget-usd", "1", "-m", "sonnet", "go"];
    let words = ALLOWED.into_iter().chain(budget);
    world.asking(&server, words).run().expect(3);
    assert_eq!(server.requests().len(), 2);
    assert!(!world.file("made").exists());
}

/// Compaction of the main conversation does not affect a subagent's conversation.
#[test]
fn a_subagent_keeps_its_words_when_the_conversation_is_summed_up() {
    let world = World::new();
    let given = json!({});
    let turns = [
        delegate("general-purpose"),
        says("Gold in the attic."),
        says("Done."),
    ];
    run(&world, &given, turns, &[]);
    let tree = world.ah(["tree"]).run().expect(0).stdout;
    let id = tree
        .split("] Find gold.")
        .next()
        .and_then(|text| text.rsplit('[').next());
    let id = id.unwrap();
    let server = Server::new([says("Gold was sought.")]);
    let prompt = r#"{"type":"user","message":{"role":"user","content":"/compact"}}"#;
    let wire = [
        "--output-format=stream-json",
        "--verbose",
        "--input-format=stream-json",
    ];
    let host = world.asking(&server, wire.into_iter().chain(["-c", "-m", "sonnet"]));
    host.stdin(prompt).run().expect(0);
    let mut input = json!({"description": "more", "prompt": "Where was it?"});
    input["resume"] = json!(id);
    let server = run(
        &world,
        &given,
        [uses("agent", input), says("There."), says("Done.")],
        &[],
    );
    let [main, below] = [0, 1].map(|at| server.requests()[at].body["messages"].to_string());
    assert!(
        main.contains("Gold was sought.") && !main.contains("attic"),
        "{main}"
    );
    assert!(
        below.contains("Find gold.") && below.contains("Gold in the attic."),
        "{below}"
    );
}

/// The built-in explore and plan subagents do not get the project's instructions; all other subagents and the main
/// agent do.
#[test]
fn the_projects_instructions_are_for_all_but_those_who_look_around() {
    let given = json!({
        "own": {"description": "d", "prompt": "p"},
        "bare": {"description": "d", "prompt": "p", "omitClaudeMd": true},
    });
    let has = |server: &Server, request: usize| {
        let first = server.requests()[request].body["messages"][0].to_string();
        first.contains("Tabs, never blanks.")
    };
    for (kind, expected) in [
        ("general-purpose", true),
        ("Explore", false),
        ("Plan", false),
        ("own", true),
        ("bare", false),
    ] {
        let world = World::new();
        world.write("AGENTS.md", "Tabs, never blanks.\n");
        let turns = [delegate(kind), says("Gold."), says("Done.")];
        let server = run(&world, &given, turns, &["--trust"]);
        assert_eq!(
            (has(&server, 0), has(&server, 1)),
            (true, expected),
            "{kind}"
        );
    }
    let world = World::new();
    world.write("AGENTS.md", "Tabs, never blanks.\n");
    let server = run(
        &world,
        &given,
        [says("Done.")],
        &["--trust", "--agent", "bare"],
    );
    assert!(has(&server, 0));
}
