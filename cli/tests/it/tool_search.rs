//! Tool search in a run: what many tools of a server take in a request, and how a found one is called.

use ah_testkit::mcp::McpScript;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use ah_testkit::server::messages::binding::continues;
use serde_json::{Value, json};

use crate::mcp::results;
use crate::support::binary::World;

/// Returns a configuration with a server of 100 tools, as servers describe them.
fn hundred() -> String {
    let tools = (0..100).fold(McpScript::new(), |server, number| {
        server.definition(json!({
            "name": format!("create_record_{number}"),
            "description": format!("Creates record {number} in the register of the company, with all of its fields."),
            "inputSchema": {
                "type": "object",
                "properties": {"title": {"type": "string", "description": "The title of the record"}},
                "required": ["title"],
            },
        }))
    });
    let server = tools.on_call("create_record_42", "text made");
    json!({"mcpServers": {"register": server.config()}}).to_string()
}

/// A model that takes tools at the end of a conversation, and one that does not.
const APPENDING: &str = "claude-sonnet-5-5";
const OLDER: &str = "claude-sonnet-4-6";

fn body(arguments: &[&str], variable: &str) -> Value {
    body_for(OLDER, arguments, variable)
}

fn body_for(model: &str, arguments: &[&str], variable: &str) -> Value {
    let world = World::new();
    let server = Server::new([says("Done.")]);
    let arguments = arguments.iter().copied().chain(["-m", model, "go"]);
    let ah = world.asking(&server, arguments);
    ah.env("ENABLE_TOOL_SEARCH", variable).run().expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new());
    server.requests().remove(0).body
}

fn bytes(body: &Value) -> usize {
    body.to_string().len()
}

fn names(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_hundred_tools_take_at_most_600_tokens() {
    let servers = hundred();
    for (model, manner) in [(OLDER, &[][..]), (OLDER, &["-p"]), (APPENDING, &[])] {
        let with = [manner, &["--mcp-config", &servers]].concat();
        let [without, searched] = [manner, &with].map(|arguments| body_for(model, arguments, ""));
        let tokens = (bytes(&searched) - bytes(&without)).div_ceil(4);
        assert!(
            tokens <= 600,
            "{model} {manner:?}: {tokens} tokens: {searched:#}"
        );
        let all = body_for(model, &with, "false");
        assert!(names(&all).contains(&"mcp__register__create_record_99"));
        assert!(bytes(&all) > bytes(&searched) + 15_000);
    }
    let world = World::new();
    let arguments = ["--mcp-config", &servers, "prompt", "--bytes", "--json"];
    let listed = world.ah(arguments).run().expect(0).stdout;
    assert!(listed.contains("\"tool_search\""), "{listed}");
    assert!(!listed.contains("mcp__register"), "{listed}");
}

#[test]
fn a_setting_and_a_variable_decide_about_few_tools() {
    let server = McpScript::new().tool("greet").config();
    let servers = json!({"mcpServers": {"s": server}}).to_string();
    for (setting, variable, is_searched) in [
        ("auto", "", false),
        ("on", "", true),
        ("off", "true", true),
        ("on", "false", false),
        ("on", "auto:5", false),
        ("denied", "true", false),
    ] {
        let setting = match setting {
            "denied" => json!({"permissions": {"deny": ["tool_search"]}}),
            setting => json!({"toolSearch": setting}),
        };
        let setting = setting.to_string();
        let arguments = ["--mcp-config", &servers, "--settings", &setting];
        let body = body(&arguments, variable);
        let names = names(&body);
        assert_eq!(names.contains(&"tool_search"), is_searched, "{names:?}");
        assert_eq!(names.contains(&"mcp__s__greet"), !is_searched, "{names:?}");
    }
}

/// Neither the search nor the call changes what was sent before, in whatever process.
#[test]
fn a_found_tool_is_called_under_its_own_name() {
    let servers = hundred();
    let name = "mcp__register__create_record_42";
    for (rules, expected) in [
        (&[][..], ("made", false)),
        (
            &["--disallowed-tools", "mcp__register__create_record_41"],
            ("made", false),
        ),
        (&["--disallowed-tools", name], ("there is no tool", true)),
        (
            &["--permission-mode", "dontAsk", "--allowed-tools", name],
            ("made", false),
        ),
        (&["--permission-mode", "dontAsk"], ("", true)),
    ] {
        let world = World::new();
        let call = |input: Value| uses("tool_call", json!({"name": name, "input": input}));
        let server = Server::new([
            uses("tool_search", json!({"query": "record 42"})),
            call(json!({"title": "x"})),
            says("Done."),
            says("Again."),
        ]);
        let common = ["--mcp-config", &servers, "-m", OLDER];
        let arguments = [&common[..], rules, &["go"]].concat();
        world.asking(&server, arguments).run().expect(0);
        let results = results(&server);
        let is_denied = rules == ["--disallowed-tools", name];
        assert_eq!(results[0].0.contains(name), !is_denied, "{results:?}");
        let (text, is_error) = &results[1];
        assert!(text.contains(expected.0), "{rules:?}: {results:?}");
        assert_eq!(*is_error, expected.1, "{rules:?}: {results:?}");
        let arguments = [&common[..], rules, &["once more"]].concat();
        world.asking(&server, arguments).run().expect(0);
        let requests = server.requests();
        for request in &requests {
            assert_eq!(request.body["tools"], requests[0].body["tools"]);
        }
        assert_eq!(server.refusals(), Vec::<String>::new());
    }
}

#[test]
fn wrong_input_is_answered_with_what_is_wrong() {
    let servers = hundred();
    let world = World::new();
    let server = Server::new([
        uses(
            "tool_call",
            json!({"name": "mcp__register__create_record_42", "input": {}}),
        ),
        uses("tool_call", json!({"name": "nothing", "input": {}})),
        uses("tool_search", json!({"query": "weather"})),
        says("Done."),
    ]);
    let arguments = ["--mcp-config", &servers, "-m", OLDER, "go"];
    world.asking(&server, arguments).run().expect(0);
    let results = results(&server);
    assert!(results.iter().all(|(_, is_error)| *is_error), "{results:?}");
    for ((text, _), part) in results.iter().zip([
        "\"title\" is a required property",
        "there is no tool `nothing`",
        "create_record_99",
    ]) {
        assert!(text.contains(part), "{text}");
    }
}

/// What was found is added at the end like any other new tool, and stays there for later processes and searches.
#[test]
fn a_found_tool_is_added_to_the_conversation_where_the_model_takes_that() {
    let servers = hundred();
    let name = "mcp__register__create_record_42";
    let world = World::new();
    let server = Server::new([
        uses("tool_search", json!({"query": "record 42"})),
        uses(name, json!({"title": "x"})),
        says("Done."),
        uses("tool_search", json!({"query": name})),
        says("Again."),
    ]);
    for prompt in ["go", "once more"] {
        let arguments = ["--mcp-config", &servers, "-m", APPENDING, prompt];
        world.asking(&server, arguments).run().expect(0);
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let results = results(&server);
    assert!(results[0].0.contains(name), "{results:?}");
    assert!(!results[0].0.contains("input_schema"), "{results:?}");
    assert_eq!(results[1], ("made".to_owned(), false));
    let requests = server.requests();
    let first = &requests[0].body;
    assert!(!names(first).contains(&"tool_call"), "{first:#}");
    let added = |body: &Value| {
        let definition = format!("\"definition\":{{\"name\":\"{name}\"");
        body["messages"].to_string().matches(&definition).count()
    };
    let counts: Vec<_> = requests
        .iter()
        .map(|request| added(&request.body))
        .collect();
    assert_eq!(counts, [0, 1, 1, 1, 1]);
    for (earlier, later) in requests.iter().zip(&requests[1..]) {
        assert!(continues(&later.body, &earlier.body), "{:#}", later.body);
    }
}
