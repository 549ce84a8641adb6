//! Servers that are added, imported and removed by commands.

use std::fs;

use ah_testkit::mcp::McpScript;
use serde_json::{Value, json};

use crate::support::binary::World;

fn script() -> String {
    let script = McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello");
    script.config()["args"][1].as_str().unwrap().to_owned()
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_server_is_added_to_the_file_of_a_scope_and_tried() {
    let script = script();
    for (scope, file) in [
        (&[][..], "../home/.ah/settings.json"),
        (&["--scope", "project"], ".mcp.json"),
        (&["--scope", "local"], ".ah/settings.local.json"),
    ] {
        let world = World::new();
        world.write(
            file,
            r#"{"z": 1, "mcpServers": {"other": {"command": "x"}}}"#,
        );
        let line = ["--trust", "mcp", "add", "s"];
        let program = [
            "--env",
            "A=b=c",
            "--allow-host",
            "a.example:443",
            "--",
            "/bin/sh",
            "-c",
            &script,
        ];
        let ended = world
            .ah([&line[..], scope, &program].concat())
            .run()
            .expect(0);
        for part in [
            "added `s` in ",
            "s: connected (scripted 1.0)\n  mcp__s__greet\n",
            "  network: ",
        ] {
            assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
        }
        let kept = read(&world.file(file));
        let entry = json!({"command": "/bin/sh", "args": ["-c", script], "env": {"A": "b=c"}, "allowHosts": ["a.example:443"]});
        assert_eq!(
            kept["mcpServers"],
            json!({"other": {"command": "x"}, "s": entry}),
            "{file}"
        );
        assert_eq!(kept["z"], 1);
        // A project's server that the user has added needs no further question.
        let answers = fs::read_to_string(world.home().join(".ah/servers.json")).unwrap_or_default();
        assert_eq!(
            answers.contains("\"allowed\": true"),
            !scope.is_empty(),
            "{answers}"
        );
        let ended = world
            .ah([&line[..], scope, &program].concat())
            .run()
            .expect(0);
        assert!(
            ended.stdout.contains("replaced `s` in "),
            "{}",
            ended.stdout
        );
        let ended = world.ah(["--trust", "mcp", "remove", "s"]).run().expect(0);
        assert!(
            ended.stdout.contains("removed `s` from "),
            "{}",
            ended.stdout
        );
        assert_eq!(
            read(&world.file(file))["mcpServers"],
            json!({"other": {"command": "x"}})
        );
        let again = world.ah(["--trust", "mcp", "remove", "s"]).run().expect(1);
        assert!(
            again.stderr.contains("there is no MCP server `s`"),
            "{}",
            again.stderr
        );
        world.assert_nothing_runs();
    }
}

/// The file does not count without trust, but it can be changed.
#[test]
fn a_server_of_a_project_is_removed_without_trust() {
    let world = World::new();
    let add = ["mcp", "add", "--scope", "project", "s", "--", "false"];
    let ended = world.ah(add).run().expect(1);
    assert!(
        ended.stderr.contains("once the folder is trusted"),
        "{}",
        ended.stderr
    );
    let file = world.file(".mcp.json");
    assert!(read(&file)["mcpServers"].get("s").is_some());
    world.ah(["mcp", "remove", "s"]).run().expect(0);
    assert_eq!(read(&file)["mcpServers"], json!({}));
    let ended = world.ah(["mcp", "remove", "s"]).run().expect(1);
    assert!(
        ended.stderr.contains("there is no MCP server `s`"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_does_not_work_is_kept_and_said() {
    let world = World::new();
    let settings = world.home().join(".ah/settings.json");
    let url = "https://tracker.example.com/mcp";
    let header = "Authorization: Bearer ${TRACKER_TOKEN}";
    let ended = world
        .ah(["mcp", "add", "tracker", url, "--header", header])
        .run()
        .expect(1);
    assert!(
        ended
            .stderr
            .contains("the variable TRACKER_TOKEN is not set"),
        "{}",
        ended.stderr
    );
    let entry = json!({"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}"}});
    assert_eq!(read(&settings)["mcpServers"]["tracker"], entry);
    let ended = world
        .ah([
            "mcp",
            "add",
            "broken",
            "--",
            "/bin/sh",
            "-c",
            "echo no key >&2; exit 3",
        ])
        .run()
        .expect(1);
    assert!(
        ended
            .stderr
            .contains("`broken` does not work yet: it exited with code 3; last output: no key"),
        "{}",
        ended.stderr
    );
    let before = fs::read_to_string(&settings).unwrap();
    for (line, part) in [
        (
            &["mcp", "add", "x", url, "--env", "A=b"][..],
            "are for programs",
        ),
        (
            &["mcp", "add", "x", "--header", "A: b", "--", "node"],
            "are for URLs",
        ),
        (&["mcp", "add", "x", url, "--header", "A"], "has no `:`"),
        (
            &["mcp", "add", "x", "--allow-host", "a.example", "--", "node"],
            "expected HOST:PORT",
        ),
        (&["mcp", "add", "x"], "URL|COMMAND"),
    ] {
        let ended = world.ah(line.iter().copied()).run().expect(2);
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(&settings).unwrap(), before);
    fs::write(&settings, "{,}").unwrap();
    let ended = world.ah(["mcp", "add", "x", "--", "node"]).run();
    assert_ne!(ended.code, Some(0));
    assert_eq!(fs::read_to_string(&settings).unwrap(), "{,}");
}

#[test]
fn servers_of_other_programs_and_of_the_registry_are_imported() {
    let world = World::new();
    let entry =
        json!({"type": "stdio", "command": "/bin/sh", "args": ["-c", script()], "alwaysAllow": []});
    let off = json!({"command": "x", "disabled": true});
    world.write(
        "mcp.json",
        json!({"servers": {"a": entry, "b": entry, "off": off}}).to_string(),
    );
    let ended = world.ah(["mcp", "import", "mcp.json"]).run().expect(0);
    for part in [
        "added `a` in ",
        "a: connected",
        "added `b` in ",
        "b: connected",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let listed = world.ah(["mcp", "list"]).run().expect(0).stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    // What is there already stays as it is.
    let settings = world.home().join(".ah/settings.json");
    let before = read(&settings);
    let again = world
        .ah(["mcp", "import", "-"])
        .stdin(json!({"mcpServers": {"a": {"command": "other"}}}).to_string())
        .run()
        .expect(0);
    let said = "`a` is already in ";
    assert!(again.stderr.contains(said), "{}", again.stderr);
    assert_eq!(read(&settings), before);
    let server = json!({"name": "io.github.a/tool", "packages": [{
        "registryType": "npm", "identifier": "tool", "version": "1.0.0", "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "TOOL_KEY", "isRequired": true, "isSecret": true}],
    }]});
    let ended = world
        .ah(["mcp", "import", "-"])
        .stdin(server.to_string())
        .run()
        .expect(1);
    assert!(
        ended.stderr.contains("the variable TOOL_KEY is not set"),
        "{}",
        ended.stderr
    );
    let kept = read(&world.home().join(".ah/settings.json"));
    let entry =
        json!({"command": "npx", "args": ["-y", "tool@1.0.0"], "env": {"TOOL_KEY": "${TOOL_KEY}"}});
    assert_eq!(kept["mcpServers"]["tool"], entry);
    world.write("odd.json", "{}");
    for (file, part) in [
        ("odd.json", "cannot import `odd.json`: no servers found"),
        ("nowhere.json", "cannot import `nowhere.json`: No such file"),
    ] {
        let ended = world.ah(["mcp", "import", file]).run().expect(1);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
