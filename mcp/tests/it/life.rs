//! Working servers: calls, resources, start, restart and end.

use std::path::Path;
use std::time::Duration;

use ah_conversation::{Access, Input, ServerState, Servers};
use ah_testkit::mcp::McpScript;
use serde_json::json;

use crate::world::{HANG, World, eventually, names, run, show};

fn greeter() -> McpScript {
    McpScript::new()
        .tool("greet")
        .on_call("greet", "text \"$GREETING\"")
}

#[tokio::test]
async fn tools_are_listed_and_called_and_their_errors_returned() {
    let server = greeter()
        .tool("fail")
        .tool("refuse")
        .on_call("fail", r#"answer '{"isError":true,"content":[{"type":"text","text":"no luck"}]}'"#)
        .on_call("refuse", r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad arguments"}}\n' "$id""#);
    let world = World::new(&server);
    assert_eq!(show(&world.call("mcp__s__greet", json!({})).await), "hello");
    assert_eq!(
        show(&world.call("mcp__s__fail", json!({})).await),
        "failed: no luck"
    );
    assert_eq!(
        show(&world.call("mcp__s__refuse", json!({})).await),
        "failed: bad arguments"
    );
    let status = world.status();
    assert_eq!(status.state, ServerState::Connected);
    let software = status.software.as_ref().unwrap();
    assert_eq!((&*software.name, &*software.version), ("scripted", "1.0"));
    assert_eq!(
        names(&status),
        ["mcp__s__greet", "mcp__s__fail", "mcp__s__refuse"]
    );
}

#[tokio::test]
async fn a_server_sees_the_variables_of_child_processes_and_its_own_but_no_secrets() {
    let server = McpScript::new()
        .tool("env")
        .on_call("env", "text \"$GREETING/$MY_TOKEN/$MINE\"");
    let mut given = server.config();
    given["env"] = json!({"MINE": "${MY_TOKEN}", "GREETING": "${NOBODY:-hi}"});
    let world = World::with(&json!({"plain": server.config(), "given": given}), |_| {});
    assert_eq!(
        show(&world.call("mcp__plain__env", json!({})).await),
        "hello//"
    );
    assert_eq!(
        show(&world.call("mcp__given__env", json!({})).await),
        "hi//secret"
    );
}

#[tokio::test]
async fn a_read_only_hint_counts_as_a_promise() {
    let tool = |name: &str, annotations: serde_json::Value| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations});
    let server = McpScript::new()
        .definition(tool("look", json!({"readOnlyHint": true})))
        .definition(tool(
            "change",
            json!({"readOnlyHint": false, "destructiveHint": false}),
        ))
        .tool("silent");
    let world = World::new(&server);
    for (name, expected) in [
        ("mcp__s__look", Access::Promised),
        ("mcp__s__change", Access::Unknown),
        ("mcp__s__silent", Access::Unknown),
    ] {
        let tool = world.tool(name).await;
        let input = Input::Object(serde_json::Map::new());
        assert_eq!(tool.access(&input), [expected], "{name}");
    }
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_starts() {
    let server = greeter().start("until [ -e go ]; do sleep 0.01; done");
    let world = World::new(&server);
    assert_eq!(world.status().state, ServerState::Pending);
    let (output, ()) = tokio::join!(world.call_early("MCP__S__greet"), async {
        std::fs::write(world.path("go"), "").unwrap();
    });
    assert_eq!(show(&output), "hello");
    for (name, is_there) in [
        ("mcp__s__Greet", true),
        ("mcp__s__wave", false),
        ("mcp__other__greet", false),
    ] {
        assert_eq!(world.servers.find(name).is_some(), is_there, "{name}");
    }
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_names_the_known_ones() {
    let server = greeter().start("until [ -e go ]; do sleep 0.01; done");
    let world = World::new(&server);
    let (output, ()) = tokio::join!(world.call_early("mcp__s__wave"), async {
        std::fs::write(world.path("go"), "").unwrap();
    });
    assert_eq!(
        show(&output),
        "failed: there is no tool `mcp__s__wave`; tools of its server: mcp__s__greet"
    );
}

#[tokio::test]
async fn responses_are_matched_to_requests_by_id() {
    let server = McpScript::new()
        .tool("first")
        .tool("second")
        .on_call("first", "held=$id")
        .on_call("second", "text two; id=$held; text one");
    let world = World::new(&server);
    let (first, second) = (
        world.tool("mcp__s__first").await,
        world.tool("mcp__s__second").await,
    );
    let (one, two) = tokio::join!(run(&first, json!({})), run(&second, json!({})));
    assert_eq!(
        (show(&one), show(&two)),
        ("one".to_owned(), "two".to_owned())
    );
}

#[tokio::test]
async fn a_changed_list_of_tools_is_loaded() {
    let list = |names: &str| format!(r#"answer '{{"tools":[{names}]}}'"#);
    let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let server = McpScript::new()
        .start("n=0\n")
        .on(
            "tools/list",
            &format!(
                "n=$((n+1)); if [ $n = 1 ]; then {}; else {}; fi",
                list(&tool("change")),
                list(&[tool("change"), tool("new")].join(","))
            ),
        )
        .on_call(
            "change",
            r#"text done; echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#,
        );
    let world = World::new(&server);
    world.call("mcp__s__change", json!({})).await;
    let before = world.servers.version();
    eventually("new tool", || {
        (world.status().tools.len() == 2).then_some(())
    })
    .await;
    assert!(world.servers.version() >= before);
    world.tool("mcp__s__new").await;
}

#[tokio::test]
async fn servers_end_with_the_session() {
    let server = greeter().start("echo $$ >pid; sleep 1000 & echo $! >child;");
    let world = World::new(&server);
    world.tool("mcp__s__greet").await;
    let World { folder, servers } = world;
    drop(servers);
    for name in ["pid", "child"] {
        let pid = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let path = format!("/proc/{}", pid.trim());
        eventually("end of the server", || {
            (!Path::new(&path).exists()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_fails_the_call_and_is_restarted() {
    let server = greeter()
        .tool("crash")
        .on_call("crash", "echo ouch >&2; exit 3");
    let world = World::new(&server);
    let crash = world.tool("mcp__s__crash").await;
    assert_eq!(
        show(&run(&crash, json!({})).await),
        "failed: the server disconnected before it responded; it is unknown whether the call had any effect"
    );
    assert_eq!(show(&world.call("mcp__s__greet", json!({})).await), "hello");
}

#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let server = McpScript::new()
        .tool("hang")
        .on_call("hang", "echo \"$id\" >asked")
        .on("notifications/cancelled", "echo \"$line\" >cancelled");
    let world = World::new(&server);
    let tool = world.tool("mcp__s__hang").await;
    let call = tokio::spawn(async move { run(&tool, json!({})).await });
    let asked = eventually("the call", || {
        world.text("asked").strip_suffix('\n').map(str::to_owned)
    })
    .await;
    call.abort();
    let sent = eventually("the cancellation", || {
        Some(world.text("cancelled")).filter(|text| text.ends_with('\n'))
    })
    .await;
    assert!(sent.contains(&format!("\"requestId\":{asked}")), "{sent}");
}

#[tokio::test]
async fn progress_restarts_the_timeout_of_a_call() {
    let progress = r#"token=${line#*\"progressToken\":}; token=${token%%[,\}]*}
        for i in 1 2 3 4 5 6; do
            printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}\n' "$token" $i
            sleep 0.25
        done; text done"#;
    let server = McpScript::new()
        .tool("slow")
        .tool("silent")
        .on_call("slow", progress)
        .on_call("silent", ":")
        .on("notifications/cancelled", "echo \"$line\" >cancelled");
    let mut config = server.config();
    config["timeout"] = json!(1_000);
    let world = World::with(&json!({"s": config}), |_| {});
    assert_eq!(show(&world.call("mcp__s__slow", json!({})).await), "done");
    assert_eq!(
        show(&world.call("mcp__s__silent", json!({})).await),
        "failed: no response and no progress for 1 s, so the call was cancelled; it is unknown whether the call had any effect"
    );
    eventually("the cancellation", || {
        world
            .text("cancelled")
            .contains("request timeout")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn resources_are_listed_and_read_by_tools_and_by_hosts() {
    let server = greeter()
        .initialize(
            &json!({"capabilities": {"resources": {}}, "instructions": "Greet \u{1b}[1mfirst."}),
        )
        .on(
            "resources/list",
            r#"answer '{"resources":[{"uri":"note://1","name":"one","mimeType":"text/plain"}]}'"#,
        )
        .on(
            "resources/templates/list",
            r#"answer '{"resourceTemplates":[{"uriTemplate":"note://{n}","name":"n"}]}'"#,
        )
        .on(
            "note://2",
            r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"there is no note 2"}}\n' "$id""#,
        )
        .on(
            "resources/read",
            r#"answer '{"contents":[{"uri":"note://1","text":"remember"}]}'"#,
        );
    let world = World::with(
        &json!({"s": server.config(), "other": greeter().config()}),
        |_| {},
    );
    assert_eq!(
        show(&world.call("mcp_resources", json!({})).await),
        "{\"server\":\"s\",\"uri\":\"note://1\",\"name\":\"one\",\"mimeType\":\"text/plain\"}\n\
         {\"server\":\"s\",\"uriTemplate\":\"note://{n}\",\"name\":\"n\"}"
    );
    let read = json!({"server": "s", "uri": "note://1"});
    assert_eq!(
        show(&world.call("mcp_read", read.clone()).await),
        "[resource note://1]\nremember"
    );
    let details = world
        .call("mcp_resources", json!({"server": "s"}))
        .await
        .details;
    let resource =
        json!({"server": "s", "uri": "note://1", "name": "one", "mimeType": "text/plain"});
    assert_eq!(details.unwrap(), json!([resource]), "without the templates");
    let listed = world.servers.resources("s").await.unwrap();
    assert_eq!(
        listed,
        [
            resource,
            json!({"server": "s", "uriTemplate": "note://{n}", "name": "n"})
        ]
    );
    let contents = json!({"uri": "note://1", "text": "remember"});
    let details = world.call("mcp_read", read).await.details;
    assert_eq!(details.unwrap(), json!({"contents": [contents]}));
    assert_eq!(
        world.servers.read_resource("s", "note://1").await,
        Ok(vec![contents])
    );
    assert_eq!(
        world.servers.read_resource("s", "note://2").await,
        Err("there is no note 2".to_owned())
    );
    let elsewhere = json!({"server": "nobody"});
    assert_eq!(
        show(&world.call("mcp_resources", elsewhere).await),
        "failed: there is no server `nobody`; servers with resources: s"
    );
    // The instructions of a server reach the model.
    let overview = world.tool("mcp_servers").await;
    let description = &overview.spec().description;
    assert!(
        description.ends_with("\n\nInstructions of s:\nGreet [1mfirst."),
        "{description}"
    );
    assert_eq!(
        show(&run(&overview, json!({})).await),
        "other: connected: mcp__other__greet\ns: connected, without tools"
    );
}

#[tokio::test]
async fn denied_tools_are_hidden() {
    let world = World::with(&json!({"s": greeter().tool("wave").config()}), |options| {
        options.denied = vec![
            "mcp__s__wave".parse().unwrap(),
            "mcp_servers".parse().unwrap(),
        ];
    });
    world.servers.settled().await;
    let names: Vec<_> = world
        .servers
        .tools()
        .iter()
        .map(|tool| tool.spec().name.clone())
        .collect();
    assert_eq!(names, ["mcp__s__greet"]);
}

#[tokio::test]
async fn a_server_that_is_too_slow_fails() {
    let server = greeter().start("sleep 1000");
    let world = World::with(&json!({"s": server.config()}), |options| {
        options.start_timeout = Duration::from_millis(300);
    });
    assert_eq!(
        show(&world.call_early("mcp__s__greet").await),
        "failed: the MCP server `s` is not available: it did not start within 0.3 s"
    );
}

/// The server answers about its prompts only after a call.
#[tokio::test]
async fn tools_do_not_wait_for_prompts() {
    let list = r#"answer '{"prompts":[{"name":"plan","arguments":[{"name":"city"}]}]}'"#;
    let server = McpScript::new()
        .initialize(&json!({"capabilities": {"tools": {}, "prompts": {}, "completions": {}}}))
        .on(
            "prompts/list",
            &format!("if [ -n \"$called\" ]; then {list}; else listing=$id; fi"),
        )
        .on(
            "completion/complete",
            "answer '{\"completion\":{\"values\":[\"Rome\"]}}'",
        )
        .tool("greet")
        .on_call(
            "greet",
            &format!("text hello; called=1; if [ -n \"$listing\" ]; then id=$listing; {list}; fi"),
        );
    let world = World::new(&server);
    assert_eq!(show(&world.call("mcp__s__greet", json!({})).await), "hello");
    world.servers.prompts_known(HANG).await;
    let prompts = world.servers.prompts();
    assert_eq!(prompts[0].command(), "s:plan");
    let wish = prompts[0].completion("Ro").unwrap();
    assert_eq!(world.servers.complete(&wish).await, ["Rome"]);
}
