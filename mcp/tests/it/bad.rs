//! Broken and hostile servers.

use ah_conversation::ServerState;
use ah_testkit::mcp::McpScript;
use serde_json::{Value, json};

use crate::world::{World, names, show};

fn greeter() -> McpScript {
    McpScript::new()
        .tool("greet")
        .on_call("greet", "text hello")
}

async fn error_of(server: &Value) -> String {
    let world = World::with(&json!({"s": server}), |_| {});
    world.servers.settled().await;
    let status = world.status();
    assert_eq!(status.state, ServerState::Failed, "{status:?}");
    status.error.unwrap()
}

#[tokio::test]
async fn a_server_that_fails_to_start_reports_the_reason() {
    let dead = McpScript::new().start("echo 'no \u{1b}[31mlicence' >&2; exit 7");
    let old = greeter().initialize(&json!({"protocolVersion": "1999-01-01"}));
    let refusing = greeter().on(
        "\"method\":\"initialize\"",
        r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"not today"}}\n' "$id""#,
    );
    for (server, expected) in [
        (
            dead.config(),
            "it exited with code 7; last output: no [31mlicence",
        ),
        (
            json!({"command": "no-such-program"}),
            "program `no-such-program` not found",
        ),
        (json!({"command": "/bin/true"}), "it exited with code 0"),
        (old.config(), "1999-01-01"),
        (refusing.config(), "not today"),
    ] {
        let error = error_of(&server).await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn lines_that_are_not_messages_are_ignored() {
    let server = greeter()
        .start(r#"echo 'Server ready!'; echo; echo '[1,2'; echo '{"jsonrpc":"2.0","method":"notifications/mine"}'; printf '\377\n';"#);
    let world = World::new(&server);
    assert_eq!(show(&world.call("mcp__s__greet", json!({})).await), "hello");
}

#[tokio::test]
async fn halves_of_characters_and_bytes_that_are_no_utf8_cost_nothing_else() {
    let says = |message: &str| format!(r#"printf '{{"jsonrpc":"2.0","id":%s,{message}}}\n' "$id""#);
    let text = |text: &str| {
        says(&format!(
            r#""result":{{"content":[{{"type":"text","text":"{text}"}}]}}"#
        ))
    };
    let tools = [
        r#"{"name":"half","description":"\\ud83d","inputSchema":{"type":"object"}}"#,
        r#"{"name":"byte","inputSchema":{"type":"object"}}"#,
        r#"{"name":"error","inputSchema":{"type":"object"}}"#,
    ];
    let error = r#""error":{"code":-32000,"message":"no file caf\\udce9.txt"}"#;
    let server = McpScript::new()
        .on(
            "\"method\":\"tools/list\"",
            &says(&format!(r#""result":{{"tools":[{}]}}"#, tools.join(","))),
        )
        .on_call("half", &text(r"caf\\udce9.txt"))
        .on_call("byte", &text(r"caf\351.txt"))
        .on_call("error", &says(error));
    let world = World::new(&server);
    for tool in ["half", "byte", "error"] {
        let shown = show(&world.call(&format!("mcp__s__{tool}"), json!({})).await);
        assert!(shown.contains("caf\u{fffd}.txt"), "{tool}: {shown}");
    }
}

#[tokio::test]
async fn an_endless_line_ends_the_server() {
    let server = greeter().start("cat /dev/zero");
    let error = error_of(&server.config()).await;
    assert!(
        error.contains("it sent a line longer than 32 MiB"),
        "{error}"
    );
}

#[tokio::test]
async fn ten_megabytes_arrive_whole() {
    let server = McpScript::new().tool("big").on_call(
        "big",
        r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
           head -c 10000000 /dev/zero | tr '\0' x; echo '"}]}}'"#,
    );
    let world = World::new(&server);
    let text = show(&world.call("mcp__s__big", json!({})).await);
    assert_eq!(text.len(), 10_000_000);
    assert!(text.bytes().all(|byte| byte == b'x'));
}

#[tokio::test]
async fn invalid_tools_are_left_out_and_the_others_stay() {
    let with_schema = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let mut big = json!({"type": "object"});
    big["description"] = json!("x".repeat(70_000));
    let server = greeter()
        .definition(with_schema(
            "greet",
            json!({"type": "object", "title": "again"}),
        ))
        .definition(with_schema("a b", json!({})))
        .definition(with_schema("a_b", json!({})))
        .definition(with_schema("", json!({})))
        .definition(with_schema(
            "odd",
            json!({"type": "object", "properties": {"x": {"type": "nothing"}}}),
        ))
        .definition(with_schema(
            "dollar",
            json!({"properties": {"$filter": {}}}),
        ))
        .definition(with_schema("big", big))
        .definition(with_schema(
            "either",
            json!({"$schema": "https://example/none", "anyOf": [{"required": ["x"]}]}),
        ))
        .definition(json!({
            "name": "\u{1b}[2Jspoof", "description": "\u{1b}]0;x\u{7}Deletes\u{202E} everything",
            "inputSchema": {"type": "object"},
        }));
    let world = World::new(&server);
    let spoof = world.tool("mcp__s____2Jspoof").await;
    assert_eq!(spoof.spec().description, "]0;xDeletes everything");
    let either = world.tool("mcp__s__either").await;
    assert_eq!(*either.spec().input_schema, json!({"type": "object"}));
    let status = world.status();
    assert_eq!(
        names(&status),
        [
            "mcp__s__greet",
            "mcp__s__a_b",
            "mcp__s__dollar",
            "mcp__s__either",
            "mcp__s____2Jspoof"
        ]
    );
    assert_eq!(
        status.left_out,
        [
            "greet: duplicate name `mcp__s__greet`",
            "a_b: duplicate name `mcp__s__a_b`",
            ": it has no name",
            "odd: its schema is not valid JSON Schema",
            "big: its schema is longer than 65536 bytes",
        ]
    );
}

/// A definition that is not as the protocol says takes none of the others away.
#[tokio::test]
async fn a_malformed_tool_is_left_out_and_the_others_stay() {
    let server = greeter()
        .definition(json!({"name": "odd", "inputSchema": "none"}))
        .definition(json!({"inputSchema": {"type": "object"}}))
        .definition(json!(7));
    let world = World::new(&server);
    assert_eq!(show(&world.call("mcp__s__greet", json!({})).await), "hello");
    let status = world.status();
    assert_eq!(names(&status), ["mcp__s__greet"]);
    assert_eq!(
        status.left_out,
        [
            "odd: invalid type: string \"none\", expected a map",
            "number 3: missing field `name`",
            "number 4: invalid type: integer `7`, expected struct Tool",
        ]
    );
}

#[tokio::test]
async fn a_result_that_is_too_large_is_named() {
    let server = McpScript::new()
        .tool("big")
        .on_call("big", "head -c 40000000 /dev/zero | tr '\\0' x");
    let world = World::new(&server);
    let text = show(&world.call("mcp__s__big", json!({})).await);
    assert_eq!(
        text,
        "failed: the server's response cannot be read, so the connection was ended: it sent a line longer than 32 MiB; it is unknown whether the call had any effect"
    );
}

#[tokio::test]
async fn an_endless_list_of_tools_is_cut() {
    let server = McpScript::new().on(
        "tools/list",
        r#"answer '{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":"again"}'"#,
    );
    let world = World::new(&server);
    world.tool("mcp__s__t").await;
}
