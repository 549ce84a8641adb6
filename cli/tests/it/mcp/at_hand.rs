//! What a person takes from servers while typing: prompts, resources, and answers to their questions.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::config;
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// A server with a prompt of two arguments, a resource, and a tool that asks.
fn guide() -> McpScript {
    let prompts = json!({"prompts": [{
        "name": "trip plan", "description": "Plans a trip",
        "arguments": [{"name": "city", "required": true}, {"name": "days"}],
    }]});
    let message =
        json!({"role": "user", "content": {"type": "text", "text": "Plan a trip, please."}});
    let contents = json!({"contents": [{"uri": "map://rome", "text": "The map of Rome."}]});
    let question = json!({"jsonrpc": "2.0", "id": 99, "method": "elicitation/create", "params": {
        "message": "Which seat?", "requestedSchema": {"type": "object", "properties": {
            "seat": {"type": "string", "enum": ["window", "aisle"]},
        }},
    }});
    let listed = json!({"resources": [
        {"uri": "map://rome", "name": "Rome"}, {"uri": "map://oslo", "name": "Oslo"},
    ]});
    let proposed = json!({"completion": {"values": ["Rome", "Roskilde by the sea"]}});
    McpScript::new()
        .initialize(&json!({"capabilities": {
            "tools": {}, "prompts": {}, "resources": {}, "completions": {},
        }}))
        .on("prompts/list", &format!("answer '{prompts}'"))
        .on(
            "prompts/get",
            &format!(
                "echo \"$line\" >asked; answer '{}'",
                json!({"messages": [message]})
            ),
        )
        .on("resources/read", &format!("answer '{contents}'"))
        .on("resources/list", &format!("answer '{listed}'"))
        .on(
            "resources/templates/list",
            "answer '{\"resourceTemplates\":[]}'",
        )
        .on(
            "completion/complete",
            &format!("echo \"$line\" >>completed; answer '{proposed}'"),
        )
        .tool("book")
        .on_call("book", &format!("call=$id; printf '%s\\n' '{question}'"))
        .on(
            "\"id\":99",
            "echo \"$line\" >answered; id=$call; text booked",
        )
}

#[test]
fn a_prompt_of_a_server_is_called_like_a_command() {
    let world = World::new();
    let server = Server::new([says("Here it is.")]);
    let config = config(&guide());
    let ended = world
        .asking(
            &server,
            ["--mcp-config", &config, "/s:trip_plan Rome 3 days"],
        )
        .run()
        .expect(0);
    assert_eq!(ended.stdout, "Here it is.\n");
    let asked = world.text("asked");
    for part in [
        "\"name\":\"trip plan\"",
        "\"city\":\"Rome\"",
        "\"days\":\"3 days\"",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let request = server.requests().remove(0).body.to_string();
    assert!(request.contains("Plan a trip, please."), "{request}");
    assert!(!request.contains("trip_plan"), "{request}");

    let ended = world
        .asking(&server, ["--mcp-config", &config, "/s:trip_plan"])
        .run();
    let ended = ended.expect(2);
    assert!(
        ended.stderr.contains("/s:trip_plan needs: CITY [DAYS]"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_resource_of_a_server_is_named_like_a_file() {
    let world = World::new();
    let server = Server::new([says("I see.")]);
    let words = "look at @s:map://rome, not at @t:map://rome";
    let line = ["--mcp-config", &config(&guide()), words];
    world.asking(&server, line).run().expect(0);
    let request = server.requests().remove(0).body.to_string();
    for part in ["The map of Rome.", "map://rome", words] {
        assert!(request.contains(part), "{part}: {request}");
    }
    assert_eq!(request.matches("The map of Rome.").count(), 1);
}

#[test]
fn a_program_calls_prompts_of_servers_as_a_person_does() {
    for called in ["/s:trip_plan Rome 3", "/mcp__s__trip_plan Rome 3"] {
        let world = World::new();
        let server = Server::new([says("Here it is.")]);
        let line = ["-p", "--mcp-config", &config(&guide()), called];
        let ended = world.asking(&server, line).run().expect(0);
        assert_eq!(ended.stdout, "Here it is.\n");
        let request = server.requests().remove(0).body.to_string();
        assert!(
            request.contains("Plan a trip, please."),
            "{called}: {request}"
        );
        assert!(
            world.text("asked").contains("\"city\":\"Rome\""),
            "{called}"
        );
    }
}

#[test]
fn what_a_server_knows_is_completed_while_one_types() {
    let world = World::new();
    let server = Server::new([says("Here it is.")]);
    let config = config(&guide());
    let line = ["-m", "sonnet", "--mcp-config", &config];
    let mut seat = Seat::take(world.asking(&server, line));
    seat.types("/s:trip_plan Ro");
    seat.sees("Roskilde by the sea");
    seat.types("\t");
    seat.sees("/s:trip_plan Rome");
    let completed = world.text("completed");
    let parts = [
        "\"name\":\"city\"",
        "\"value\":\"Ro\"",
        "\"name\":\"trip plan\"",
    ];
    let mut asked = completed.lines();
    let is_asked = asked.any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(is_asked, "{completed}");
    seat.types("\x15");
    seat.types("look at @s:map://o");
    seat.sees("@s:map://oslo");
    seat.types("\t");
    seat.types("\r");
    seat.sees("Here it is.");
    let request = server.requests().remove(0).body.to_string();
    assert!(request.contains("look at @s:map://oslo"), "{request}");
}

#[test]
fn a_server_asks_the_person_in_the_conversation() {
    let world = World::new();
    let server = Server::new([uses("mcp__s__book", json!({})), says("It is booked.")]);
    let config = config(&guide());
    let line = ["-m", "sonnet", "--mcp-config", &config];
    let mut seat = Seat::take(world.asking(&server, line));
    seat.types("/s:");
    seat.sees("/s:trip_plan");
    seat.sees("CITY [DAYS] Plans a trip");
    seat.types("\x15");
    seat.says("book a seat");
    seat.sees("Which seat?");
    seat.sees("Answer?");
    seat.types("y\r");
    seat.sees("aisle");
    seat.sees("A number");
    seat.types("2\r");
    seat.sees("It is booked.");
    let answered = world.text("answered");
    assert!(answered.contains("\"seat\":\"aisle\""), "{answered}");
}

#[test]
fn a_server_asks_the_person_at_the_terminal() {
    let world = World::new();
    let server = Server::new([uses("mcp__s__book", json!({})), says("It is booked.")]);
    let line = ["--mcp-config", &config(&guide()), "book a seat"];
    let ended = world.asking(&server, line).stdin("y\n-\n").at_terminal();
    let ended = ended.run().expect(0);
    for part in [
        "MCP server s",
        "Which seat?",
        "It asks for: seat",
        "Do not enter passwords",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert!(world.text("answered").contains("\"action\":\"accept\""));
}
