//! Modes in which a host is asked, and those of subagents.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

fn asks(line: &Value) -> bool {
    line["request"]["subtype"] == "can_use_tool"
}

/// In mode `plan` the host decides about each call that changes something; without a host it is refused.
#[test]
fn a_host_decides_in_mode_plan() {
    let touch = |name: &str| uses("Bash", json!({"command": format!("touch {name}")}));
    for (options, asked) in [
        (&["--permission-prompt-tool", "stdio"][..], true),
        (&[], false),
    ] {
        let world = World::new();
        let server = Server::new([touch("yes"), touch("no"), says("Done.")]);
        let plan = [
            "--permission-mode",
            "plan",
            "--allowedTools",
            "Bash(touch:*)",
        ];
        let mut host = Host::new(&world, &server, &[&plan, options].concat());
        host.prompt("go");
        if asked {
            for answer in [
                json!({"behavior": "allow"}),
                json!({"behavior": "deny", "message": "not that"}),
            ] {
                let question = host.until(asks);
                assert_eq!(question["request"]["tool_name"], "Bash");
                host.answer(&question, &answer);
            }
        }
        host.result();
        assert_eq!(host.end().code, Some(0));
        assert_eq!(world.file("yes").exists(), asked);
        assert!(!world.file("no").exists());
    }
}

/// A definition that wants more rights than the session has runs with the session's, and the host is told.
#[test]
fn a_subagent_has_no_more_rights_than_the_session() {
    let world = World::new();
    let given = json!({"digger": {
        "description": "digs", "prompt": "You dig.", "permissionMode": "bypassPermissions",
    }});
    let delegate = json!({"description": "d", "prompt": "Dig.", "subagent_type": "digger"});
    let server = Server::new([
        uses("Agent", delegate),
        uses("Bash", json!({"command": "touch dug"})),
        says("Dug."),
        says("Done."),
    ]);
    let options = ["--permission-prompt-tool", "stdio", "--agents"];
    let mut host = Host::new(
        &world,
        &server,
        &[&options[..], &[&given.to_string()]].concat(),
    );
    host.prompt("go");
    let question = host.until(asks);
    assert_eq!(question["request"]["input"]["command"], "touch dug");
    host.answer(&question, &json!({"behavior": "allow"}));
    assert_eq!(host.result()["result"], "Done.");
    let over = host.end();
    let told = over.lines.iter().map(Value::to_string);
    let told = told.filter(|line| line.contains("runs in the mode of the session"));
    assert_eq!(told.count(), 1);
    assert!(world.file("dug").exists());
}

/// The tools of a server that the host has removed or disabled are not offered any more.
#[test]
fn a_removed_servers_tools_are_not_offered() {
    let world = World::new();
    let server = Server::new([says("1"), says("2"), says("3"), says("4"), says("5")]);
    let mut host = Host::new(&world, &server, &[]);
    let config = McpScript::new().tool("greet").config();
    let set = |servers: Value| ("mcp_set_servers", json!({"servers": servers}));
    let toggle = |enabled: bool| {
        let fields = json!({"serverName": "s", "enabled": enabled});
        ("mcp_toggle", fields)
    };
    for (request, fields) in [
        set(json!({"s": config})),
        toggle(false),
        toggle(true),
        set(json!({})),
        set(json!({"s": config})),
    ] {
        assert_eq!(host.ask(request, &fields)["subtype"], "success");
        if fields["enabled"] == false {
            let answer = host.ask("mcp_reconnect", &json!({"serverName": "s"}));
            assert!(
                answer["error"].as_str().unwrap().contains("disabled"),
                "{answer}"
            );
        }
        host.prompt("go");
        host.result();
    }
    host.end();
    let offers = |body: &Value| body["tools"].to_string().contains("mcp__s__greet");
    let requests = server.requests();
    let offered: Vec<_> = requests.iter().map(|it| offers(&it.body)).collect();
    assert_eq!(offered, [true, false, true, false, true]);
}
