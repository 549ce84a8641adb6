//! Servers of a host program, and changes that a host makes to servers while a session runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Context, Interface, ProgressSink, ServerState, ServerStatus, Servers, ServersChange,
};
use ah_mcp::{SdkHost, SdkPipe};
use ah_testkit::mcp::McpScript;
use futures_util::{future, sink, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::world::{HANG, World, eventually, names, run, run_with, show};

/// Messages that a host has received, each with the name of its server.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(String, Value)>>>);

impl Received {
    fn methods(&self) -> Vec<String> {
        let received = self.0.lock();
        let method = |(server, message): &(String, Value)| {
            let method = message["method"].as_str().unwrap_or("response");
            format!("{server} {method}")
        };
        received.iter().map(method).collect()
    }

    fn count(&self, method: &str) -> usize {
        let methods = self.methods();
        methods
            .iter()
            .filter(|known| known.ends_with(method))
            .count()
    }
}

/// Creates a host whose servers respond to a message with the values of `respond`, in order; `None` ends the server.
fn host(
    respond: impl Fn(&Value) -> Vec<Option<Value>> + Send + Sync + 'static,
) -> (SdkHost, Received) {
    let received = Received::default();
    let (log, respond) = (received.clone(), Arc::new(respond));
    let host = SdkHost::new(move |name| {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (name, log, respond) = (name.to_owned(), log.clone(), respond.clone());
        let to_host = sink::unfold(sender, move |sender, message: Value| {
            log.0.lock().push((name.clone(), message.clone()));
            for response in respond(&message) {
                // It fails if the client has disconnected.
                let _ = sender.send(response);
            }
            future::ready(Ok(sender))
        });
        let from_host = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await??, receiver))
        });
        SdkPipe {
            to_host: Box::pin(to_host),
            from_host: Box::pin(from_host),
        }
    });
    (host, received)
}

/// Responds as a server of the SDKs does; its one tool returns its argument.
fn usual(message: &Value) -> Vec<Option<Value>> {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": false}},
            "serverInfo": {"name": "calc", "version": "1.0.0"},
        }),
        Some("tools/list") => json!({"tools": [{
            "name": "say", "description": "Says it", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        }]}),
        Some("tools/call") => {
            let text = message["params"]["arguments"]["t"].as_str().unwrap();
            json!({"content": [{"type": "text", "text": format!("<{text}>")}], "isError": text == "no"})
        }
        // The SDKs acknowledge what needs no answer.
        _ => return vec![Some(json!({"jsonrpc": "2.0", "result": {}}))],
    };
    vec![Some(
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    )]
}

fn sdk(name: &str) -> Value {
    json!({"type": "sdk", "name": name})
}

/// Starts one server of the host, called `calc`.
fn world(host: SdkHost) -> World {
    World::with(&json!({"calc": sdk("calc")}), |options| {
        options.host = Some(host);
        options.interface = Interface::AgentSdk;
    })
}

#[tokio::test]
async fn all_messages_go_over_the_pipe_of_the_host() {
    let (host, received) = host(usual);
    let world = world(host);
    world.servers.ready(HANG).await;
    let tools = world.servers.tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(names, ["mcp__calc__say"], "without a tool that waits");
    let said = world.call("mcp__calc__say", json!({"t": "α😀"})).await;
    assert_eq!(show(&said), "<α😀>");
    let failed = world.call("mcp__calc__say", json!({"t": "no"})).await;
    assert_eq!(show(&failed), "failed: <no>");
    assert_eq!(
        received.methods(),
        [
            "calc initialize",
            "calc notifications/initialized",
            "calc tools/list",
            "calc tools/call",
            "calc tools/call",
        ]
    );
    let received = received.0.lock();
    let (first, call) = (&received[0].1, &received[3].1);
    assert_eq!(
        (&first["id"], &first["params"]["protocolVersion"]),
        (&json!(0), &json!("2025-11-25"))
    );
    assert_eq!(
        (&call["id"], &call["params"]["arguments"]),
        (&json!(2), &json!({"t": "α😀"}))
    );
    let meta = &call["params"]["_meta"];
    assert_eq!(meta["claudecode/toolUseId"], "call");
    assert!(meta["progressToken"].is_number(), "{meta}");
}

#[tokio::test]
async fn a_server_is_told_the_span_of_a_call() {
    let (host, received) = host(usual);
    let world = world(host);
    let tool = world.tool("mcp__calc__say").await;
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let context = Context {
        variables: vec![("TRACEPARENT".to_owned(), span.to_owned())],
        ..Context::new(PathBuf::from("/nowhere"))
    };
    run_with(&tool, json!({"t": "x"}), context).await;
    let received = received.0.lock();
    let (_, call) = received.last().unwrap();
    assert_eq!(call["params"]["_meta"]["traceparent"], span);
}

#[tokio::test]
async fn the_status_has_state_configuration_and_tools() {
    let (host, _) = host(usual);
    let hangs = McpScript::new().start("sleep 1000");
    let mut program = McpScript::new().tool("t").config();
    program["env"] = json!({"TOKEN": "${MY_TOKEN}"});
    let servers = json!({
        "calc": sdk("calc"), "hangs": hangs.config(), "off": program,
        "odd": {"command": "no-such-program", "args": ["${MY_TOKEN}"]},
    });
    let world = World::with(&servers, |options| options.host = Some(host));
    let is_pending = |one: &ServerStatus| one.state == ServerState::Pending;
    eventually("start", || {
        let pending = world.servers.status().into_iter().filter(is_pending);
        (pending.count() == 1).then_some(())
    })
    .await;
    world.servers.toggle("off", false).unwrap();
    let status = world.servers.status();
    let states: Vec<_> = status
        .iter()
        .map(|one| (&*one.name, one.state.as_str()))
        .collect();
    assert_eq!(
        states,
        [
            ("calc", "connected"),
            ("hangs", "pending"),
            ("odd", "failed"),
            ("off", "disabled")
        ],
        "only a server over HTTP can be in the state needs-auth"
    );
    assert_eq!(status[0].config, sdk("calc"));
    assert_eq!(
        status[2].config,
        json!({"type": "stdio", "command": "no-such-program", "args": ["${MY_TOKEN}"]}),
        "variables are not expanded"
    );
    assert!(!serde_json::to_string(&status).unwrap().contains("secret"));
    let tool = &status[0].tools[0];
    assert_eq!(
        (&*tool.own_name, &*tool.name, &*tool.description),
        ("say", "mcp__calc__say", "Says it")
    );
    assert_eq!(
        (tool.read_only, tool.destructive, tool.open_world),
        (Some(true), None, Some(false))
    );
}

fn set(servers: Value) -> BTreeMap<String, Value> {
    serde_json::from_value(servers).unwrap()
}

fn change(added: &[&str], removed: &[&str], errors: &[(&str, &str)]) -> ServersChange {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let errors = errors
        .iter()
        .map(|(name, error)| ((*name).to_owned(), (*error).to_owned()));
    ServersChange {
        added: owned(added),
        removed: owned(removed),
        errors: errors.collect(),
    }
}

#[tokio::test]
async fn setting_servers_adds_removes_and_replaces_only_those_that_differ() {
    let (host, received) = host(usual);
    let file = McpScript::new().tool("t").config();
    let other = McpScript::new().tool("u").config();
    let world = World::with(&json!({"calc": sdk("calc"), "file": file}), |options| {
        options.host = Some(host);
    });
    let servers = &world.servers;
    servers.settled().await;
    for (wanted, expected) in [
        (
            json!({"calc": sdk("calc"), "more": sdk("more"), "dead": {"command": "no-such-program"}}),
            change(
                &["dead", "more"],
                &[],
                &[("dead", "program `no-such-program` not found")],
            ),
        ),
        (
            json!({"calc": sdk("calc"), "more": sdk("more"), "odd": {"command": "${NOWHERE}"}}),
            change(
                &[],
                &["dead"],
                &[("odd", "the variable NOWHERE is not set")],
            ),
        ),
        (json!({"more": other}), change(&["more"], &["calc"], &[])),
        (json!({"file": file, "more": other}), change(&[], &[], &[])),
        (json!({}), change(&[], &["file", "more"], &[])),
    ] {
        let before = servers.version();
        let changed = servers.set(set(wanted.clone())).await;
        assert_eq!(changed, expected, "{wanted}");
        let is_same = changed.added.is_empty() && changed.removed.is_empty();
        assert_eq!(servers.version() == before, is_same, "{wanted}");
        if wanted["more"] == other {
            world.tool("mcp__more__u").await;
            world.tool("mcp__file__t").await;
        }
    }
    assert!(servers.tools().is_empty());
    assert!(servers.find("mcp__calc__say").is_none());
    assert_eq!(
        received.count("initialize"),
        2,
        "an unchanged server is not restarted"
    );
}

#[tokio::test]
async fn a_call_of_a_server_that_is_removed_fails() {
    let (host, received) = host(|message| match message["method"].as_str() {
        Some("tools/call") => Vec::new(),
        _ => usual(message),
    });
    let world = world(host);
    let tool = world.tool("mcp__calc__say").await;
    let called = tool.clone();
    let call = tokio::spawn(async move { run(&called, json!({"t": "x"})).await });
    eventually("the call", || {
        (received.count("tools/call") == 1).then_some(())
    })
    .await;
    world.servers.set(BTreeMap::new()).await;
    assert_eq!(
        show(&call.await.unwrap()),
        "failed: the server disconnected before it responded; it is unknown whether the call had any effect"
    );
    assert_eq!(
        show(&run(&tool, json!({"t": "x"})).await),
        "failed: the MCP server `calc` is not available: it was removed"
    );
}

#[tokio::test]
async fn reconnecting_restarts_a_server_and_toggling_only_hides_its_tools() {
    let (host, received) = host(usual);
    let server = McpScript::new().start("echo $$ >>started\n").tool("t");
    let servers =
        json!({"s": server.config(), "calc": sdk("calc"), "dead": {"command": "no-such-program"}});
    let world = World::with(&servers, |options| options.host = Some(host));
    let servers = &world.servers;
    servers.settled().await;
    for name in ["s", "calc"] {
        assert_eq!(servers.reconnect(name).await, Ok(()));
    }
    assert_eq!(world.text("started").lines().count(), 2);
    assert_eq!(received.count("initialize"), 2);
    let said = world.call("mcp__calc__say", json!({"t": "again"})).await;
    assert_eq!(show(&said), "<again>");
    assert_eq!(
        servers.reconnect("dead").await,
        Err("program `no-such-program` not found".to_owned())
    );
    let unknown = Err("there is no MCP server `x`; there are: calc, dead, s".to_owned());
    assert_eq!(servers.reconnect("x").await, unknown);
    assert_eq!(servers.toggle("x", false), unknown);

    servers.toggle("calc", false).unwrap();
    assert_eq!(servers.withdrawn(), ["mcp__calc__"]);
    let disabled = "the MCP server `calc` is disabled".to_owned();
    assert_eq!(servers.reconnect("calc").await, Err(disabled));
    let names: Vec<_> = servers
        .tools()
        .iter()
        .map(|tool| tool.spec().name.clone())
        .collect();
    assert_eq!(names, ["mcp_servers", "mcp__s__t"]);
    assert!(servers.find("mcp__calc__say").is_none());
    assert_eq!(world.status().state, ServerState::Disabled);
    servers.toggle("calc", true).unwrap();
    assert!(servers.withdrawn().is_empty());
    assert_eq!(world.status().state, ServerState::Connected);
    world.tool("mcp__calc__say").await;
    assert_eq!(received.count("initialize"), 2, "the connection stayed");
}

#[tokio::test]
async fn a_host_that_closes_a_pipe_is_asked_for_another() {
    let (host, received) = host(|message| match message["method"].as_str() {
        Some("tools/call") => vec![None],
        _ => usual(message),
    });
    let world = world(host);
    let failed = world.call("mcp__calc__say", json!({"t": "x"})).await;
    assert!(
        show(&failed).starts_with("failed: the server disconnected"),
        "{failed:?}"
    );
    world.tool("mcp__calc__say").await;
    assert_eq!(received.count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_for_a_hanging_server_is_spent_only_once() {
    let (host, _) = host(|_| Vec::new());
    let world = world(host);
    let patience = Duration::from_secs(10);
    let begin = Instant::now();
    for _ in 0..3 {
        world.servers.ready(patience).await;
    }
    assert_eq!(begin.elapsed().as_secs(), 10);
    assert_eq!(world.status().state, ServerState::Pending);
}

#[tokio::test(start_paused = true)]
async fn the_list_of_tools_is_requested_at_most_once_a_second() {
    let (host, received) = host(|message| {
        let mut answers = usual(message);
        if message["method"] == "tools/list" {
            let change = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            answers.extend([Some(change.clone()), Some(change)]);
        }
        answers
    });
    let world = world(host);
    world.servers.settled().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let requests = received.count("tools/list");
    assert!((10..=23).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn progress_is_reported_at_a_limited_rate() {
    let (host, _) = host(|message| {
        let answers = usual(message);
        if message["method"] != "tools/call" {
            return answers;
        }
        let token = &message["params"]["_meta"]["progressToken"];
        let progress = |done: usize| {
            let params = json!({"progressToken": token, "progress": done, "total": 1000, "message": "at\u{1b} work"});
            Some(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        };
        (1..=1000).map(progress).chain(answers).collect()
    });
    let world = world(host);
    let tool = world.tool("mcp__calc__say").await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let context = Context {
        progress: {
            let reports = reports.clone();
            ProgressSink::new(move |progress| reports.lock().push(progress))
        },
        ..Context::new(PathBuf::from("/nowhere"))
    };
    run_with(&tool, json!({"t": "x"}), context).await;
    let reports = reports.lock();
    assert_eq!(reports.len(), 1, "no time has passed");
    assert_eq!(
        (reports[0].total, reports[0].message.as_deref()),
        (Some(1000.0), Some("at work"))
    );
}

#[tokio::test]
async fn servers_whose_tool_names_would_clash_are_not_started() {
    let (host, _) = host(usual);
    let servers = json!({"my server": sdk("a"), "my_server": sdk("b"), "my_server__x": sdk("c"), "mine": sdk("d")});
    let world = World::with(&servers, |options| options.host = Some(host));
    let refused: Vec<_> = world
        .servers
        .not_started()
        .into_iter()
        .map(|one| (one.name, one.error.unwrap()))
        .collect();
    let error = "its tool names would clash with those of the server `my server`; rename it";
    let expected = ["my_server", "my_server__x"].map(|name| (name.to_owned(), error.to_owned()));
    assert_eq!(refused, expected);
    world.servers.settled().await;
    let states: Vec<_> = world.servers.status().iter().map(|one| one.state).collect();
    let (up, down) = (ServerState::Connected, ServerState::Failed);
    assert_eq!(states, [up, up, down, down]);
    assert_eq!(names(&world.status()), ["mcp__mine__say"]);
}

#[tokio::test]
async fn the_tools_of_a_server_have_a_total_size_limit() {
    let (host, _) = host(|message| match message["method"].as_str() {
        Some("tools/list") => {
            let tools = (0..20).map(|number| {
                json!({
                    "name": format!("t{number}"),
                    "inputSchema": {"type": "object", "description": "x".repeat(50_000)},
                })
            });
            let result = json!({"tools": tools.collect::<Vec<_>>()});
            vec![Some(
                json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
            )]
        }
        _ => usual(message),
    });
    let world = world(host);
    world.servers.settled().await;
    let status = world.status();
    assert_eq!((status.tools.len(), status.left_out.len()), (10, 10));
    assert_eq!(status.left_out[0], "t10: more than 524288 bytes of tools");
}
