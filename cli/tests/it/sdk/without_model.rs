//! What a host has done without the model: calls of servers' tools, resources, output of commands, and usage.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::host::Host;
use crate::support::binary::World;

fn servers() -> String {
    let resource =
        json!({"contents": [{"uri": "ui://page", "mimeType": "text/html", "text": "<p>"}]});
    let script = McpScript::new()
        .initialize(&json!({"capabilities": {"tools": {}, "resources": {}}}))
        .tool("greet")
        .on_call("greet", "text \"hello\"")
        .tool("fail")
        .on_call(
            "fail",
            "answer '{\"content\":[{\"type\":\"text\",\"text\":\"broken\"}],\"isError\":true}'",
        )
        .on("\"resources/read\"", &format!("answer '{resource}'"));
    json!({"mcpServers": {"s": script.config()}}).to_string()
}

#[test]
fn a_host_calls_tools_and_reads_resources_of_servers() {
    let world = World::new();
    let server = Server::new([says("done")]);
    let mut host = Host::new(&world, &server, &["--mcp-config", &servers()]);
    host.prompt("go");
    host.result();
    let answer = host.ask(
        "mcp_call",
        &json!({"tool": "mcp__s__greet", "arguments": {}}),
    );
    assert_eq!(
        answer["response"],
        json!({"content": [{"type": "text", "text": "hello"}]})
    );
    let answer = host.ask("mcp_call", &json!({"tool": "mcp__s__fail"}));
    assert_eq!(answer["error"], "broken");
    let answer = host.ask("mcp_call", &json!({"tool": "greet"}));
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("there is no tool `greet`"), "{error}");
    let page = json!({"serverName": "s", "uri": "ui://page"});
    let answer = host.ask("mcp_read_resource", &page);
    assert_eq!(answer["response"]["contents"][0]["text"], "<p>");
    // The model has no part in it.
    assert_eq!(server.requests().len(), 1);
    assert_eq!(host.end().code, Some(0));
}

#[test]
fn a_host_reads_the_output_of_a_command_in_the_background() {
    let world = World::new();
    let command = "head -c 20000 /dev/zero | tr '\\0' x; echo end; exec sleep 60";
    let input = json!({"command": command, "run_in_background": true});
    let server = Server::new([uses("Bash", input), says("started")]);
    let mut host = Host::new(&world, &server, &["--allowedTools=Bash"]);
    host.prompt("go");
    let task = host.until(|line| line["subtype"] == "task_started");
    host.result();
    let wanted = json!({"task_id": task["task_id"]});
    let output = loop {
        let answer = host.ask("get_task_output", &wanted);
        if answer["response"]["total_bytes"] == 20_004 {
            break answer["response"].clone();
        }
    };
    let text = output["output"].as_str().unwrap();
    assert_eq!(text.len(), 8 << 10);
    assert!(text.ends_with("xxxend\n"));
    assert_eq!(output["truncated"], true);
    let answer = host.ask("get_task_output", &json!({"task_id": "nobody"}));
    assert_eq!(answer["subtype"], "error");
    host.ask("stop_task", &wanted);
    assert_eq!(host.end().code, Some(0));
}

#[test]
fn usage_is_told_as_values() {
    let world = World::new();
    let server = Server::new([says("done")]);
    let mut host = Host::new(&world, &server, &[]);
    let before = host.ask("get_usage", &json!({}));
    assert_eq!(before["response"]["session"]["model_usage"], json!({}));
    host.prompt("go");
    let result = host.result();
    let usage = host.ask("get_usage", &json!({}))["response"].clone();
    assert_eq!(usage["session"]["model_usage"], result["modelUsage"]);
    assert_eq!(usage["session"]["total_cost_usd"], result["total_cost_usd"]);
    assert_eq!(usage["rate_limits_available"], false);
}

#[test]
fn servers_styles_and_subagents_are_shown_without_the_model() {
    let world = World::new();
    let server = Server::new([says("never")]);
    let mut host = Host::new(&world, &server, &["--mcp-config", &servers()]);
    for (prompt, command, expected) in [
        ("/mcp", "mcp", "- s: connected, 2 tools"),
        ("/mcp disable s", "mcp", "s: disabled"),
        ("/mcp", "mcp", "- s: disabled"),
        ("/mcp enable", "mcp", "s: enabled"),
        ("/mcp reconnect s", "mcp", "s: reconnected"),
        (
            "/mcp reconnect x",
            "mcp",
            "There's no MCP server named \"x\".",
        ),
        ("/mcp what", "mcp", "Usage: /mcp "),
        ("/output-style", "output_style", "- default (current)"),
        ("/agents", "agents", "- general-purpose: "),
    ] {
        host.prompt(prompt);
        let result = host.result();
        let text = result["result"].as_str().unwrap();
        assert!(text.contains(expected), "{prompt}: {text}");
        assert_eq!(result["local_command"], command);
    }
    assert_eq!(server.requests().len(), 0);
}
