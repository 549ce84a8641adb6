//! Permission questions answered by a tool of an MCP server (`--permission-prompt-tool mcp__SERVER__TOOL`).

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::mcp::results;
use crate::support::binary::World;

/// Has the tool answer a question about `echo asked`; returns the call's result, whether it is an error, and the server
/// of the model.
fn decided(answer: &Value) -> (String, bool, Server) {
    let world = World::new();
    let command = json!({"command": "echo asked | tee made"});
    let server = Server::new([uses("Bash", command), says("done")]);
    let text = json!({"content": [{"type": "text", "text": answer.to_string()}]});
    let script = McpScript::new()
        .tool("judge")
        .on_call("judge", &format!("echo \"$line\" >>asked; answer '{text}'"));
    let servers = json!({"mcpServers": {"s": script.config()}}).to_string();
    let arguments = ["-p", "go", "-m", "sonnet", "--no-sandbox"];
    let tool = ["--permission-prompt-tool", "mcp__s__judge"];
    let all = { arguments.into_iter() }
        .chain(tool)
        .chain(["--mcp-config", &*servers]);
    let ended = world.asking_as_typed(&server, all).run().expect(0);
    assert_eq!(ended.stdout, "done\n");
    let asked: Value = serde_json::from_str(&world.text("asked")).expect("it is asked once");
    assert_eq!(
        asked["params"]["arguments"]["input"],
        json!({"command": "echo asked | tee made"})
    );
    assert_eq!(asked["params"]["arguments"]["tool_name"], "Bash");
    let (text, is_error) = results(&server).remove(0);
    assert_eq!(world.file("made").exists(), text == "asked");
    (text, is_error, server)
}

#[test]
fn a_tool_of_a_server_decides_about_calls() {
    for (answer, result, is_error) in [
        (json!({"behavior": "allow"}), "asked", false),
        (
            json!({"behavior": "allow", "updatedInput": {"command": "echo changed"}}),
            "changed",
            false,
        ),
        (
            json!({"behavior": "deny", "message": "not today"}),
            "not today",
            true,
        ),
        (
            json!("whatever"),
            "the answer of the permission tool `mcp__s__judge` is neither",
            true,
        ),
    ] {
        let (text, failed, server) = decided(&answer);
        assert!(text.starts_with(result), "{text}");
        assert_eq!(failed, is_error, "{text}");
        // The model is not offered the tool.
        let tools = server.requests()[0].body["tools"].to_string();
        assert!(!tools.contains("judge"), "{tools}");
    }
}

#[test]
fn a_permission_tool_that_does_not_exist_denies() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "touch x"})), says("done")]);
    let script = McpScript::new().tool("judge");
    let servers = json!({"mcpServers": {"s": script.config()}}).to_string();
    let arguments = ["-p", "go", "-m", "sonnet", "--mcp-config", &*servers];
    let tool = ["--no-sandbox", "--permission-prompt-tool", "mcp__s__jugde"];
    let all = arguments.into_iter().chain(tool);
    world.asking_as_typed(&server, all).run().expect(0);
    let (text, is_error) = results(&server).remove(0);
    assert!(is_error && !world.file("x").exists());
    assert!(
        text.contains("`mcp__s__jugde` does not exist; the tools of servers are: mcp__s__judge"),
        "{text}"
    );
}
