//! Servers that speak only the revision 2026-07-28: no handshake, self-contained requests, requests of several rounds.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use ah_conversation::{Context, ProgressSink, ServerState, Servers as _};
use ah_testkit::mcp::McpScript;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::world::{World, eventually, names, run_with, show};

/// What each request of this revision has to carry.
const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;

fn discovered() -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}},
        "instructions": "Greet first.", "ttlMs": 0, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "2"}},
    })
}

/// A server on standard streams that refuses the handshake, and requests without their metadata.
fn modern() -> McpScript {
    McpScript::new()
        .start("refuse() { printf '{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"%s\"}}\\n' \"$id\" \"$1\"; }\n")
        .on("\"method\":\"initialize\"", "refuse 'no handshake'")
        .on("\"method\":\"server/discover\"", &format!("answer '{}'", discovered()))
        .tool("greet")
        .on_call("greet", &format!("case $line in *'{VERSION}'*) text hello ;; *) refuse 'no version' ;; esac"))
}

#[tokio::test]
async fn a_server_without_a_handshake_is_used() {
    let world = World::new(&modern());
    assert_eq!(show(&world.call("mcp__s__greet", json!({})).await), "hello");
    let status = world.status();
    assert_eq!(status.state, ServerState::Connected);
    let software = status.software.as_ref().unwrap();
    assert_eq!((&*software.name, &*software.version), ("modern", "2"));
    assert_eq!(names(&status), ["mcp__s__greet"]);
}

#[tokio::test]
async fn what_a_server_needs_is_answered_in_further_rounds() {
    let asks = json!({
        "resultType": "input_required", "requestState": "state-1",
        "inputRequests": {
            "where": {"method": "roots/list"},
            "who": {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}},
        },
    });
    let rounds = format!(
        r#"case $line in
        *'"requestState":"state-1"'*'{VERSION}'*|*'{VERSION}'*'"requestState":"state-1"'*) echo "$line" >round; text done ;;
        *) answer '{asks}' ;; esac"#
    );
    let model = json!({"resultType": "input_required", "inputRequests": {"m": {
        "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1},
    }}});
    let server = modern()
        .tool("ask")
        .on_call("ask", &rounds)
        .tool("think")
        .on_call("think", &format!("answer '{model}'"))
        .tool("forever")
        .on_call("forever", "echo x >>forever; answer '{\"resultType\":\"input_required\",\"requestState\":\"again\"}'");
    let world = World::new(&server);
    assert_eq!(
        show(&world.call("mcp__s__ask", json!({"a": 1})).await),
        "done"
    );
    let round: Value = serde_json::from_str(&world.text("round")).unwrap();
    let answers = &round["params"]["inputResponses"];
    assert_eq!(answers["who"], json!({"action": "decline"}));
    let root = answers["where"]["roots"][0]["uri"].as_str().unwrap();
    assert!(root.starts_with("file:///"), "{root}");
    assert_eq!(round["params"]["arguments"], json!({"a": 1}));
    let refused = show(&world.call("mcp__s__think", json!({})).await);
    assert_eq!(
        refused,
        "failed: the server asks for an answer by the model (sampling), which is not supported"
    );
    let given_up = show(&world.call("mcp__s__forever", json!({})).await);
    assert!(
        given_up.starts_with("failed: the server asks for more and more"),
        "{given_up}"
    );
    assert_eq!(world.text("forever").lines().count(), 10);
}

#[tokio::test]
async fn changes_are_listened_to() {
    let list = r#"if [ -f changed ]; then answer '{"tools":[{"name":"new","inputSchema":{"type":"object"}}]}'; else answer '{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}'; fi"#;
    let listen = r#"printf '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}\n' "$id"
        touch changed
        printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}\n' "$id""#;
    let server = modern()
        .on("\"method\":\"subscriptions/listen\"", listen)
        .on("\"method\":\"tools/list\"", list);
    let world = World::new(&server);
    world.servers.settled().await;
    let is_new = || (names(&world.status()) == ["mcp__s__new"]).then_some(());
    eventually("change", is_new).await;
}

#[tokio::test]
async fn a_task_is_followed_to_its_end_and_cancelled_with_the_call() {
    let task = |status: &str, more: &str| {
        format!(
            r#"answer '{{"resultType":"complete","taskId":"t1","status":"{status}","createdAt":"x","lastUpdatedAt":"x","ttlMs":null,"pollIntervalMs":1{more}}}'"#
        )
    };
    let created = task("working", "").replace("complete", "task");
    let asks = r#","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}"#;
    let done =
        r#","result":{"resultType":"complete","content":[{"type":"text","text":"long work"}]}"#;
    let failed = r#","error":{"code":-32603,"message":"no luck"}"#;
    let get = format!(
        r#"echo x >>polls; if [ -f forever ]; then {working}; elif [ -f failing ]; then {failed}; else
        case $(grep -c x polls) in 1) {working} ;; 2) {asking} ;; *) {done} ;; esac; fi"#,
        working = task("working", r#","statusMessage":"half way""#),
        asking = task("input_required", asks),
        failed = task("failed", failed),
        done = task("completed", done),
    );
    let server = modern()
        .on("\"method\":\"tasks/get\"", &get)
        .on("\"method\":\"tasks/update\"", "echo \"$line\" >update; answer '{\"resultType\":\"complete\"}'")
        .on("\"method\":\"tasks/cancel\"", "echo \"$line\" >cancelled; answer '{\"resultType\":\"complete\"}'")
        .tool("work")
        .on_call("work", &format!("case $line in *'io.modelcontextprotocol/tasks'*) {created} ;; *) refuse 'no tasks' ;; esac"));
    let world = World::new(&server);
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = shown.clone();
    let mut context = Context::new(PathBuf::from("/nowhere"));
    context.progress = ProgressSink::new(move |progress| seen.lock().push(progress.message));
    let tool = world.tool("mcp__s__work").await;
    assert_eq!(
        show(&run_with(&tool, json!({}), context).await),
        "long work"
    );
    assert!(shown.lock().contains(&Some("half way".to_owned())));
    let update: Value = serde_json::from_str(&world.text("update")).unwrap();
    assert_eq!(
        update["params"]["inputResponses"]["who"],
        json!({"action": "decline"})
    );
    assert_eq!(world.text("cancelled"), "");
    std::fs::write(world.path("failing"), "").unwrap();
    assert_eq!(
        show(&world.call("mcp__s__work", json!({})).await),
        "failed: no luck"
    );
    // A call that is dropped takes its task with it.
    std::fs::write(world.path("forever"), "").unwrap();
    let polls = world.text("polls").lines().count();
    let call = world.call("mcp__s__work", json!({}));
    let is_followed = || (world.text("polls").lines().count() > polls).then_some(());
    tokio::select! {
        _ = call => panic!("it never ends"),
        () = eventually("poll", is_followed) => {}
    }
    let is_cancelled = || {
        world
            .text("cancelled")
            .contains("\"taskId\":\"t1\"")
            .then_some(())
    };
    eventually("cancellation", is_cancelled).await;
}

/// A process that is killed leaves a note of each task; the next one follows it to its end.
#[tokio::test]
async fn a_task_is_followed_on_by_the_next_process() {
    let task = |status: &str, more: &str| {
        format!(
            r#"answer '{{"resultType":"complete","taskId":"t1","status":"{status}","createdAt":"x","lastUpdatedAt":"x","ttlMs":null,"pollIntervalMs":1{more}}}'"#
        )
    };
    let done =
        r#","result":{"resultType":"complete","content":[{"type":"text","text":"long work"}]}"#;
    let created = task("working", "").replace("complete", "task");
    let server = |answer: &str| {
        modern()
            .on(
                "\"method\":\"tasks/get\"",
                &format!("echo x >>polls; {answer}"),
            )
            .tool("work")
            .on_call("work", &created)
    };
    let outputs = tempfile::tempdir().unwrap();
    let note = outputs.path().join("call.task");
    let world = World::new(&server(&task("working", "")));
    let tool = world.tool("mcp__s__work").await;
    let context = || Context::new(outputs.path().join("call"));
    let is_followed = || world.text("polls").contains('x').then_some(());
    tokio::select! {
        _ = run_with(&tool, json!({}), context()) => panic!("it never ends"),
        () = eventually("poll", is_followed) => {}
    }
    assert!(
        !note.exists(),
        "a call that was dropped has cancelled its task"
    );
    // What a kill leaves behind.
    let left = json!({"server": "s", "tool": "work", "taskId": "t1"});
    let of_another = json!({"server": "gone", "tool": "work", "taskId": "t2"});
    for (name, text) in [
        ("call.task", left),
        ("b.task", of_another),
        ("c.task", json!(7)),
    ] {
        std::fs::write(outputs.path().join(name), text.to_string()).unwrap();
    }

    let servers = json!({"s": server(&task("completed", done)).config()});
    let folder = outputs.path().to_owned();
    let world = World::with(&servers, |options| options.outputs = Some(folder));
    let tool = world.tool("mcp_tasks").await;
    let about = &tool.spec().description;
    assert!(
        about.contains("`t1` (work of s)") && !about.contains("t2"),
        "{about}"
    );
    let output = run_with(&tool, json!({"task": "t2"}), context()).await;
    assert_eq!(show(&output), "failed: there is no such task");
    let output = run_with(&tool, json!({"task": "t1"}), context()).await;
    assert_eq!(show(&output), "long work");
    assert!(!note.exists());
    let tools = world.servers.tools();
    assert!(tools.iter().all(|tool| tool.spec().name != "mcp_tasks"));
}

/// A list that the server lets be kept is not asked for again before its time, and one that it does not is.
#[tokio::test]
async fn what_may_be_kept_is_kept() {
    for (hint, asked) in [
        ("\"ttlMs\":600000,\"cacheScope\":\"private\",", 1),
        ("\"ttlMs\":0,", 2),
        ("", 2),
    ] {
        let list = format!(
            r#"echo x >>lists; answer '{{"resultType":"complete",{hint}"resources":[{{"uri":"a:b","name":"n"}}]}}'"#
        );
        let server = modern()
            .initialize(&json!({"capabilities": {"resources": {}}}))
            .on("\"method\":\"resources/list\"", &list)
            .on(
                "\"method\":\"resources/templates/list\"",
                "answer '{\"resultType\":\"complete\",\"resourceTemplates\":[]}'",
            );
        let world = World::new(&server);
        world.servers.settled().await;
        for _ in 0..2 {
            let listed = world.servers.resources("s").await.unwrap();
            assert_eq!(listed[0]["uri"], "a:b", "{hint}");
        }
        assert_eq!(world.text("lists").lines().count(), asked, "{hint}");
    }
}

/// Half of a character in an answer costs nothing else.
#[tokio::test]
async fn over_http_as_well() {
    for status in ["200 OK", "400 Bad Request", "404 Not Found"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that the client gives up is no concern of the server.
                thread::spawn(move || serve(stream, status).ok());
            }
        });
        let world = World::with(&json!({"s": {"url": url}}), |_| {});
        assert_eq!(
            show(&world.call("mcp__s__greet", json!({})).await),
            "hello \u{fffd}",
            "{status}"
        );
    }
}

/// Answers one request; the handshake with this status.
fn serve(mut stream: TcpStream, refusal: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line.to_ascii_lowercase());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let is_whole = String::from_utf8_lossy(&body).contains(VERSION)
        && head.contains("mcp-protocol-version: 2026-07-28")
        && head.contains(&format!("mcp-method: {method}"));
    let (status, answer) = match method.as_str() {
        "initialize" => (
            refusal,
            json!({"error": {"code": -32601, "message": "no handshake"}}),
        ),
        _ if !is_whole => (
            "400 Bad Request",
            json!({"error": {"code": -32001, "message": "metadata is missing"}}),
        ),
        "server/discover" => ("200 OK", json!({"result": discovered()})),
        "tools/list" => (
            "200 OK",
            json!({"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}}),
        ),
        "tools/call" => (
            "200 OK",
            json!({"result": {"resultType": "complete", "content": [{"type": "text", "text": "hello HALF"}]}}),
        ),
        _ => (
            "404 Not Found",
            json!({"error": {"code": -32601, "message": "unknown"}}),
        ),
    };
    let mut answer = answer;
    answer["jsonrpc"] = json!("2.0");
    answer["id"] = request["id"].clone();
    let text = answer.to_string().replace("HALF", r"\ud83d");
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}
