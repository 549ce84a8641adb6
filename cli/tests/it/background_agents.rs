//! Background subagents through the real binary.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{hangs, says, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::agents::{PROMPT, control, delegate, host, initialize, messages, of_subtype, results};
use crate::support::binary::World;

/// In the background there are no permission questions and no tools of MCP servers.
#[test]
fn one_in_the_background_asks_nobody_and_has_no_servers() {
    let (world, below) = (
        World::new(),
        Server::new([
            uses("Bash", json!({"command": "touch made"})),
            uses(
                "AskUserQuestion",
                json!({"questions": [{
                    "question": "Which?", "header": "Which", "multiSelect": false,
                    "options": [{"label": "a", "description": "a"}, {"label": "b", "description": "b"}],
                }]}),
            ),
            says("I could not."),
        ]),
    );
    let main = Server::new([
        delegate(
            "general-purpose",
            &json!({"run_in_background": true, "model": "litellm/gpt-4o"}),
        ),
        says("It is on its way."),
        says("It could not."),
    ]);
    let greeter = McpScript::new().tool("greet").config();
    let servers = json!({"mcpServers": {"s": greeter}}).to_string();
    let mut running = host(&world, &main, ["--mcp-config", &servers])
        .env("LITELLM_BASE_URL", below.url())
        .env("LITELLM_API_KEY", "key-of-a-test")
        .with_silent_stdin()
        .start();
    running.say(&initialize(&json!({})));
    running.say(PROMPT);
    running.wait_for_output("\"type\":\"result\"");
    running.say_no_more();
    let told = messages(&running.wait().expect(0));
    assert_eq!(
        told.iter()
            .filter(|it| it["request"]["subtype"] == "can_use_tool")
            .count(),
        0
    );
    assert!(!world.file("made").exists());
    let asked = below.requests();
    let names = |body: &Value| {
        let tools = body["tools"].as_array().unwrap().iter();
        let names = tools.filter_map(|tool| tool.pointer("/function/name")?.as_str());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(names(&asked[0].body).contains(&"Bash".to_owned()));
    assert!(!names(&asked[0].body).contains(&"mcp__s__greet".to_owned()));
    let of_main = main.requests()[0].body["tools"].to_string();
    assert!(of_main.contains("mcp__s__greet"), "{of_main}");
    let ended = of_subtype(&told, "task_notification");
    assert_eq!(
        (&ended[0]["status"], &ended[0]["summary"]),
        (&json!("completed"), &json!("I could not."))
    );
}

/// Ten run at the same time, and the eleventh is refused.
#[test]
fn an_eleventh_is_refused() {
    let world = World::new();
    let below = world.scenario("below.json", [hangs("Digging")]);
    let call = json!({
        "description": "dig it", "prompt": "Find gold.", "run_in_background": true, "model": below,
    });
    let server = Server::new([
        uses_all((0..11).map(|_| ("Agent", call.clone()))),
        hangs("Ten are at work"),
    ]);
    // They never end, so they are not waited for.
    let mut running = host(&world, &server, [])
        .env("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "1")
        .with_silent_stdin()
        .start();
    running.say(&initialize(&json!({})));
    running.say(PROMPT);
    server.wait_until(|seen| seen.len() == 2);
    running.say(&control("2", &json!({"subtype": "interrupt"})));
    running.wait_for_output("\"type\":\"result\"");
    running.say_no_more();
    let told = messages(&running.wait());
    let results = results(&told);
    let count = |start: &str| results.iter().filter(|text| text.contains(start)).count();
    assert_eq!(count("works in the background"), 10);
    assert_eq!(count("10 subagents are already running"), 1);
    world.assert_nothing_runs();
}

/// An environment variable runs all subagents in the foreground.
#[test]
fn a_variable_keeps_them_in_the_foreground() {
    let world = World::new();
    let server = Server::new([
        delegate("digger", &json!({"run_in_background": true})),
        says("Gold."),
        says("It found gold."),
    ]);
    let mut running = host(&world, &server, [])
        .env("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")
        .with_silent_stdin()
        .start();
    running.say(&initialize(&json!({})));
    running.say(PROMPT);
    running.say_no_more();
    let told = messages(&running.wait().expect(0));
    assert_eq!(
        of_subtype(&told, "task_started")[0]["is_backgrounded"],
        false
    );
    assert!(results(&told).iter().any(|text| text.starts_with("Gold.")));
}
