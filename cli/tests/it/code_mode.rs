//! Code mode: a script by the model calls other tools, and each of its calls is under the same rules as a direct one.

use ah_provider::script::format::Turn;
use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::agents::{PROMPT, host, initialize, messages};
use crate::mcp::results;
use crate::support::binary::{World, wait_for_file};

/// The setting that offers the tool.
const ON: &str = r#"{"codeMode": true}"#;

fn script(code: &str) -> Turn {
    uses("script", json!({"code": code}))
}

/// Runs one script under these options; returns the result of its call.
fn outcome(world: &World, options: &[&str], code: &str) -> (String, bool) {
    let server = Server::new([script(code), says("Done.")]);
    let arguments = [&["--settings", ON][..], options, &["go"]].concat();
    world.asking(&server, arguments).run().expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new());
    results(&server).pop().unwrap()
}

/// Options under which nothing is allowed that no rule allows.
const STRICT: [&str; 2] = ["--permission-mode", "dontAsk"];

#[test]
fn a_script_calls_tools_and_only_what_it_says_is_sent() {
    let world = World::new();
    world.write("a.txt", "secret of a\nx\n");
    world.write("b.txt", "b\n");
    let (text, is_error) = outcome(
        &world,
        &[],
        r#"
        local hits = {}
        for path in tools.glob{pattern = "*.txt"}:gmatch("[^\n]+") do
          if tools.read{path = path}:find("x") then hits[#hits + 1] = path end
        end
        for at, result in ipairs(tools.all{{"read", {path = "b.txt"}}, {"read", {path = "none"}}}) do
          print(at, result.text ~= nil, result.error ~= nil)
        end
        local text, why = tools.write{path = "made.txt", content = "by a script"}
        return hits, text ~= nil, why
        "#,
    );
    assert_eq!(
        (text.as_str(), is_error),
        ("1\ttrue\tfalse\n2\tfalse\ttrue\n[\"a.txt\"]\ntrue", false)
    );
    assert_eq!(world.text("made.txt"), "by a script");
    // The session has all of it: an undo, an export and a tree know the calls.
    let tree = world.ah(["tree"]).run().expect(0).stdout;
    assert!(tree.contains("[script-"), "{tree}");
    let usage = world.ah(["usage"]).run().expect(0).stdout;
    assert!(!usage.contains("lua"), "{usage}");
    world.ah(["undo"]).run().expect(0);
    assert!(!world.file("made.txt").exists());
}

#[test]
fn it_is_not_offered_unless_it_is_set() {
    for (options, expected) in [
        (&[][..], false),
        (&["--settings", ON], true),
        (&["--settings", ON, "--disallowed-tools", "script"], false),
    ] {
        let world = World::new();
        let server = Server::new([says("Hi.")]);
        let arguments = [options, &["go"]].concat();
        world.asking(&server, arguments).run().expect(0);
        let tools = server.requests()[0].body["tools"].clone();
        let mut tools = tools.as_array().unwrap().iter();
        assert_eq!(tools.any(|tool| tool["name"] == "script"), expected);
    }
}

/// What a direct call may not do, a call inside may not either, however it is put.
#[test]
fn rules_apply_to_each_call_inside() {
    let world = World::new();
    world.write(".env", "KEY=very-secret\n");
    let allowed = [
        &STRICT[..],
        &[
            "--allowed-tools",
            "Bash(echo:*)",
            "--disallowed-tools",
            "Read(.env)",
        ],
    ]
    .concat();
    for (call, expected) in [
        (r#"bash{command = "echo fine"}"#, Some("fine\n")),
        (r#"Bash{command = "echo fine"}"#, Some("fine\n")),
        (r#"bash{command = "touch made"}"#, None),
        (r#"bash{command = "echo fine; touch made"}"#, None),
        (r#"write{path = "made", content = "x"}"#, None),
        (r#"read{path = ".env"}"#, None),
        (r#"grep{pattern = "KEY", path = ".env"}"#, None),
        // A tool that is not for scripts, or not there.
        (r#"script{code = "return 1"}"#, None),
        (r#"todo{todos = {}}"#, None),
        (r#"agent{description = "d", prompt = "p"}"#, None),
        (r#"ask_user{questions = {}}"#, None),
        (
            r#"tool_call{name = "bash", input = {command = "touch made"}}"#,
            None,
        ),
    ] {
        let code = format!("local text, why = tools.{call} print(text) return why and 'refused'");
        let (text, is_error) = outcome(&world, &allowed, &code);
        match expected {
            Some(expected) => assert_eq!(text, expected.trim_end(), "{call}"),
            None => assert!(text.ends_with("nil\nrefused"), "{call}: {text}"),
        }
        assert!(!is_error && !text.contains("very-secret"), "{call}: {text}");
        assert!(!world.file("made").exists(), "{call}");
    }
}

/// The state has nothing but tools, so there is no way around them.
#[test]
fn a_script_reaches_nothing_else() {
    let world = World::new();
    let code = r#"
        local found = {}
        for _, name in ipairs{"io", "os", "package", "require", "debug", "load", "loadfile", "dofile", "loadstring",
            "collectgarbage", "spawn", "fs", "http", "env", "sqlite"} do
          if _G[name] ~= nil then found[#found + 1] = name end
        end
        print(#found, table.concat(found, " "))
        print(pcall(setmetatable, {}, {__gc = function() end}))
        local _, why = pcall(string.dump, print)
        return why
    "#;
    let (text, _) = outcome(&world, &STRICT, code);
    assert!(text.starts_with("0\t\nfalse\t"), "{text}");
}

#[test]
fn a_tool_of_a_server_passes_the_same_checks() {
    let server = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello");
    let servers = json!({"mcpServers": {"s": server.config()}}).to_string();
    let code = "local text, why = tools.mcp__s__greet{} print(text) return why and 'refused'";
    for (rule, expected) in [
        ("mcp__s__greet", "hello"),
        ("mcp__other__greet", "nil\nrefused"),
    ] {
        let world = World::new();
        let options = [
            &STRICT[..],
            &["--mcp-config", &servers, "--allowed-tools", rule],
        ]
        .concat();
        assert_eq!(outcome(&world, &options, code).0, expected, "{rule}");
    }
}

#[test]
fn hooks_see_each_call_inside_and_can_refuse_it() {
    let world = World::new();
    let log = |event: &str| format!("cat >> {event}.log; echo >> {event}.log");
    let refuse = r#"grep -q forbidden && { echo "not this one" >&2; exit 2; } || exit 0"#;
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let settings = json!({"codeMode": true, "hooks": {
        "PreToolUse": [
            {"hooks": [{"type": "command", "command": log("before")}]},
            {"matcher": "bash", "hooks": [{"type": "command", "command": refuse}]},
        ],
        "PostToolUse": hook(&log("after")),
        "Stop": hook(&log("stop")),
        "SubagentStop": hook(&log("substop")),
        "UserPromptSubmit": hook(&log("prompt")),
    }});
    let server = Server::new([
        script(
            "print(tools.bash{command = 'echo one'}) return tools.bash{command = 'echo forbidden'}",
        ),
        says("Done."),
    ]);
    let settings = settings.to_string();
    world
        .asking(&server, ["--settings", &settings, "go"])
        .run()
        .expect(0);
    let (text, _) = results(&server).remove(0);
    assert!(
        text.contains("one") && text.contains("not this one"),
        "{text}"
    );
    let tools = |event: &str| {
        let text = world.text(&format!("{event}.log"));
        let told = text.lines().filter(|line| !line.is_empty());
        let told = told.map(|line| serde_json::from_str::<Value>(line).unwrap());
        told.map(|told| told["tool_name"].as_str().unwrap_or("-").to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(tools("before"), "script bash bash");
    assert_eq!(tools("after"), "bash script");
    assert_eq!(
        (tools("stop"), tools("prompt")),
        ("-".to_owned(), "-".to_owned())
    );
    assert!(!world.file("substop.log").exists());
}

#[test]
fn limits_hold_and_the_run_goes_on() {
    let world = World::new();
    world.write("a", "x");
    for (code, expected) in [
        (
            "print('so far') while true do end",
            "so far\n[the script was stopped after 200000000 instructions]",
        ),
        (
            "while true do pcall(function() while true do end end) end",
            "[the script was stopped after",
        ),
        (
            "local c = coroutine.wrap(function() while true do end end) c()",
            "[the script was stopped after",
        ),
        ("return #string.rep('x', 1 << 30)", "memory"),
        (
            "local t = {} for i = 1, 1 << 40 do t[i] = tostring(i) .. ('x'):rep(1000) end",
            "memory",
        ),
        (
            "for i = 1, 1 << 40 do print(('x'):rep(1 << 16)) end",
            "a script can print at most 4 MiB",
        ),
        (
            "local calls = {} for i = 1, 10000 do calls[i] = {'read', {path = 'a'}} end return #tools.all(calls)",
            "a script can make at most 1000 calls",
        ),
        (
            "local calls = {} for i = 1, 400 do calls[i] = {'read', {path = 'a'}} end
             for i = 1, 3 do local ok, why = pcall(tools.all, calls) print(i, ok, why) end",
            "2\ttrue\ttable",
        ),
        ("error('mine')", "mine"),
        ("this is not Lua", "syntax error"),
        ("\u{1b}Lua\u{0}", "binary chunk"),
        ("return tools.read('a')", "validation error"),
    ] {
        let (text, _) = outcome(&world, &[], code);
        assert!(text.contains(expected), "{code}: {text}");
        assert!(!text.contains("3\ttrue"), "{text}");
    }
}

/// A call that is repeated waits for something; a model that repeats itself would be stopped.
#[test]
fn the_same_call_may_be_made_again_and_again() {
    let world = World::new();
    let code = "local n = 0
        while not tools.bash{command = 'echo x >> count; test $(wc -l < count) -ge 8'} do n = n + 1 end return n";
    assert_eq!(outcome(&world, &[], code), ("7".to_owned(), false));
}

/// A kill in the middle: the model is told which calls inside have ended, and none is made again.
#[test]
fn a_kill_in_a_script_leaves_an_account() {
    let world = World::new();
    let server = Server::new([
        script(
            "tools.write{path = 'first', content = 'x'} tools.bash{command = 'echo now > started; sleep 600'}",
        ),
        says("Back."),
    ]);
    let arguments = [
        "--settings",
        ON,
        "--permission-mode",
        "bypassPermissions",
        "go",
    ];
    let running = world.asking(&server, arguments).start();
    wait_for_file(&world.file("started"));
    running.kill();
    world.asking(&server, ["go on"]).run().expect(0);
    let (text, is_error) = results(&server).remove(0);
    assert!(is_error, "{text}");
    assert!(
        text.contains("It may have run")
            && text
                .ends_with("Calls inside it that have ended: write. Others that were begun: bash."),
        "{text}"
    );
}

/// A host of an Agent SDK gets the calls below the one that made them, is asked about each, and ends the run by a denial that
/// interrupts.
#[test]
fn a_host_follows_and_is_asked() {
    for (answer, expected) in [
        (
            json!({"behavior": "allow", "updatedInput": {"command": "touch made"}}),
            "success",
        ),
        (json!({"behavior": "deny", "message": "no"}), "success"),
        (
            json!({"behavior": "deny", "message": "no", "interrupt": true}),
            "error_during_execution",
        ),
    ] {
        let world = World::new();
        let server = Server::new([
            uses(
                "Script",
                json!({"code": "return tools.Bash{command = 'touch made'} or 'refused'"}),
            ),
            says("Done."),
        ]);
        let mut running = host(&world, &server, ["--settings", ON])
            .with_silent_stdin()
            .start();
        running.say(&initialize(&json!({})));
        running.say(PROMPT);
        let mark = "\"subtype\":\"can_use_tool\"";
        running.wait_for_output(mark);
        let so_far = running.output_so_far();
        let line = so_far.lines().find(|line| line.contains(mark)).unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["request"]["tool_name"], "Bash");
        let response =
            json!({"subtype": "success", "request_id": line["request_id"], "response": answer});
        running.say(&json!({"type": "control_response", "response": response}).to_string());
        running.say_no_more();
        let ended = running.wait();
        assert_eq!(world.file("made").exists(), answer["behavior"] == "allow");
        let told = messages(&ended);
        assert_eq!(told.last().unwrap()["subtype"], expected, "{answer}");
        if answer["interrupt"] == true {
            continue;
        }
        let below = told
            .iter()
            .filter(|message| message["parent_tool_use_id"].is_string());
        let below: Vec<_> = below
            .map(|message| {
                let kind = message["message"]["content"][0]["type"].as_str();
                format!(
                    "{} {}",
                    message["type"].as_str().unwrap(),
                    kind.unwrap_or_default()
                )
            })
            .collect();
        assert_eq!(
            below,
            ["user text", "assistant tool_use", "user tool_result"]
        );
    }
}

/// Bytes of all requests of a run, and their number.
fn sent(server: &Server) -> (usize, usize) {
    let requests = server.requests();
    let bytes = requests
        .iter()
        .map(|request| request.body["messages"].to_string().len());
    (requests.len(), bytes.sum())
}

/// The figures in docs/mcp.md: twenty files are read, and the model needs one line of each.
#[test]
fn a_script_saves_requests_and_tokens() {
    let world = World::new();
    for number in 0..20 {
        let lines =
            (0..200).map(|line| format!("{line}: some setting of service {number} = {line}\n"));
        world.write(&format!("s{number}.conf"), lines.collect::<String>());
    }
    let read = |number: usize| ("read", json!({"path": format!("s{number}.conf")}));
    let run = |turns: Vec<Turn>| -> (usize, usize) {
        let server = Server::new(turns);
        let arguments = ["--settings", ON, "-n", "go"];
        world.asking(&server, arguments).run().expect(0);
        let (requests, bytes) = sent(&server);
        (requests, bytes.div_ceil(4))
    };
    let one_by_one = (0..20).map(|number| uses(read(number).0, read(number).1));
    let one_by_one = run(one_by_one.chain([says("Done.")]).collect());
    let at_once = run(vec![uses_all((0..20).map(read)), says("Done.")]);
    let by_script = run(vec![
        script(
            "for i = 0, 19 do print(tools.read{path = 's' .. i .. '.conf'}:match('[^\\n]*= 150\\n')) end",
        ),
        says("Done."),
    ]);
    println!("{one_by_one:?} {at_once:?} {by_script:?}");
    assert_eq!((one_by_one.0, at_once.0, by_script.0), (21, 2, 2));
    assert!(by_script.1 * 50 < at_once.1, "{by_script:?} {at_once:?}");
    assert!(
        by_script.1 * 500 < one_by_one.1,
        "{by_script:?} {one_by_one:?}"
    );
}
