//! Servers that allow less output than is asked for, or leave in the text what is none.

use ah_conversation::{BlockStart, Delta, ErrorClass, ProviderError, StreamEvent};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::requests::{request, user};
use crate::route::with_options;
use crate::server::{Part, Server, events, plain, stream_end, stream_head};

fn refused(message: &str) -> Vec<Part> {
    let body = json!({"error": {"type": "invalid_request_error", "message": message}});
    plain("400 Bad Request", "", &body.to_string())
}

fn hello() -> Vec<Part> {
    let answer = r#"{"id":"a","choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}
        [DONE]"#;
    vec![stream_head(), events(answer), stream_end()]
}

const WINDOW: &str = "This model's maximum context length is 12000 tokens. However, you requested 20043 tokens (3659 in \
                      the messages, 16384 in the completion).";
const OUTPUT: &str =
    "max_tokens is too large: 16384. This model supports at most 4096 completion tokens";

/// Asks for 16384 tokens of output as often as there are outcomes; returns what each came to and the limits sent.
async fn limits(
    answers: Vec<Vec<Part>>,
    asked: usize,
) -> (Vec<Result<(), ProviderError>>, Vec<u64>) {
    let server = Server::start(answers).await;
    let servers = json!({"gw": {"baseUrl": server.url}});
    let provider = with_options(&[], &servers, |options| {
        ah_provider::connect("gw/m", options)
    });
    let provider = provider.expect("a provider");
    let mut outcomes = Vec::new();
    for _ in 0..asked {
        let mut wanted = request(vec![user("Hi")]);
        wanted.max_output = 16_384;
        let mut stream = provider.stream(wanted);
        outcomes.push(loop {
            match stream.next().await.expect("an end") {
                Ok(StreamEvent::Ended) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        });
    }
    let limit = |request: &String| {
        let (_, body) = request.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        body["max_tokens"].as_u64().expect("a limit")
    };
    (outcomes, server.requests().iter().map(limit).collect())
}

#[tokio::test]
async fn the_output_limit_that_a_server_names_is_learned() {
    let (outcomes, sent) = limits(vec![refused(OUTPUT), hello(), hello()], 2).await;
    assert_eq!(outcomes, [Ok(()), Ok(())]);
    assert_eq!(sent, [16_384, 4_096, 4_096]);
}

/// The input leaves room for 8341 tokens; later requests ask for less, since their inputs are longer.
#[tokio::test]
async fn the_window_that_a_server_names_is_learned() {
    let (outcomes, sent) = limits(vec![refused(WINDOW), hello(), hello()], 2).await;
    assert_eq!(outcomes, [Ok(()), Ok(())]);
    assert_eq!(sent, [16_384, 3_000, 3_000]);
}

#[tokio::test]
async fn a_request_is_sent_again_only_once_and_only_if_that_helps() {
    let crowded = "input length and `max_tokens` exceed context limit: 199500 + 16384 > 200000";
    let twice = "max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens";
    for (answers, class, expected) in [
        (
            vec![refused("no")],
            ErrorClass::InvalidRequest,
            &[16_384][..],
        ),
        (
            vec![refused(crowded)],
            ErrorClass::ContextTooLong,
            &[16_384],
        ),
        (
            vec![refused(twice), refused(twice)],
            ErrorClass::InvalidRequest,
            &[16_384, 4_096],
        ),
    ] {
        let (outcomes, sent) = limits(answers, 1).await;
        let classes: Vec<_> = outcomes
            .into_iter()
            .map(|it| it.map_err(|error| error.class))
            .collect();
        assert_eq!(classes, [Err(class)]);
        assert_eq!(sent, expected);
    }
}

/// A server whose parser for thinking and tool calls is not turned on.
#[tokio::test]
async fn tags_in_the_text_are_thinking_and_calls_if_the_quirk_is_set() {
    let answer = r#"{"id":"a","choices":[{"delta":{"content":"<thi"}}]}
        {"choices":[{"delta":{"content":"nk>Hm.</think>\n<tool_call>{\"name\": \"look\","}}]}
        {"choices":[{"delta":{"content":" \"arguments\": {\"at\": 1}}</tool_call>"},"finish_reason":"stop"}]}
        [DONE]"#;
    for (quirks, expected) in [
        (json!({}), "Text text EndTurn"),
        (
            json!({"textTags": {"think": "paired", "toolCall": true}}),
            r#"Thinking thinking ToolUse look {"at":1} ToolUse"#,
        ),
    ] {
        let server = Server::start(vec![vec![stream_head(), events(answer), stream_end()]]).await;
        let servers = json!({"gw": {"baseUrl": server.url, "quirks": quirks}});
        let provider = with_options(&[], &servers, |options| {
            ah_provider::connect("gw/m", options)
        });
        let mut stream = provider
            .expect("a provider")
            .stream(request(vec![user("Hi")]));
        let mut shown: Vec<String> = Vec::new();
        while let Some(event) = stream.next().await {
            let part = match event.expect("an answer") {
                StreamEvent::BlockStarted { block, .. } => match block {
                    BlockStart::Text(_) => "Text".to_owned(),
                    BlockStart::Thinking(_) => "Thinking".to_owned(),
                    BlockStart::ToolUse { name, .. } => format!("ToolUse {name}"),
                    other => format!("{other:?}"),
                },
                StreamEvent::Delta { delta, .. } => match delta {
                    Delta::Text(_) => "text".to_owned(),
                    Delta::Thinking(_) => "thinking".to_owned(),
                    Delta::InputJson(json) => json,
                    other => format!("{other:?}"),
                },
                StreamEvent::Stopping { stop_reason, .. } => format!("{stop_reason:?}"),
                _ => continue,
            };
            if shown.last() != Some(&part) {
                shown.push(part);
            }
        }
        assert_eq!(shown.join(" "), expected);
    }
}
