//! Servers that refuse a part of a request.

use std::sync::Arc;

use ah_conversation::{
    ContentBlock, ErrorClass, Image, Provider, ProviderError, Role, StreamEvent,
};
use ah_provider::Options;
use ah_provider::catalog::Catalog;
use ah_provider::fact::KeepFact;
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::requests::{message, request};
use crate::route::{answered, with_options};
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

fn provider(server: &Server) -> Arc<dyn Provider> {
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
    let notice = format!("the server refuses a picture, so the model no longer sees it: {second}");
    assert_eq!(notices, Ok(vec![notice]));
    assert_eq!(ask(&*provider, &["BBBB", "CCCC"]).await, Ok(Vec::new()));
    assert_eq!(sent(&server), ["AAAA BBBB", "AAAA", "CCCC"]);
}

/// A server may name the fields one by one, and is not asked with them again: not in later sessions either.
#[tokio::test]
async fn refused_fields_are_left_out_for_this_model_of_the_server_from_then_on() {
    let server = Server::start(vec![
        refused("Unsupported value: 'min_p' does not support 0.1 with this model."),
        refused("Unknown parameter: 'stream_options'."),
        refused("Unsupported parameter: 'top_k' is not supported with this model."),
        hello(),
        hello(),
        hello(),
        refused("Unknown parameter: 'messages'."),
    ])
    .await;
    let servers = json!({"gw": {"baseUrl": server.url, "extraBody": {"top_k": 1, "min_p": 0.1}}});
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep: KeepFact = Arc::new({
        let kept = kept.clone();
        move |server, model, fact| {
            let mut kept = kept.lock();
            kept.push((format!("{server}/{model}"), fact.field()));
        }
    });
    let connect = |catalog: &Catalog| {
        with_options(&[], &servers, |options| {
            let options = Options {
                keep_fact: Some(&keep),
                catalog,
                ..*options
            };
            // Of others, the server would be asked for the window.
            ah_provider::connect("gw/claude-sonnet-5-5", &options)
        })
        .expect("a provider")
    };
    let mut catalog = Catalog::built_in();
    let provider = connect(&catalog);
    let notices = ask(&*provider, &[]).await.expect("an answer");
    let told: Vec<_> = { notices.iter() }
        .filter_map(|notice| notice.split('`').nth(1))
        .collect();
    assert_eq!(told, ["min_p", "stream_options", "top_k"], "{notices:?}");
    assert_eq!(ask(&*provider, &[]).await, Ok(Vec::new()));
    let kept = kept.lock().clone();
    let fields = json!(["stream_options", "top_k"]);
    let fact = (
        "gw/claude-sonnet-5-5".to_owned(),
        ("refused_fields", fields),
    );
    assert_eq!(kept, [fact]);
    // A later session.
    let (model, (field, value)) = &kept[0];
    let list = json!({"models": {model: {*field: value}}});
    catalog.extend(&list.to_string(), "list").expect("a list");
    let provider = connect(&catalog);
    assert_eq!(answered(&*provider).await, Ok(()));
    let optional = ["stream_options", "top_k", "min_p"];
    let sent = server.requests().into_iter().map(|request| {
        let (_, body) = request.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        optional.map(|name| body.get(name).is_some())
    });
    let expected = [
        [true, true, true],
        [true, true, false],
        [false, true, false],
        [false, false, false],
        [false, false, false],
        // The value may be another one by then.
        [false, false, true],
    ];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
    // Without some there is no request.
    let error = answered(&*provider).await.expect_err("a refusal");
    assert_eq!(error.class, ErrorClass::InvalidRequest);
}

/// The Responses API takes a request before it looks at its pictures.
#[tokio::test]
async fn a_picture_that_is_refused_within_an_answer_is_left_out_as_well() {
    let created = r#"{"type":"response.created","response":{"id":"r","status":"in_progress"}}"#;
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {
        "code": "image_parse_error", "message": "The image data you provided does not represent a valid image."}}});
    let failing = format!("{created}\n        {failed}");
    let completed = format!(
        "{created}\n        {}",
        r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}]}}"#
    );
    let answer = |lines: &str| vec![stream_head(), events(lines), stream_end()];
    let server = Server::start(vec![answer(&failing), answer(&completed)]).await;
    let servers = json!({"gw": {"baseUrl": server.url, "api": "openai-responses"}});
    let provider = with_options(&[], &servers, |options| {
        ah_provider::connect("gw/m", options)
    });
    let notices = ask(&*provider.expect("a provider"), &["AAAA"]).await;
    assert_eq!(notices.map(|notices| notices.len()), Ok(1));
    let sent = server.requests().into_iter();
    let has_picture: Vec<_> = sent.map(|request| request.contains("AAAA")).collect();
    assert_eq!(has_picture, [true, false]);
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
