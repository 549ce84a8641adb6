//! Servers that refuse a part of a request.

use ah_conversation::{
    ContentBlock, ErrorClass, Image, Provider, ProviderError, Role, StreamEvent,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::requests::{message, request};
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

/// Asks with these pictures in one message; returns the notices, or the error.
async fn ask(provider: &dyn Provider, pictures: &[&str]) -> Result<Vec<String>, ProviderError> {
    let pictures = pictures.iter().map(|data| {
        ContentBlock::Image(Image {
            media_type: "image/png".to_owned(),
            data: (*data).to_owned(),
        })
    });
    let content = [ContentBlock::text("Look.")].into_iter().chain(pictures);
    let asked = request(vec![message(Role::User, None, content.collect())]);
    let mut stream = provider.stream(asked);
    let mut notices = Vec::new();
    loop {
        match stream.next().await.expect("an end")? {
            StreamEvent::LeftOut { notice } => notices.push(notice),
            StreamEvent::Ended => return Ok(notices),
            _ => {}
        }
    }
}

/// Which pictures each request had.
fn sent(server: &Server) -> Vec<String> {
    let pictures = |request: &String| {
        let (_, body) = request.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let text = body["messages"].to_string();
        let known = ["AAAA", "BBBB", "CCCC"].into_iter();
        known
            .filter(|data| text.contains(data))
            .collect::<Vec<_>>()
            .join(" ")
    };
    server.requests().iter().map(pictures).collect()
}

fn provider(server: &Server) -> std::sync::Arc<dyn Provider> {
    let servers = json!({"gw": {"baseUrl": server.url}});
    with_options(&[], &servers, |options| {
        ah_provider::connect("gw/m", options)
    })
    .expect("a provider")
}

#[tokio::test]
async fn a_refused_picture_is_left_out_once_and_for_all_and_the_user_is_told() {
    let second = "Invalid 'messages[0].content[2].image_url': unsupported image";
    let server = Server::start(vec![refused(second), hello(), hello()]).await;
    let provider = provider(&server);
    let notices = ask(&*provider, &["AAAA", "BBBB"]).await;
    let notice = format!(
        "the server refuses a picture, which is left out of what the model sees from now on: {second}"
    );
    assert_eq!(notices, Ok(vec![notice]));
    assert_eq!(ask(&*provider, &["BBBB", "CCCC"]).await, Ok(Vec::new()));
    assert_eq!(sent(&server), ["AAAA BBBB", "AAAA", "CCCC"]);
}

/// What does not help is not remembered.
#[tokio::test]
async fn a_refusal_that_stays_is_reported_and_nothing_is_left_out_later() {
    let server = Server::start(vec![
        refused("Bad Request"),
        refused("Bad Request"),
        hello(),
    ])
    .await;
    let provider = provider(&server);
    let error = ask(&*provider, &["AAAA"]).await.expect_err("a refusal");
    assert_eq!(error.class, ErrorClass::InvalidRequest);
    assert_eq!(ask(&*provider, &["AAAA"]).await, Ok(Vec::new()));
    assert_eq!(sent(&server), ["AAAA", "", "AAAA"]);
}

#[tokio::test]
async fn a_window_that_a_refusal_names_counts_from_then_on() {
    let text = "prompt token count of 140000 exceeds the limit of 128000";
    let server = Server::start(vec![refused(text)]).await;
    let provider = provider(&server);
    let limits = |provider: &dyn Provider| {
        let model = provider.model();
        (model.context_window, model.max_output)
    };
    let before = limits(&*provider);
    let error = ask(&*provider, &[]).await.expect_err("a refusal");
    assert_eq!(error.class, ErrorClass::ContextTooLong);
    assert_eq!(
        (before.0, limits(&*provider)),
        (200_000, (128_000, before.1))
    );
}
