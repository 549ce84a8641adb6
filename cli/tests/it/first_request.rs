//! The first request: what it takes, and what the model is told of the place that it works in.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::interrupted_again_and_again::blocks;
use crate::sandbox::is_missing;
use crate::support::binary::World;

/// Returns the body of the first request of a run with these arguments, in an empty folder.
fn body(arguments: &[&str]) -> Value {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let arguments = arguments.iter().copied().chain(["-m", "sonnet", "go"]);
    world.asking_as_typed(&server, arguments).run().expect(0);
    server.requests().remove(0).body
}

fn text(blocks: &Value) -> String {
    let blocks = blocks.as_array().unwrap().iter();
    let texts = blocks.map(|block| block["text"].as_str().unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_first_request_is_small() {
    for (arguments, limit) in [
        (&[][..], 6_000),
        (&["--no-sandbox"], 6_000),
        (&["--profile", "minimal"], 3_300),
        (&["--profile", "sdk"], 7_600),
        (&["-p"], 7_600),
    ] {
        let body = body(arguments);
        let bytes = body.to_string().len();
        assert!(bytes <= limit, "{arguments:?}: {bytes} bytes: {body:#}");
    }
}

/// The table accounts for the request, except for what frames its parts.
#[test]
fn what_each_part_of_a_request_takes_is_listed() {
    let world = World::new();
    world.write("AGENTS.md", "Use tabs.\n");
    let server = McpScript::new().tool("greet").config();
    let servers = json!({"mcpServers": {"s": server}}).to_string();
    let options = ["--mcp-config", &servers, "prompt", "--bytes"];
    let shown = world.ah(options).run().expect(0).stdout;
    let lines: Vec<_> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    let agents = world.file("AGENTS.md").display().to_string();
    for (kind, name) in [
        ("system", "system.md"),
        ("message", &*agents),
        ("message", "skills"),
        ("tool", "bash"),
        ("tool", "mcp__s__greet"),
    ] {
        let is_it = |line: &&Vec<&str>| line.len() > 2 && line[2..] == [kind, name];
        let line = lines.iter().find(is_it);
        let number = |at: usize| line?[at].trim_start_matches('~').parse::<usize>().ok();
        let sizes = number(0).zip(number(1));
        let is_one = |(bytes, tokens)| bytes > 20 && (bytes / 4..bytes / 3 + 1).contains(&tokens);
        assert!(sizes.is_some_and(is_one), "{name}: {shown}");
    }
    let [sum, _, "total"] = lines.last().unwrap()[..] else {
        panic!("{shown}");
    };
    let parts = world.ah(options.into_iter().chain(["--json"])).run();
    let parts: Vec<Value> = serde_json::from_str(&parts.expect(0).stdout).unwrap();
    let bytes = parts.iter().map(|part| part["bytes"].as_u64().unwrap());
    assert_eq!(bytes.sum::<u64>().to_string(), sum);
    let server = Server::new([says("Done.")]);
    let arguments = ["--mcp-config", &servers, "-m", "sonnet", "go"];
    world.asking(&server, arguments).run().expect(0);
    let body = server.requests().remove(0).body.to_string().len();
    let sum: usize = sum.parse().unwrap();
    assert!(sum < body && body < sum + 800, "{sum} of {body}");
}

#[test]
fn the_model_is_told_what_it_may_reach() {
    let line = |arguments: &[&str]| {
        let said = text(&body(arguments)["messages"][0]["content"]);
        let mut lines = said.lines().map(str::to_owned);
        lines.find(|line| line.starts_with("Sandbox: "))
    };
    let free = "Sandbox: none; commands have all permissions of the user";
    assert_eq!(line(&["--no-sandbox"]).as_deref(), Some(free));
    if is_missing() {
        return;
    }
    let known = "Sandbox: only the project and temporary folders are writable; the home directory is hidden;";
    for (arguments, network) in [
        (&["--sandbox"][..], "no network"),
        (
            &[
                "--allow-host",
                "a.example:443",
                "--allow-http",
                "b.example:80",
            ],
            "network only to a.example:443, b.example:80",
        ),
        (
            &["--sandbox=landlock", "--env", "AH_ALLOW_HOSTS"],
            "no network",
        ),
    ] {
        let expected = format!("{known} {network}");
        assert_eq!(
            line(arguments).as_deref(),
            Some(&*expected),
            "{arguments:?}"
        );
    }
}

/// Clients hide the response that says why: the result says it, whatever tool has run the command.
#[test]
fn a_refused_host_is_named_in_the_result_of_every_tool() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let knock = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT a.example:443 HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3 >/dev/null";
    let program = world.write("knock", format!("#!/bin/bash\n{knock}\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let lua = "local spawn = require(\"spawn\")\nreturn { name = \"lua_knock\", description = \"Knocks\", input_schema = {}, \
               execute = function() spawn.run({ \"./knock\" }) return \"knocked\" end }";
    world.write(".ah/tools/knock.lua", lua);
    let server = McpScript::new()
        .tool("knock")
        .on_call("knock", "./knock; text knocked");
    let servers = json!({"mcpServers": {"s": server.config()}}).to_string();
    let calls = [
        ("bash", json!({ "command": knock })),
        ("knock", json!({})),
        ("lua_knock", json!({})),
        ("mcp__s__knock", json!({})),
        ("bash", json!({ "command": "true" })),
    ];
    let turns = calls.iter().map(|(name, input)| uses(name, input.clone()));
    let model = Server::new(turns.chain([says("Done.")]));
    let arguments = [
        "-m",
        "sonnet",
        "--trust",
        "--sandbox",
        "--allowed-tools",
        "mcp__s",
        "--tool",
        "knock=./knock",
        "--mcp-config",
        &servers,
        "go",
    ];
    world.asking_as_typed(&model, arguments).run().expect(0);
    let reason = "a.example:443 is not allowed; `--allow-host a.example:443` would allow it";
    let told = blocks(&model.requests().pop().unwrap().body).into_iter();
    let results: Vec<_> = told
        .filter(|(_, block)| block["type"] == "tool_result")
        .map(|(_, block)| block["content"].to_string())
        .collect();
    for ((name, _), result) in calls.iter().zip(&results).take(4) {
        assert!(result.contains(reason), "{name}: {result}");
        assert!(result.contains("sandbox.allowHosts"), "{name}: {result}");
    }
    assert!(!results[4].contains("a.example"), "{}", results[4]);
}

/// Every session of a machine has the same system prompt and tools, whatever the folder, the commit, the time that it has and
/// the file that it is to make: a server that has read them need not read them again.
#[test]
fn sessions_begin_alike() {
    for arguments in [&[][..], &["-p"], &["--profile", "small"]] {
        let server = Server::new((0..4).map(|_| says("Done.")));
        let world = World::new();
        let ask = |folder: &str, more: &[&str]| {
            fs::create_dir_all(world.file(folder)).unwrap();
            let model = ["-n", "-m", "sonnet"].iter().chain(arguments).chain(more);
            let arguments = model.copied().chain(["go"]);
            { world.asking(&server, arguments) }
                .within(world.file(folder))
                .run()
                .expect(0);
        };
        world.write(".git/HEAD", "ref: refs/heads/main\n");
        world.write(".git/refs/heads/main", format!("{}\n", "a".repeat(40)));
        ask("one", &[]);
        ask("two", &["--timeout", "60"]);
        world.write(".git/refs/heads/main", format!("{}\n", "b".repeat(40)));
        world.write("two/plan.md", "A plan.");
        ask("two", &["--must-produce", "plan.md"]);
        world.write(".git/HEAD", "ref: refs/heads/other\n");
        ask("one", &[]);
        let begun: Vec<_> = { server.requests().into_iter() }
            .map(|request| {
                (
                    request.body["system"].clone(),
                    request.body["tools"].clone(),
                )
            })
            .collect();
        assert_eq!(begun.len(), 4);
        for other in &begun[1..] {
            assert_eq!(other, &begun[0]);
        }
    }
}
