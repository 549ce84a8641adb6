//! Questions of MCP servers to the user: the host answers them, and hooks before and after it.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

/// A server whose tool `ask` asks the user as `params` say, writes the answer to the file `answer`, and says that it is
/// done.
fn asking(params: &Value) -> String {
    let question =
        json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": params});
    let done = json!({
        "jsonrpc": "2.0",
        "method": "notifications/elicitation/complete",
        "params": {"elicitationId": "visit-1"},
    });
    let script = McpScript::new()
        .tool("ask")
        .on_call("ask", &format!("call=$id; printf '%s\\n' '{question}'"))
        .on("\"initialize\"", "echo \"$line\" >hello; answer \"$hello\"")
        .start("hello='{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}'\n")
        .on("\"q1\"", &format!("echo \"$line\" >answer; printf '%s\\n' '{done}'; id=$call; text asked"));
    json!({"mcpServers": {"s": script.config()}}).to_string()
}

fn form() -> Value {
    json!({
        "message": "Who are you?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    })
}

fn answer_of(world: &World) -> Value {
    let answer: Value = serde_json::from_str(&world.text("answer")).expect("an answer");
    answer["result"].clone()
}

#[test]
fn the_host_answers_a_servers_questions() {
    let visit = json!({
        "mode": "url", "message": "Sign in", "url": "https://example.com/", "elicitationId": "visit-1",
    });
    for (params, expected) in [
        (
            form(),
            json!({
                "subtype": "elicitation", "mcp_server_name": "s", "message": "Who are you?", "mode": "form",
                "requested_schema": form()["requestedSchema"], "property_order": ["name"],
            }),
        ),
        (
            visit,
            json!({
                "subtype": "elicitation", "mcp_server_name": "s", "message": "Sign in", "mode": "url",
                "url": "https://example.com/", "elicitation_id": "visit-1",
            }),
        ),
    ] {
        for answer in [
            json!({"action": "accept", "content": {"name": "Ada"}}),
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
        ] {
            let world = World::new();
            let server = Server::new([uses("mcp__s__ask", json!({})), says("done")]);
            let mut host = Host::new(
                &world,
                &server,
                &["--allowedTools=mcp__s", "--mcp-config", &asking(&params)],
            );
            host.prompt("go");
            let question = host.until(|line| line["request"]["subtype"] == "elicitation");
            assert_eq!(question["request"], expected);
            host.answer(&question, &answer);
            let told = host.until(|line| line["subtype"] == "elicitation_complete");
            assert_eq!(told["mcp_server_name"], "s");
            assert_eq!(told["elicitation_id"], "visit-1");
            assert_eq!(host.result()["result"], "done");
            assert_eq!(host.end().code, Some(0));
            assert_eq!(answer_of(&world), answer);
            assert!(
                world
                    .text("hello")
                    .contains(r#""elicitation":{"form":{},"url":{}}"#)
            );
        }
    }
}

#[test]
fn hooks_see_and_change_the_answer_to_a_server() {
    let world = World::new();
    let server = Server::new([uses("mcp__s__ask", json!({})), says("done")]);
    let mut host = Host::new(
        &world,
        &server,
        &["--allowedTools=mcp__s", "--mcp-config", &asking(&form())],
    );
    let hook = |id: &str| json!([{"matcher": "s", "hookCallbackIds": [id]}]);
    let hooks = json!({"Elicitation": hook("before"), "ElicitationResult": hook("after")});
    host.ask("initialize", &json!({"hooks": hooks}));
    host.prompt("go");
    let before = host.until(|line| line["request"]["callback_id"] == "before");
    let input = &before["request"]["input"];
    assert_eq!(input["hook_event_name"], "Elicitation");
    assert_eq!(input["mcp_server_name"], "s");
    assert_eq!(input["message"], "Who are you?");
    assert_eq!(input["requested_schema"], form()["requestedSchema"]);
    host.answer(&before, &json!({}));
    let question = host.until(|line| line["request"]["subtype"] == "elicitation");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    host.answer(&question, &answer);
    let after = host.until(|line| line["request"]["callback_id"] == "after");
    let input = &after["request"]["input"];
    assert_eq!(input["action"], "accept");
    assert_eq!(input["content"], json!({"name": "Ada"}));
    let change = json!({"hookEventName": "ElicitationResult", "action": "decline"});
    host.answer(&after, &json!({"hookSpecificOutput": change}));
    host.result();
    assert_eq!(answer_of(&world), json!({"action": "decline"}));
}

#[test]
fn a_hook_answers_a_server_where_nobody_can_be_asked() {
    for has_hook in [true, false] {
        let world = World::new();
        let server = Server::new([uses("mcp__s__ask", json!({})), says("done")]);
        let output = json!({
            "hookSpecificOutput": {"hookEventName": "Elicitation", "action": "accept", "content": {"name": "Eve"}},
        });
        let command = format!("echo '{output}'");
        let hooks = json!({"Elicitation": [{"hooks": [{"type": "command", "command": command}]}]});
        let settings = match has_hook {
            true => json!({"hooks": hooks}).to_string(),
            false => "{}".to_owned(),
        };
        let arguments = ["-p", "go", "-m", "sonnet", "--no-sandbox"];
        let servers = ["--mcp-config", &asking(&form()), "--settings", &settings];
        let all = arguments.into_iter().chain(servers);
        let ah = world.asking_as_typed(&server, all.chain(["--dangerously-skip-permissions"]));
        ah.run().expect(0);
        let (answer, is_announced) = match has_hook {
            true => (
                json!({"action": "accept", "content": {"name": "Eve"}}),
                true,
            ),
            false => (json!({"action": "decline"}), false),
        };
        assert_eq!(answer_of(&world), answer);
        assert_eq!(world.text("hello").contains("elicitation"), is_announced);
    }
}
