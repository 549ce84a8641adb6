//! Traces for OpenTelemetry, as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use ah_conversation::Usage;
use ah_testkit::script::{Turn, fails, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ah, World};

const KEY: &str = "key-of-a-test-0123456789";
const HEADER: &str = "Bearer of-the-collector";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector, which answers with `status`; returns its address and the requests: path, headers, body.
fn collector(status: &'static str) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(request) = stream.and_then(|stream| serve(stream, status)) else {
                return;
            };
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn serve(mut stream: TcpStream, status: &str) -> std::io::Result<(String, Value)> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1).unwrap();
    let length = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
    )?;
    Ok((head, serde_json::from_slice(&body).unwrap()))
}

fn traced(ah: Ah, url: &str) -> Ah {
    ah.env("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        .env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20of-the-collector",
        )
        .env("ANTHROPIC_API_KEY", KEY)
}

/// Returns the spans of the documents that have come.
fn spans(requests: &Receiver<(String, Value)>) -> Vec<Value> {
    let documents = requests.try_iter().map(|(_, document)| document);
    documents
        .flat_map(|document| {
            let spans = &document["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.as_array().unwrap().clone()
        })
        .collect()
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|it| it["key"] == name);
    found.map_or(&Value::Null, |it| &it["value"])
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_run_is_a_trace_of_its_requests_calls_and_subagents() {
    let world = World::new();
    let (url, requests) = collector("200 OK");
    let agents =
        json!({"digger": {"description": "digs", "prompt": "You dig.", "tools": ["Bash"]}});
    let dig = json!({"description": "dig it", "prompt": "Find gold.", "subagent_type": "digger"});
    let tell = format!("echo $TRACEPARENT > told; echo {KEY}; env | grep collector");
    let server = Server::new([
        uses("Agent", dig),
        uses("Bash", json!({ "command": tell })),
        says("Gold."),
        says("Found it."),
    ]);
    let agents = agents.to_string();
    let arguments = [
        "-m",
        "sonnet",
        "--profile=sdk",
        "--agents",
        &agents,
        "A question.",
    ];
    let ah = traced(world.asking(&server, arguments), &url);
    let ended = ah.env("TRACEPARENT", PARENT).run().expect(0);
    assert!(!ended.stderr.contains("trace"), "{}", ended.stderr);

    let (head, document) = requests.recv().unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(HEADER), "{head}");
    let text = document.to_string();
    for hidden in [KEY, "A question.", "Found it.", "You dig.", "TRACEPARENT"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    let resource = &document["resourceSpans"][0];
    assert_eq!(
        resource["resource"]["attributes"],
        json!([
            {"key": "service.name", "value": {"stringValue": "ah"}},
            {"key": "service.version", "value": {"stringValue": env!("CARGO_PKG_VERSION")}},
        ])
    );
    let spans = &resource["scopeSpans"][0]["spans"];
    let spans = spans.as_array().unwrap().as_slice();
    let one = |name: &str| match named(spans, name).as_slice() {
        [span] => *span,
        other => panic!("{name}: {other:?}"),
    };
    let (run, task) = (one("invoke_agent ah"), one("execute_tool Agent"));
    let (agent, call) = (one("invoke_agent digger"), one("execute_tool Bash"));
    let chats = named(spans, "chat claude-sonnet-4-5-20250929");
    assert_eq!(chats.len(), 4, "{spans:#?}");
    assert_eq!(spans.len(), 8, "{spans:#?}");

    // Parents: the program outside, the run, the call, the subagent.
    let (trace, outside) = (&PARENT[3..35], &PARENT[36..52]);
    assert!(spans.iter().all(|span| span["traceId"] == trace));
    assert_eq!(run["parentSpanId"], outside);
    assert_eq!(task["parentSpanId"], run["spanId"]);
    assert_eq!(agent["parentSpanId"], task["spanId"]);
    assert_eq!(call["parentSpanId"], agent["spanId"]);
    for (owner, count) in [(run, 2), (agent, 2)] {
        let own = chats.iter();
        let own = own.filter(|chat| chat["parentSpanId"] == owner["spanId"]);
        assert_eq!(own.count(), count);
    }
    let told = format!("00-{trace}-{}-01\n", call["spanId"].as_str().unwrap());
    assert_eq!(world.text("told"), told);

    // What is inside lies within the time of what is outside.
    for (inner, outer) in [(task, run), (agent, task), (call, agent)] {
        let (start, end) = (
            time(inner, "startTimeUnixNano"),
            time(inner, "endTimeUnixNano"),
        );
        assert!(time(outer, "startTimeUnixNano") <= start && start <= end);
        assert!(end <= time(outer, "endTimeUnixNano"));
    }
    for (span, name, value) in [
        (run, "gen_ai.operation.name", json!("invoke_agent")),
        (run, "gen_ai.provider.name", json!("anthropic")),
        (agent, "gen_ai.agent.name", json!("digger")),
        (chats[0], "gen_ai.operation.name", json!("chat")),
        (
            chats[0],
            "gen_ai.response.model",
            json!("claude-sonnet-4-5-20250929"),
        ),
        (call, "gen_ai.operation.name", json!("execute_tool")),
        (call, "gen_ai.tool.name", json!("Bash")),
    ] {
        assert_eq!(attribute(span, name), &json!({ "stringValue": value }));
    }
    let reasons = &attribute(run, "gen_ai.response.finish_reasons")["arrayValue"]["values"];
    assert_eq!(reasons, &json!([{"stringValue": "end_turn"}]));
    let tokens = &attribute(run, "gen_ai.usage.input_tokens")["intValue"];
    assert!(tokens.is_string(), "{run:#}");
}

#[test]
fn content_is_in_a_trace_only_if_it_is_asked_for_and_has_no_secrets() {
    let world = World::new();
    let (url, requests) = collector("200 OK");
    let command = format!("echo of the tool {KEY}; exit 3");
    let server = Server::new([
        uses("bash", json!({ "command": command })),
        says("Of the model."),
    ]);
    let name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    let ah = world.asking(&server, ["-m", "sonnet", "Of the user."]);
    traced(ah, &url).env(name, "true").run().expect(0);
    let spans = spans(&requests);
    let text = serde_json::to_string(&spans).unwrap();
    for shown in [
        "Of the user.",
        "Of the model.",
        "of the tool [ANTHROPIC_API_KEY]",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!text.contains(KEY), "{text}");
    let call = named(&spans, "execute_tool bash")[0];
    assert_eq!(attribute(call, "error.type")["stringValue"], "tool_error");
    assert_eq!(call["status"]["code"], 2);
}

#[test]
fn retries_and_cost_are_attributes() {
    let world = World::new();
    let (url, requests) = collector("200 OK");
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        ..Usage::default()
    };
    let server = Server::new([
        fails(529, "overloaded_error"),
        Turn {
            usage: Some(usage),
            ..says("Done.")
        },
    ]);
    let ah = world.asking(&server, ["-m", "sonnet", "go"]);
    traced(ah, &url).run().expect(0);
    let spans = spans(&requests);
    let chat = named(&spans, "chat claude-sonnet-4-5-20250929")[0];
    assert_eq!(attribute(chat, "ah.retries")["intValue"], "1", "{chat:#}");
    let cost = attribute(chat, "ah.cost_usd")["doubleValue"].as_f64();
    assert!(
        cost.is_some_and(|usd| (usd - 0.0045).abs() < 1e-9),
        "{chat:#}"
    );
}

#[test]
fn a_request_that_fails_and_a_run_that_is_stopped_are_errors() {
    let world = World::new();
    let (url, requests) = collector("200 OK");
    let ah = world.ah(["-m", "sonnet", "go"]);
    let ah = traced(ah, &url).env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    ah.env("CLAUDE_CODE_MAX_RETRIES", "0")
        .argument("-p")
        .run()
        .expect(1);
    let spans = spans(&requests);
    for name in ["chat claude-sonnet-4-5-20250929", "invoke_agent ah"] {
        let span = named(&spans, name)[0];
        assert_eq!(span["status"]["code"], 2, "{span:#}");
    }
}

#[test]
fn a_collector_that_fails_is_not_noticed() {
    let world = World::new();
    // One that takes a connection and says nothing, one that is not there, and one that is broken.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let (broken, _requests) = collector("500 Internal Server Error");
    for url in [silent.as_str(), "http://127.0.0.1:1", &broken] {
        let server = Server::new([uses("bash", json!({"command": "echo"})), says("Done.")]);
        let ah = traced(world.asking(&server, ["-n", "-m", "sonnet", "go"]), url);
        let ended = ah.run().expect(0);
        assert_eq!(ended.stdout, "Done.\n", "{url}");
        for word in ["error", "warning", "trace", "collector"] {
            assert!(!ended.stderr.contains(word), "{url}: {}", ended.stderr);
        }
    }
}

#[test]
fn nothing_is_sent_unless_a_variable_says_so() {
    let world = World::new();
    let (url, requests) = collector("200 OK");
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        let server = Server::new([says("Done.")]);
        let ah = world.asking(&server, ["-n", "-m", "sonnet", "go"]);
        traced(ah, &url).env(name, value).run().expect(0);
        assert!(requests.try_recv().is_err(), "{name}");
    }
    let server = Server::new([says("Done.")]);
    let ah = world.asking(&server, ["-n", "-m", "sonnet", "go"]);
    let ended = traced(ah, &url)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .run()
        .expect(0);
    assert!(
        ended.stderr.contains("ah sends `http/json`"),
        "{}",
        ended.stderr
    );
    assert!(requests.try_recv().is_err());
}
