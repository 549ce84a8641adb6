//! The scripted model: files in, events out.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Message, MessageId, Origin, Provider, Request, Response, ResultBlock, Role,
    StopReason, Time, ToolResult, ToolSpec, Truncation, Usage,
};
use ah_provider::script::format::Scenario;
use ah_provider::script::{Script, demo};
use futures_util::StreamExt;
use serde_json::json;

mod record;
mod retries;
mod wire;

/// A script from YAML.
fn script(yaml: &str) -> Script {
    let scenario = Scenario::parse(yaml).unwrap_or_else(|problem| panic!("{problem}"));
    Script::new("test", scenario).expect("checked by parse")
}

/// A request with the system prompt `You are a test.`, the tools `bash` and `read`, and these messages.
fn request(messages: &[Message]) -> Request {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: Arc::new(json!({"type": "object"})),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    };
    Request {
        system: Arc::new(["You are a test.".to_owned()]),
        tools: Arc::new([tool("bash"), tool("read")]),
        messages: Arc::new(messages.iter().cloned().map(Arc::new).collect()),
        max_output: 1_000,
        ..Request::default()
    }
}

fn message(seq: u32, role: Role, origin: Origin, content: Vec<ContentBlock>) -> Message {
    Message {
        id: MessageId::from(format!("m{seq}")),
        parent: None,
        seq,
        role,
        origin,
        created_at: Time(0),
        content,
        response: None,
    }
}

fn user(seq: u32, text: &str) -> Message {
    message(
        seq,
        Role::User,
        Origin::Prompt,
        vec![ContentBlock::text(text)],
    )
}

fn result(seq: u32, tool: &str, text: &str) -> Message {
    let result = ToolResult {
        tool_use_id: format!("toolu_m{}_0", seq - 2).into(),
        tool_name: tool.to_owned(),
        content: vec![ResultBlock::Text {
            text: text.to_owned(),
        }],
        is_error: false,
        duration_ms: 5,
        details: None,
        lines: None,
    };
    message(
        seq,
        Role::User,
        Origin::Results,
        vec![ContentBlock::ToolResult(result)],
    )
}

/// An answer of the script `test`.
fn answer(seq: u32, stop_reason: StopReason) -> Message {
    Message {
        response: Some(Response {
            stop_reason,
            usage: Usage::default(),
            cost: None,
            model: "test".to_owned(),
            provider: "script".to_owned(),
            latency_ms: 0,
            request_id: None,
            opaque: None,
        }),
        ..message(
            seq,
            Role::Assistant,
            Origin::Model,
            vec![ContentBlock::text("…")],
        )
    }
}

/// The answer of `provider`, one line per event or error, until the stream ends.
async fn ask(provider: &dyn Provider, messages: &[Message]) -> String {
    let events = provider.stream(request(messages));
    let lines = events.map(|event| match event {
        Ok(event) => format!("{event:?}"),
        Err(error) => format!("{:?}: {error}", error.class),
    });
    lines.collect::<Vec<_>>().await.join("\n")
}

/// The text of the answer of `provider`.
async fn words(provider: &dyn Provider, messages: &[Message]) -> String {
    let text = ask(provider, messages).await;
    let words = text.lines().filter_map(|line| {
        line.split_once("delta: Text(\"")
            .map(|(_, text)| text.trim_end_matches("\") }").to_owned())
            .or_else(|| {
                line.split_once(": ")
                    .filter(|(class, _)| !class.contains(' '))
                    .map(|_| line.to_owned())
            })
    });
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn an_answer_has_the_events_of_a_real_one() {
    let script = script(
        r#"
turns:
  - thinking: Hm.
    text: [Let me, " look."]
    tools:
      - {name: bash, input: {command: ls}}
      - {name: read, id: toolu_x, input_json: '{"path": '}
    usage: {input_tokens: 7, output_tokens: 5}
"#,
    );
    insta::assert_snapshot!(ask(&script, &[user(0, "hello")]).await, @r#"
    Sent { payload_bytes: 0, held_bytes: None }
    Started { id: "msg_m0", usage: Usage { input_tokens: 7, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, cache_creation_1h_input_tokens: 0, web_search_requests: 0 } }
    BlockStarted { index: 0, block: Thinking("") }
    Delta { index: 0, delta: Thinking("Hm.") }
    Delta { index: 0, delta: Signature("c2NyaXB0ZWQ=") }
    BlockStopped { index: 0 }
    BlockStarted { index: 1, block: Text("") }
    Delta { index: 1, delta: Text("Let me") }
    Delta { index: 1, delta: Text(" look.") }
    BlockStopped { index: 1 }
    BlockStarted { index: 2, block: ToolUse { id: toolu_m0_2, name: "bash", input: Object {} } }
    Delta { index: 2, delta: InputJson("{\"command\":\"ls\"}") }
    BlockStopped { index: 2 }
    BlockStarted { index: 3, block: ToolUse { id: toolu_x, name: "read", input: Object {} } }
    Delta { index: 3, delta: InputJson("{\"path\": ") }
    BlockStopped { index: 3 }
    Stopping { stop_reason: ToolUse, usage: Usage { input_tokens: 7, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, cache_creation_1h_input_tokens: 0, web_search_requests: 0 } }
    Ended
    "#);
}

#[tokio::test]
async fn blocks_come_in_any_order_and_of_any_kind() {
    let script = script(
        r#"
turns:
  - content:
      - tool: {name: bash}
      - redacted_thinking: abc
      - other: {type: new_thing, x: 1}
      - {thinking: Hm., signature: ""}
      - text: Done.
    pieces: 2
    stop_reason: pause_turn
"#,
    );
    insta::assert_snapshot!(ask(&script, &[]).await, @r#"
    Sent { payload_bytes: 0, held_bytes: None }
    Started { id: "msg_0", usage: Usage { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, cache_creation_1h_input_tokens: 0, web_search_requests: 0 } }
    BlockStarted { index: 0, block: ToolUse { id: toolu_0_0, name: "bash", input: Object {} } }
    Delta { index: 0, delta: InputJson("{") }
    Delta { index: 0, delta: InputJson("}") }
    BlockStopped { index: 0 }
    BlockStarted { index: 1, block: RedactedThinking("abc") }
    BlockStopped { index: 1 }
    BlockStarted { index: 2, block: Other(Object {"type": String("new_thing"), "x": Number(1)}) }
    BlockStopped { index: 2 }
    BlockStarted { index: 3, block: Thinking("") }
    Delta { index: 3, delta: Thinking("Hm") }
    Delta { index: 3, delta: Thinking(".") }
    BlockStopped { index: 3 }
    BlockStarted { index: 4, block: Text("") }
    Delta { index: 4, delta: Text("Don") }
    Delta { index: 4, delta: Text("e.") }
    BlockStopped { index: 4 }
    Stopping { stop_reason: PauseTurn, usage: Usage { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, cache_creation_1h_input_tokens: 0, web_search_requests: 0 } }
    Ended
    "#);
}

#[tokio::test]
async fn failures_can_occur_at_any_point() {
    for (turn, expected) in [
        (
            "{error: {status: 529, type: overloaded_error, message: Overloaded}}",
            "Overloaded: API error 529: Overloaded",
        ),
        (
            "{error: {status: 400, message: 'prompt is too long: 9 > 8'}}",
            "ContextTooLong: API error 400: prompt is too long: 9 > 8",
        ),
        (
            "{error: {status: 401}}",
            "Authentication: API error 401: scripted failure",
        ),
        (
            "{error: {message: connection refused}}",
            "Network: connection refused",
        ),
        (
            "{error: {class: stalled, message: quiet}}",
            "Stalled: quiet",
        ),
        (
            "{text: Well, stream_error: {type: overloaded_error, message: Overloaded}}",
            "Well Overloaded: Overloaded (overloaded_error)",
        ),
        (
            "{text: Well, cut: true}",
            "Well Network: the connection ended before the answer was whole (scripted)",
        ),
    ] {
        let script = script(&format!("turns: [{turn}]"));
        assert_eq!(
            words(&script, &[user(0, "hello")]).await,
            expected,
            "{turn}"
        );
    }
}

#[tokio::test]
async fn a_broken_answer_leaves_its_last_block_open() {
    let script = script("turns: [{text: a, tool: {name: bash, input_json: '{\"comm'}, cut: true}]");
    let events = ask(&script, &[]).await;
    assert_eq!(events.matches("BlockStarted").count(), 2);
    assert_eq!(events.matches("BlockStopped").count(), 1);
    assert!(!events.contains("Stopping"));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_turn_never_ends_and_delays_are_kept() {
    let script =
        script("turns: [{delay_ms: 100, chunk_delay_ms: 10, text: one two three, hang: true}]");
    let start = tokio::time::Instant::now();
    let mut events = script.stream(request(&[]));
    let mut seen = 0;
    let silence = loop {
        match tokio::time::timeout(std::time::Duration::from_secs(3_600), events.next()).await {
            Ok(Some(_)) => {
                seen += 1;
                if seen == 6 {
                    assert_eq!(start.elapsed().as_millis(), 130);
                }
            }
            other => break other.is_err(),
        }
    };
    assert!(silence, "the stream ended");
    assert_eq!(seen, 6, "sent, started, block, three words");
}

#[tokio::test]
async fn a_new_process_continues_after_the_last_answer() {
    use StopReason::{EndTurn, Interrupted};
    const YAML: &str = "
turns:
  - text: one
  - error: {status: 529}
  - text: two
    repeat: 2
  - {text: half, hang: true}
  - text: three
";
    let foreign = Message {
        response: None,
        ..answer(1, EndTurn)
    };
    let summary = |text: &str| {
        message(
            5,
            Role::User,
            Origin::summary(None),
            vec![ContentBlock::text(text)],
        )
    };
    for (answers, expected) in [
        (vec![], "one"),
        (vec![foreign], "one"),
        (
            vec![answer(1, EndTurn)],
            "Overloaded: API error 529: scripted failure",
        ),
        (vec![answer(1, EndTurn), answer(3, EndTurn)], "two"),
        (
            vec![
                answer(1, EndTurn),
                answer(3, EndTurn),
                answer(5, EndTurn),
                answer(7, Interrupted),
            ],
            "three",
        ),
        (
            vec![summary("[COMPACTION SUMMARY]\none")],
            "Overloaded: API error 529: scripted failure",
        ),
        (
            vec![
                summary("[COMPACTION SUMMARY]\none"),
                answer(1, EndTurn),
                answer(6, EndTurn),
            ],
            "two",
        ),
    ] {
        let mut messages = vec![user(0, "hello")];
        if answers.first().is_some_and(Message::is_summary) {
            messages.clear();
        }
        messages.extend(answers.clone());
        messages.push(user(9, "go on"));
        assert_eq!(
            words(&script(YAML), &messages).await,
            expected,
            "{answers:?}"
        );
    }
    let again = script(&format!("resume: false{YAML}"));
    let messages = [user(0, "hello"), answer(1, EndTurn), user(2, "again")];
    assert_eq!(words(&again, &messages).await, "one");
}

#[tokio::test]
async fn the_end_is_an_error_that_says_so() {
    let script = script("turns: [{text: one}]");
    words(&script, &[]).await;
    insta::assert_snapshot!(words(&script, &[user(0, "and now?\nwell?")]).await, @"Script: the scenario `test` ends with turn 1, but there was another request: and now?");
}

#[tokio::test]
async fn unmet_expectations_are_explained() {
    let messages = [
        user(0, "fix it"),
        answer(1, StopReason::ToolUse),
        result(2, "bash", "FAIL: one\nok: two\n"),
    ];
    for (expect, expected) in [
        (
            "{messages: 3, user: '', tools: [bash, read], system: a test, results: [{tool: bash, text: FAIL}]}",
            "",
        ),
        ("{messages: 2}", "expected 2 messages, but there are 3"),
        (
            "{user: hello}",
            "expected the user's words to contain \"hello\", but it is: empty",
        ),
        (
            "{system: {lacks: test}}",
            "expected the system prompt not to contain \"test\", but it is: You are a test.",
        ),
        (
            "{tools: [edit]}",
            "expected the tool `edit`, but there are only: bash, read",
        ),
        (
            "{results: [{}, {}]}",
            "expected tool result 2, but there are only 1",
        ),
        (
            "{results: [{tool: read}]}",
            "expected tool result 1 (`bash`) to be of `read`",
        ),
        (
            "{results: [{id: toolu_9}]}",
            "expected tool result 1 (`bash`) to answer `toolu_9`, but it answers `toolu_m0_0`",
        ),
        (
            "{results: [{is_error: true}]}",
            "expected tool result 1 (`bash`) to be a failure, but it is a success",
        ),
        (
            "{results: [{text: {equals: \"FAIL: two\\nok: two\\n\"}}]}",
            "tool result 1 (`bash`) differs:\n--- scenario\n+++ request\n@@ -1,2 +1,2 @@\n-FAIL: two\n+FAIL: one\n ok: two",
        ),
    ] {
        let script = script(&format!(
            "resume: false\nturns: [{{expect: {expect}, text: fine}}]"
        ));
        let told = ask(&script, &messages).await;
        if expected.is_empty() {
            assert!(told.ends_with("Ended"), "{expect}: {told}");
        } else {
            let start = "Script: the request is not what turn 1 of the scenario `test` expects: ";
            let (_, faults) = told
                .split_once(start)
                .unwrap_or_else(|| panic!("{expect}: {told}"));
            assert_eq!(faults.trim_end(), expected);
        }
    }
}

#[tokio::test]
async fn placeholders_are_replaced() {
    let script = script(
        "{resume: false, turns: [{repeat: 2, text: '{{turn}}: {{user}}, {{result}}, {{other}}', tool: {name: bash, input: {command: ['echo {{user}}']}}}]}",
    );
    let messages = [
        user(0, "hi"),
        answer(1, StopReason::ToolUse),
        result(2, "bash", "out {{turn}}"),
        user(3, "and?"),
    ];
    assert_eq!(
        words(&script, &messages).await,
        "1: and?, out {{turn}}, {{other}}"
    );
    assert!(
        ask(&script, &messages)
            .await
            .contains(r#"{\"command\":[\"echo and?\"]}"#)
    );
}

#[test]
fn json_is_accepted_too() {
    let scenario = Scenario::parse(r#"{"turns": [{"text": "one", "usage": {"input_tokens": 3}}]}"#)
        .expect("valid");
    assert_eq!(
        scenario,
        Scenario::parse("turns: [{text: one, usage: {input_tokens: 3}}]").expect("valid")
    );
}

#[test]
fn problems_are_reported_with_their_place() {
    for (yaml, expected) in [
        ("", "at least one turn"),
        ("turns: []", "at least one turn"),
        ("turns: [{txet: hello}]", "txet"),
        ("turns: [{text: a}, {}]", "turn 2: it says nothing"),
        (
            "turns: [{text: a, content: [{text: b}]}]",
            "use one or the other",
        ),
        (
            "turns: [{content: [{text: b, thinking: c}]}]",
            "a block of `content` is one of",
        ),
        (
            "turns: [{error: {status: 500}, text: a}]",
            "`error` fails before any content",
        ),
        ("turns: [{text: a, cut: true, hang: true}]", "only one of"),
        ("turns: [{text: a, repeat: 0}]", "would never be played"),
        (
            "turns: [{text: a, repeat: 4000000000}]",
            "at most 1000000 can be played",
        ),
        ("turns: [{tool: {input: {a: 1}}}]", "needs a `name`"),
        (
            "turns: [{tool: {name: x, input: {a: 1}, input_json: '{'}}]",
            "both `input` and `input_json`",
        ),
        ("turns: [{error: {class: bad}}]", "bad"),
        ("turns: [", "line 1"),
    ] {
        let fault = Scenario::parse(yaml).expect_err(yaml);
        assert!(fault.contains(expected), "{yaml}: {fault}");
    }
    let missing = Script::open(Path::new("no/such.yaml")).expect_err("missing");
    assert_eq!(missing.to_string(), "cannot read the scenario no/such.yaml");
}

#[tokio::test]
async fn a_file_names_its_model() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("greeting.yaml");
    std::fs::write(&path, "price: {input: 3, output: 15}\nturns: [{text: Hi.}]").expect("written");
    let script = Script::open(&path).expect("valid");
    assert_eq!(script.model().name, "greeting");
    let price = script.model().price.expect("named");
    assert_eq!((price.input, price.output), (3_000_000, 15_000_000));
    assert_eq!(words(&script, &[]).await, "Hi.");
}

#[test]
fn the_demo_fixes_its_program() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in demo::files() {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let test = || {
        let output = std::process::Command::new("sh")
            .arg("test.sh")
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
        )
    };
    let (code, output) = test();
    assert_eq!(code, Some(1));
    insta::assert_snapshot!(output, @"
    ok: greet.sh Ada
    FAIL: greet.sh Grace Hopper
      expected: Hello, Grace Hopper!
      actual:   Hello, Grace! Hello, Hopper!
    ");

    let program = std::fs::read_to_string(folder.path().join("greet.sh")).expect("readable");
    let (before, after) = ("for name in $*; do", "for name in \"$@\"; do");
    assert_eq!(program.matches(before).count(), 1);
    std::fs::write(
        folder.path().join("greet.sh"),
        program.replace(before, after),
    )
    .expect("written");
    let (code, output) = test();
    assert_eq!(code, Some(0), "{output}");
    insta::assert_snapshot!(output, @"
    ok: greet.sh Ada
    ok: greet.sh Grace Hopper
    ");
}

#[tokio::test(start_paused = true)]
async fn the_demo_is_quick_and_uses_what_the_tools_take() {
    let script = Script::open(Path::new("demo")).expect("built in");
    let start = tokio::time::Instant::now();
    let results = [
        ("bash", "FAIL: greet.sh Grace Hopper"),
        ("read", "for name in $*; do"),
        ("edit", "edited"),
        ("bash", "ok: greet.sh Grace Hopper"),
    ];
    let mut messages = vec![user(0, demo::PROMPT)];
    let mut calls = Vec::new();
    for seq in 0..5 {
        let events = ask(&script, &messages).await;
        assert!(events.ends_with("Ended"), "{events}");
        let json = events
            .lines()
            .filter_map(|line| line.split_once("InputJson(\"")?.1.strip_suffix("\") }"));
        calls.extend(Some(json.collect::<String>()).filter(|json| !json.is_empty()));
        messages.push(answer(seq * 2 + 1, StopReason::ToolUse));
        messages.extend(
            results
                .get(seq as usize)
                .map(|(tool, text)| result(seq * 2 + 2, tool, text)),
        );
    }
    insta::assert_snapshot!(calls.join("\n"), @r#"
    {\"command\":\"sh test.sh\"}
    {\"path\":\"greet.sh\"}
    {\"path\":\"greet.sh\",\"old_string\":\"for name in $*; do\",\"new_string\":\"for name in \\\"$@\\\"; do\"}
    {\"command\":\"sh test.sh\"}
    "#);
    assert!(
        start.elapsed().as_millis() < 3_000,
        "{} ms",
        start.elapsed().as_millis()
    );
}

#[test]
fn the_scenarios_in_the_documentation_are_valid() {
    let text = std::fs::read_to_string("../docs/scripted-model.md").expect("the project's folder");
    let blocks: Vec<_> = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() > 4, "{} blocks", blocks.len());
    for block in blocks {
        let scenario = Scenario::parse(block);
        assert!(scenario.is_ok(), "{block}\n{scenario:?}");
    }
}
