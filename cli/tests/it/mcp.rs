//! Runs with MCP servers that are shell scripts: the tools offered to the model, their results, and cleanup.

mod added;
mod at_hand;
mod fast;
mod installed;
mod outside;
mod real;
mod serve;
mod sign_in;

use ah_provider::script::format::Turn;
use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::interrupted_again_and_again::blocks;
use crate::support::binary::{Ah, Ended, World};

fn greeter() -> McpScript {
    McpScript::new()
        .start("echo >>started\n")
        .tool("greet")
        .on_call("greet", "text hello")
}

fn greet() -> Turn {
    uses("mcp__s__greet", json!({}))
}

fn config(server: &McpScript) -> String {
    json!({"mcpServers": {"s": server.config()}}).to_string()
}

fn run<'a>(world: &World, server: &Server, arguments: impl IntoIterator<Item = &'a str>) -> Ended {
    let common = ["-m", "sonnet", "go"];
    let ended = world
        .asking(server, arguments.into_iter().chain(common))
        .run()
        .expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new());
    world.assert_nothing_runs();
    ended
}

/// The tool results that the model received, each with whether it is an error.
pub fn results(server: &Server) -> Vec<(String, bool)> {
    let requests = server.requests();
    let told = blocks(&requests.last().unwrap().body);
    let results = told
        .into_iter()
        .filter(|(_, block)| block["type"] == "tool_result");
    let result = |(_, block): (_, Value)| {
        let content = &block["content"];
        let text = content
            .pointer("/0/text")
            .unwrap_or(content)
            .clone()
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (text, block["is_error"] == true)
    };
    results.map(result).collect()
}

/// The names of the tools offered in each request.
fn tools(server: &Server) -> Vec<Vec<String>> {
    let names = |body: &Value| {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        names
            .filter(|name| name.starts_with("mcp"))
            .map(str::to_owned)
            .collect()
    };
    let requests = server.requests();
    requests
        .iter()
        .map(|request| names(&request.body))
        .collect()
}

#[test]
fn a_server_is_set_in_any_place_and_the_first_counts() {
    let reply = |text: &str| {
        let server = McpScript::new()
            .tool("greet")
            .on_call("greet", &format!("text {text}"));
        config(&server)
    };
    let (typed, strict) = (reply("typed"), reply("strict"));
    for (files, arguments, expected) in [
        (&[".mcp.json"][..], &["--trust"][..], ".mcp.json"),
        (
            &[".mcp.json", ".ah/settings.json"],
            &["--trust"],
            ".ah/settings.json",
        ),
        (
            &["../home/.ah/settings.json"],
            &[],
            "../home/.ah/settings.json",
        ),
        (
            &["../home/.ah/settings.json", ".mcp.json"],
            &["--trust"],
            ".mcp.json",
        ),
        (
            &["given.json"],
            &["--mcp-config", "given.json"],
            "given.json",
        ),
        (
            &[".mcp.json"],
            &["--trust", "--mcp-config", &typed],
            "typed",
        ),
        (
            &["given.json"],
            &[
                "--mcpConfig",
                "given.json",
                "--mcp-config",
                &strict,
                "--strict-mcp-config",
            ],
            "strict",
        ),
    ] {
        let world = World::new();
        for file in files {
            world.write(file, reply(file));
        }
        let server = Server::new([greet(), says("Done.")]);
        run(&world, &server, arguments.iter().copied());
        assert_eq!(
            results(&server),
            [(expected.to_owned(), false)],
            "{files:?}"
        );
    }
}

#[test]
fn a_project_that_is_not_trusted_starts_nothing() {
    let world = World::new();
    world.write(".mcp.json", config(&greeter()));
    world.write(".claude/settings.json", config(&greeter()));
    let server = Server::new([greet(), says("Done.")]);
    let ended = run(&world, &server, []);
    assert!(ended.stderr.contains(".mcp.json"), "{}", ended.stderr);
    assert!(ended.stderr.contains("mcpServers"), "{}", ended.stderr);
    assert!(
        results(&server)[0]
            .0
            .starts_with("there is no tool `mcp__s__greet`")
    );
    assert_eq!(world.text("started"), "");
}

#[test]
fn the_first_request_waits_for_servers_and_says_for_which() {
    let world = World::new();
    let never = McpScript::new().start("sleep 1000\n");
    let servers = json!({"mcpServers": {"s": greeter().config(), "never": never.config()}});
    world.write(".mcp.json", servers.to_string());
    let mut told = Vec::new();
    // The tools are the same in every process, so a long conversation keeps its cache.
    for _ in 0..2 {
        let server = Server::new([greet(), says("Done.")]);
        let ended = world
            .asking(&server, ["--trust", "-m", "sonnet", "go"])
            .env("MCP_TIMEOUT", "1500")
            .run()
            .expect(0);
        let notice = "waiting for MCP servers, at most 10 s: never\n";
        assert!(ended.stderr.contains(notice), "{}", ended.stderr);
        told.extend(tools(&server));
    }
    assert_eq!(told, vec![["mcp_servers", "mcp__s__greet"]; 4]);
    world.assert_nothing_runs();
}

#[test]
fn the_model_can_wait_for_servers() {
    let world = World::new();
    let dead = McpScript::new().start("echo broken >&2; exit 1\n");
    let servers = json!({"mcpServers": {"s": greeter().config(), "dead": dead.config()}});
    world.write(".mcp.json", servers.to_string());
    let server = Server::new([uses("mcp_servers", json!({})), says("Done.")]);
    let ended = run(&world, &server, ["--trust"]);
    // Nobody is there who would miss its tools.
    let warning =
        "warning: the MCP server `dead` failed: it exited with code 1; last output: broken\n";
    assert_eq!(ended.stderr.matches(warning).count(), 1, "{}", ended.stderr);
    let expected =
        "dead: failed: it exited with code 1; last output: broken\ns: connected: mcp__s__greet";
    assert_eq!(results(&server), [(expected.to_owned(), false)]);
    assert_eq!(tools(&server)[1], ["mcp_servers", "mcp__s__greet"]);
}

#[test]
fn a_server_that_is_killed_in_a_call_costs_that_call() {
    let world = World::new();
    let victim = greeter()
        .tool("work")
        .on_call("work", "echo $$ >pid; sleep 1000");
    world.write(".mcp.json", config(&victim));
    world.write(
        "kill.sh",
        "until [ -s pid ]; do sleep 0.01; done; kill -9 $(cat pid)",
    );
    let server = Server::new([
        ah_testkit::script::uses_all([
            ("mcp__s__work", json!({})),
            ("bash", json!({"command": "sh kill.sh"})),
        ]),
        greet(),
        says("Done."),
    ]);
    let ended = run(
        &world,
        &server,
        ["--trust", "--tool-concurrency", "parallel"],
    );
    assert_eq!(ended.stdout, "Done.\n");
    let results = results(&server);
    assert!(
        results[0].1
            && results[0]
                .0
                .contains("the server disconnected before it responded"),
        "{results:?}"
    );
    assert_eq!(results[2], ("hello".to_owned(), false));
}

#[test]
fn ten_megabytes_are_kept_and_cut_for_the_model() {
    let world = World::new();
    let big = McpScript::new().tool("greet").on_call(
        "greet",
        r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
           head -c 10000000 /dev/zero | tr '\0' x; echo '"}]}}'"#,
    );
    world.write(".mcp.json", config(&big));
    let server = Server::new([greet(), says("Done.")]);
    run(&world, &server, ["--trust"]);
    let (text, is_error) = results(&server).remove(0);
    assert!(!is_error && text.len() < 31_000, "{}", text.len());
    assert!(
        text.contains("9970000 bytes removed from the middle"),
        "{}",
        &text[14_900..15_200]
    );
}

#[test]
fn what_may_be_called_is_a_matter_of_rules_whatever_a_server_promises() {
    let read_only = json!({"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let both = greeter().definition(read_only).on_call("look", "text seen");
    let both = config(&both);
    let look = || uses("mcp__s__look", json!({}));
    for (arguments, call, is_allowed) in [
        (&["-p"][..], greet(), false),
        (&["-p"], look(), false),
        (&["-p", "--allowedTools", "mcp__s__look"], look(), true),
        (
            &[
                "-p",
                "--permission-mode",
                "plan",
                "--allowedTools",
                "mcp__s",
            ],
            look(),
            true,
        ),
        (
            &[
                "-p",
                "--permission-mode",
                "plan",
                "--allowedTools",
                "mcp__s",
            ],
            greet(),
            false,
        ),
        (&["-p", "--allowedTools", "mcp__s__greet"], greet(), true),
        (&["-p", "--allowedTools", "mcp__s__*"], greet(), true),
        (&["-p", "--permission-mode", "plan"], greet(), false),
        (&["--disallowedTools", "mcp__s__greet"], greet(), false),
    ] {
        let world = World::new();
        let server = Server::new([call, says("Done.")]);
        let config = ["--mcp-config", &both];
        run(
            &world,
            &server,
            config.into_iter().chain(arguments.iter().copied()),
        );
        let results = results(&server);
        assert_eq!(!results[0].1, is_allowed, "{arguments:?}: {results:?}");
    }
}

#[test]
fn programs_find_the_tools_in_the_first_request() {
    let world = World::new();
    let dead = McpScript::new().start("exit 1\n");
    let servers = json!({"mcpServers": {"s": greeter().config(), "dead": dead.config()}});
    let server = Server::new([says("Done.")]);
    run(
        &world,
        &server,
        ["-p", "--mcp-config", &servers.to_string()],
    );
    assert!(tools(&server)[0].contains(&"mcp__s__greet".to_owned()));
}

#[test]
fn servers_that_cannot_be_had_are_told_of() {
    let world = World::new();
    let servers = json!({"mcpServers": {
        "my server": greeter().config(), "my_server": greeter().config(), "ours": {"type": "sdk", "name": "ours"},
    }});
    let server = Server::new([uses("mcp_servers", json!({})), says("Done.")]);
    let ended = run(&world, &server, ["--mcp-config", &servers.to_string()]);
    for part in [
        "the MCP server `my_server` is left out: its tool names would clash with those of the server `my server`",
        "the MCP server `ours` is left out: it has type `sdk`",
    ] {
        assert_eq!(ended.stderr.matches(part).count(), 1, "{}", ended.stderr);
    }
    let (told, _) = results(&server).remove(0);
    assert!(
        told.contains(
            "my server: connected: mcp__my_server__greet\nmy_server: failed: its tool names"
        ),
        "{told}"
    );
    assert_eq!(world.text("started").lines().count(), 1);
}

fn page(ah: Ah, world: &World) -> String {
    let ended = ah.run().without_panic();
    let project = world.project().canonicalize().unwrap();
    let text = format!(
        "{}{}exit code {:?}",
        ended.stdout,
        ended.stderr,
        ended.code.unwrap()
    );
    text.replace(project.to_str().unwrap(), "PROJECT")
        .replace(world.project().to_str().unwrap(), "PROJECT")
}

#[test]
fn the_command_looks_at_servers() {
    let world = World::new();
    let odd = greeter().definition(
        json!({"name": "big\u{1b}", "inputSchema": {"type": "object", "properties": {"a": {"type": "nothing"}}}}),
    );
    let servers = json!({"mcpServers": {
        "s": odd.config(),
        "remote": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}"}},
        "dead": {"command": "no-such-program", "args": ["--key", "${TRACKER_TOKEN}"], "env": {"SECRET": "literal"}},
    }});
    world.write(".mcp.json", servers.to_string());
    let ah = |line: &[&str]| world.ah(["--trust", "mcp"].into_iter().chain(line.iter().copied()));
    let shown: Vec<_> = [
        &["get", "dead"][..],
        &["get", "remote"],
        &["test", "s"],
        &["test", "dead"],
        &["test", "remote"],
        &["test", "nothing"],
    ]
    .into_iter()
    .map(|line| format!("$ ah mcp {}\n{}", line.join(" "), page(ah(line), &world)))
    .collect();
    insta::assert_snapshot!(shown.join("\n\n"), @r#"
$ ah mcp get dead
name        dead
set in      PROJECT/.mcp.json
type        stdio
reached by  no-such-program --key ${TRACKER_TOKEN}
variables   SECRET
exit code 0

$ ah mcp get remote
name        remote
set in      PROJECT/.mcp.json
type        http
reached by  https://${HOST}/mcp
headers     Authorization
exit code 0

$ ah mcp test s
s: connected (scripted 1.0)
  mcp__s__greet
  left out: big: its schema is not valid JSON Schema
exit code 0

$ ah mcp test dead
error: PROJECT/.mcp.json: the MCP server `dead` is left out: the variable TRACKER_TOKEN is not set
exit code 1

$ ah mcp test remote
error: PROJECT/.mcp.json: the MCP server `remote` is left out: the variable HOST is not set
exit code 1

$ ah mcp test nothing
error: there is no MCP server `nothing`
hint: configured: dead, remote, s
exit code 1
"#);
    let listed = ah(&["list"]).run().expect(0).stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let json: Value =
        serde_json::from_str(&ah(&["list", "--json"]).run().expect(0).stdout).unwrap();
    assert_eq!(json[0]["env"], json!(["SECRET"]));
    assert!(!json.to_string().contains("literal"));
    let json: Value =
        serde_json::from_str(&ah(&["test", "s", "--json"]).run().expect(0).stdout).unwrap();
    assert_eq!(
        (&json["state"], &json["tools"]),
        (&json!("connected"), &json!(["mcp__s__greet"]))
    );
    world.assert_nothing_runs();
}

#[test]
fn tools_and_doctor_tell_how_servers_are() {
    let world = World::new();
    let dead = McpScript::new().start("exit 1\n");
    let servers = json!({"mcpServers": {"s": greeter().config(), "dead": dead.config(), "odd": {"command": "${NOWHERE}"}}});
    world.write(".mcp.json", servers.to_string());
    let listed = world.ah(["--trust", "tools"]).run().expect(0);
    let rows: Vec<Vec<_>> = listed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        rows.iter()
            .any(|row| row[..] == ["mcp__s__greet", "mcp", "s"]),
        "{}",
        listed.stdout
    );
    for part in [
        "MCP server dead: failed: it exited with code 1",
        "the variable NOWHERE is not set",
    ] {
        assert_eq!(listed.stderr.matches(part).count(), 1, "{}", listed.stderr);
    }
    let json = world
        .ah(["--trust", "tools", "--json"])
        .run()
        .expect(0)
        .stdout;
    let json: Vec<Value> = serde_json::from_str(&json).unwrap();
    let served: Vec<_> = json
        .iter()
        .filter(|tool| tool["layer"] == "mcp")
        .map(|tool| (&tool["name"], &tool["server"]))
        .collect();
    assert_eq!(
        served,
        [
            (&json!("mcp_servers"), &json!("")),
            (&json!("mcp__s__greet"), &json!("s"))
        ]
    );

    let doctor = world.ah(["--trust", "doctor"]).run().without_panic().stdout;
    let lines: Vec<_> = doctor
        .lines()
        .filter(|line| line.split_whitespace().nth(1) == Some("mcp"))
        .collect();
    assert_eq!(lines.len(), 3, "{doctor}");
    for (line, part) in lines.iter().zip([
        "the variable NOWHERE is not set",
        "note     mcp          dead: failed: it exited with code 1",
        "ok       mcp          s: connected: 1 tool",
    ]) {
        assert!(line.contains(part), "{doctor}");
    }
    world.assert_nothing_runs();
}

#[test]
fn what_cannot_be_read_is_warned_of_and_the_rest_counts() {
    let world = World::new();
    let servers =
        json!({"mcpServers": {"s": greeter().config(), "odd": {"command": "${NOWHERE}"}}});
    world.write(".mcp.json", servers.to_string());
    world.write(
        ".ah/settings.json",
        "{\n  \"mcpServers\": {\"worse\":\n    {\"command\": [\"npx\"]}}}",
    );
    let server = Server::new([greet(), says("Done.")]);
    let ended = run(&world, &server, ["--trust"]);
    assert_eq!(results(&server), [("hello".to_owned(), false)]);
    for part in [
        "settings.json:3:",
        "the MCP server `odd` is left out: the variable NOWHERE is not set",
    ] {
        assert_eq!(ended.stderr.matches(part).count(), 1, "{}", ended.stderr);
    }
    world.write(".mcp.json", "{\n  \"mcpServers\": {,}}");
    let server = Server::new([says("Done.")]);
    let ended = run(&world, &server, ["--trust"]);
    assert!(ended.stderr.contains(".mcp.json:2:"), "{}", ended.stderr);
    for (given, code) in [("nowhere.json", 2), ("{\"mcpServers\": 1}", 2), ("{", 2)] {
        let ended = world.ah(["--mcp-config", given, "go"]).run().expect(code);
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
}
