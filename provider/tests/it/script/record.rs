//! Recording a run and replaying it.

use ah_conversation::StreamEvent;
use ah_provider::script::normalizer::Normalizer;
use ah_provider::script::record::Recording;

use super::*;

const RUN: &str = r#"
price: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6}
turns:
  - thinking: |
      Two lines
      of thought, said to sk-secret.
    text: Let me look.
    tool: {name: bash, id: toolu_a, input: {command: "ls -l\n"}}
    usage: {input_tokens: 7, output_tokens: 5, cache_read_input_tokens: 3}
  - {text: half, stream_error: {type: overloaded_error, message: Overloaded}}
  - {error: {status: 529, type: overloaded_error, message: Overloaded, retry_after: 0}}
  - content: [{tool: {name: read, id: toolu_b, input_json: '{"path"'}}, {other: {type: new}}, {redacted_thinking: xyz}]
    stop_reason: max_tokens
  - {text: 'yes', stop_reason: refusal}
"#;

/// The conversation of the run: the messages of each request.
fn requests(output: &str) -> Vec<Vec<Message>> {
    let mut messages = vec![user(0, "look at 2026-11-20 in /home/me\nplease")];
    let mut requests = vec![messages.clone()];
    messages.extend([answer(1, StopReason::ToolUse), result(2, "bash", output)]);
    requests.extend([messages.clone(), messages.clone(), messages.clone()]);
    messages.extend([answer(3, StopReason::MaxTokens), user(4, "go on")]);
    requests.push(messages);
    requests
}

fn normal() -> Normalizer {
    Normalizer {
        redact: Arc::new(|text| text.replace("sk-secret", "[KEY]")),
        paths: vec![("/home/me".to_owned(), "<cwd>")],
    }
}

/// The answers of `provider` to the conversation.
async fn play(provider: &dyn Provider, output: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for messages in requests(output) {
        answers.push(ask(provider, &messages).await);
    }
    answers
}

#[tokio::test]
async fn a_recording_plays_the_same_run() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("run.yaml");
    let model = Arc::new(script(RUN));
    let recording = Recording::create(&path, model.model(), normal()).expect("writable");
    let original = play(&recording.of(model), "total 2\nin 12ms").await;

    let text = std::fs::read_to_string(&path).expect("written");
    insta::assert_snapshot!(text, @r#"
    model: test
    context_window: 200000
    max_output: 32000
    price:
      input: 3.0
      output: 15.0
      cache_read: 0.3
      cache_write: 3.75
      cache_write_1h: 6.0
    strict: true
    turns:
    - request:
        system: You are a test.
        tools: bash read
        messages: |
          messages: 1
          user:
            look at <date> in <cwd>
            please
      thinking: |
        Two lines
        of thought, said to [KEY].
      signature: c2NyaXB0ZWQ=
      text: Let me look.
      tool:
        name: bash
        id: toolu_a
        input:
          command: |
            ls -l
      usage:
        input_tokens: 7
        output_tokens: 5
        cache_creation_input_tokens: 0
        cache_read_input_tokens: 3
    - request:
        messages: |
          messages: 3
          tool_result bash ok:
            total 2
            in <n>ms
      text: half
      stream_error:
        class: overloaded
        message: Overloaded (overloaded_error)
    - request:
        messages: |
          messages: 3
          tool_result bash ok:
            total 2
            in <n>ms
      error:
        status: 529
        class: overloaded
        message: Overloaded
        retry_after: 0.0
    - request:
        messages: |
          messages: 3
          tool_result bash ok:
            total 2
            in <n>ms
      content:
      - tool:
          name: read
          id: toolu_b
          input_json: "{\"path\""
      - other:
          type: new
      - redacted_thinking: xyz
      stop_reason: max_tokens
    - request:
        messages: |
          messages: 5
          user: go on
      text: "yes"
      stop_reason: refusal
    "#);

    let replay = Script::open(&path).expect("valid").comparing(normal());
    let original: Vec<_> = original
        .iter()
        .map(|answer| answer.replace("sk-secret", "[KEY]"))
        .collect();
    assert_eq!(play(&replay, "total 2\nin 99ms").await, original);
    let price = script(RUN).model().price;
    assert_eq!(replay.model().price, price);
}

#[tokio::test]
async fn a_different_request_is_shown_as_a_diff() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("run.yaml");
    let model = Arc::new(script(RUN));
    let recording = Recording::create(&path, model.model(), normal()).expect("writable");
    play(&recording.of(model), "total 2\nin 12ms").await;

    let replay = Script::open(&path).expect("valid").comparing(normal());
    let answers = play(&replay, "total 3\nin 12ms").await;
    assert!(answers[0].ends_with("Ended"));
    insta::assert_snapshot!(answers[1], @"
    Sent { payload_bytes: 0, held_bytes: None }
    Script: the request is not what turn 2 of the scenario `test` expects: it differs from the recorded one:
    --- scenario
    +++ request
    @@ -2,5 +2,5 @@
     tools: bash read
     messages: 3
     tool_result bash ok:
    -  total 2
    +  total 3
       in <n>ms
    ");

    let loose = std::fs::read_to_string(&path)
        .expect("written")
        .replace("strict: true", "strict: false");
    let answers = play(&script(&loose), "total 3").await;
    assert!(answers[4].ends_with("Ended"), "{}", answers[4]);
}

#[tokio::test]
async fn a_dropped_answer_is_recorded_as_far_as_it_came() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("run.yaml");
    let model = Arc::new(script("turns: [{text: [a, b, c]}]"));
    let recording =
        Recording::create(&path, model.model(), Normalizer::default()).expect("writable");
    let recorder = recording.of(model);
    let mut events = recorder.stream(request(&[]));
    while let Some(Ok(event)) = events.next().await {
        if matches!(&event, StreamEvent::Delta { delta: ah_conversation::Delta::Text(text), .. } if text == "b")
        {
            break;
        }
    }
    drop(events);
    drop(recorder.stream(request(&[])));
    let scenario =
        Scenario::parse(&std::fs::read_to_string(&path).expect("written")).expect("valid");
    assert_eq!(
        scenario.turns.len(),
        1,
        "a stream that was never polled asked nothing"
    );
    assert_eq!(scenario.turns[0].text, Some("ab".into()));
    assert!(scenario.turns[0].hang);
}

#[test]
fn an_unwritable_path_is_an_error_at_once() {
    let model = script("turns: [{text: a}]");
    let failed = Recording::create(
        Path::new("no/such/folder/x.yaml"),
        model.model(),
        Normalizer::default(),
    );
    assert!(failed.is_err());
}
