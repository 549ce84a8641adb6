//! Chat completions over loopback: requests and answers.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Delta, ErrorClass, Model, Provider, ProviderError, Request, StreamEvent};
use ah_provider::abilities::Abilities;
use ah_provider::auth::{Key, Secret};
use ah_provider::exchange::{SettingNames, Timeouts};
use ah_provider::openai::{Additions, Chat, Encoder, Quirks};
use ah_provider::retry::{Policy, Retrying};
use ah_provider::server;
use futures_util::StreamExt;

use crate::requests::{request, user};
use crate::server::{Part, Server, events, plain, stream_end, stream_head};

fn model() -> Model {
    Model {
        provider: "litellm".to_owned(),
        name: "m".to_owned(),
        context_window: 200_000,
        max_output: 1_000,
        price: None,
        long_price: None,
    }
}

pub(crate) fn server(url: &str, timeouts: Timeouts) -> server::Server {
    server::Server {
        client: ah_http::client(&ah_http::Options::default(), url).expect("a client"),
        http: ah_http::Options::default(),
        base_url: url.to_owned(),
        key: Some(Key {
            secret: Secret::Known("secret".to_owned()),
            header: None,
        }),
        headers: [("x-team".to_owned(), "a".to_owned())].into(),
        setting_names: SettingNames {
            address: "LITELLM_BASE_URL".to_owned(),
            credentials: "LITELLM_API_KEY".to_owned(),
        },
        timeouts,
        keep_fact: None,
        notes: None,
    }
}

fn chat(url: &str, timeouts: Timeouts) -> Chat {
    let (additions, quirks) = (Additions::default(), Quirks::default());
    let encoder = Encoder::new(model(), Abilities::default(), additions, quirks);
    Chat::new(server(url, timeouts), encoder).expect("an address")
}

fn retrying(url: &str) -> Arc<dyn Provider> {
    let policy = Policy {
        retries: 1,
        first_delay: Duration::from_millis(1),
        ..Policy::default()
    };
    Arc::new(Retrying::new(chat(url, Timeouts::default()), policy, 1))
}

/// The answer of `provider`: text, the delays between attempts, and the outcome.
pub(crate) async fn ask(provider: &dyn Provider) -> (String, Result<(), ProviderError>) {
    let mut said = String::new();
    let mut stream = provider.stream(request(vec![user("Hi")]));
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            }) => said.push_str(&text),
            Ok(StreamEvent::Retry(notice)) => said += &format!("|{:?}|", notice.delay),
            Ok(StreamEvent::Ended) => return (said, Ok(())),
            Ok(_) => {}
            Err(error) => return (said, Err(error)),
        }
    }
    panic!("a stream without an end")
}

fn beginning() -> Part {
    events(r#"{"id":"a","choices":[{"delta":{"content":"Hel"}}]}"#)
}

fn hello() -> Vec<Part> {
    let rest = events(
        r#"{"id":"a","choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}
        [DONE]"#,
    );
    vec![stream_head(), beginning(), rest, stream_end()]
}

#[tokio::test]
async fn a_request_is_sent() {
    let loopback = Server::start(vec![hello()]).await;
    let (said, outcome) = ask(&chat(&loopback.url, Timeouts::default())).await;
    assert_eq!((said.as_str(), outcome), ("Hello", Ok(())));
    let (head, body) = loopback.request();
    let head = head.lines().filter(|line| !line.starts_with("host: "));
    let mut head: Vec<_> = head.collect();
    head[1..].sort_unstable();
    insta::assert_snapshot!(head.join("\n"), @"
    POST /v1/chat/completions HTTP/1.1
    accept-encoding: identity
    accept: text/event-stream
    authorization: Bearer secret
    content-length: 129
    content-type: application/json
    user-agent: ah/0.1.0
    x-team: a
    ");
    insta::assert_snapshot!(body, @r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":1000,"messages":[{"role":"user","content":"Hi"}]}"#);
}

#[tokio::test]
async fn a_key_may_have_a_header_of_its_own() {
    let loopback = Server::start(vec![hello(), hello()]).await;
    let encoder = || {
        let (additions, quirks) = (Additions::default(), Quirks::default());
        Encoder::new(model(), Abilities::default(), additions, quirks)
    };
    let mut azure = server(&loopback.url, Timeouts::default());
    azure.key = Some(Key {
        secret: Secret::Known("secret".to_owned()),
        header: Some("api-key".to_owned()),
    });
    let mut open = azure.clone();
    open.key = None;
    for server in [azure, open] {
        let chat = Chat::new(server, encoder()).expect("an address");
        ask(&chat).await.1.expect("an answer");
    }
    let requests = loopback.requests();
    assert!(requests[0].contains("\r\napi-key: secret\r\n"));
    assert!(
        requests
            .iter()
            .all(|request| !request.contains("authorization"))
    );
    assert!(!requests[1].contains("secret"));
}

#[tokio::test]
async fn headers_that_cannot_be_sent_are_named() {
    let timeouts = Timeouts::default();
    let mut bad_key = server("http://h", timeouts);
    bad_key.key = Some(Key {
        secret: Secret::Known("sec\nret".to_owned()),
        header: None,
    });
    let mut bad_name = server("http://h", timeouts);
    bad_name.headers = [("a b".to_owned(), String::new())].into();
    let mut bad_value = server("http://h", timeouts);
    bad_value.headers = [("a".to_owned(), "\n".to_owned())].into();
    for (server, expected) in [
        (bad_key, "the key holds characters that a header cannot"),
        (bad_name, "`a b` is not a valid header name"),
        (
            bad_value,
            "the value of the header `a` holds characters that a header cannot",
        ),
    ] {
        let encoder = Encoder::new(
            model(),
            Abilities::default(),
            Additions::default(),
            Quirks::default(),
        );
        let error = Chat::new(server, encoder).err().expect("a failure");
        assert_eq!(error.message, expected);
    }
}

/// The delay is in the header as LiteLLM passes it on.
#[tokio::test]
async fn a_transient_failure_is_retried() {
    let busy = plain(
        "429 -",
        "llm_provider-retry-after: 0\r\n",
        r#"{"error":{"message":"litellm.RateLimitError","type":"throttling_error","code":"429"}}"#,
    );
    let cut = vec![stream_head(), beginning(), stream_end()];
    let broken = vec![stream_head(), beginning(), Part::Close];
    let failed = vec![
        stream_head(),
        beginning(),
        events(r#"{"error":{"message":"no","type":null,"code":"500"}}"#),
        stream_end(),
    ];
    for (first, expected) in [
        (busy, "|0ns|Hello"),
        (cut, "Hel"),
        (broken, "Hel"),
        (failed, "Hel"),
    ] {
        let loopback = Server::start(vec![first, hello()]).await;
        let (said, outcome) = ask(&*retrying(&loopback.url)).await;
        assert_eq!(outcome, Ok(()));
        assert!(
            said.starts_with(expected) && said.ends_with("|Hello"),
            "{said}"
        );
        assert_eq!(loopback.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_permanent_failure_is_reported_at_once_with_a_hint() {
    let page = plain(
        "200 OK",
        "content-type: text/html\r\n",
        "<html><title>Log in</title>",
    );
    for (answer, class, hint) in [
        (
            plain("401 -", "", ""),
            ErrorClass::Authentication,
            "check LITELLM_API_KEY",
        ),
        (
            plain("402 -", "", ""),
            ErrorClass::Billing,
            "check the account of LITELLM_API_KEY",
        ),
        (
            plain("400 -", "", ""),
            ErrorClass::InvalidRequest,
            "if the conversation is too long for the model, `/compact` shortens it; `context_window` in models.json is the \
             model's window",
        ),
        (
            plain("404 -", "", ""),
            ErrorClass::InvalidRequest,
            "check LITELLM_BASE_URL",
        ),
        (
            plain(
                "400 -",
                "",
                "There are no healthy deployments for this model",
            ),
            ErrorClass::ModelNotFound,
            "`ah models --refresh` reads the server's list of models",
        ),
        (
            page,
            ErrorClass::Protocol,
            "check LITELLM_BASE_URL and the proxy",
        ),
    ] {
        let loopback = Server::start(vec![answer]).await;
        let error = ask(&chat(&loopback.url, Timeouts::default()))
            .await
            .1
            .expect_err("a failure");
        assert_eq!(error.class, class, "{error}");
        assert_eq!(error.hint.unwrap_or_default(), hint);
        assert_eq!(loopback.requests().len(), 1);
    }
}

#[tokio::test]
async fn comments_do_not_prevent_a_timeout() {
    let comment = Part::Send(b"5\r\n: a\n\n\r\n".to_vec());
    let timeouts = Timeouts {
        first_event: Duration::from_millis(50),
        next_event: Duration::from_secs(3_600),
    };
    let answer = vec![stream_head(), comment, Part::Silence];
    let loopback = Server::start(vec![answer]).await;
    let error = ask(&chat(&loopback.url, timeouts))
        .await
        .1
        .expect_err("silence");
    assert_eq!(error.class, ErrorClass::Stalled);
}

/// A program on the user's machine that sends comments reads a long request; the time of a silent one is over before that.
#[tokio::test]
async fn a_program_that_still_reads_has_not_stalled() {
    let timeouts = Timeouts {
        first_event: Duration::from_millis(500),
        next_event: Duration::from_millis(500),
    };
    let progress = |read: u32| {
        events(&format!(
            r#"{{"choices":[{{"index":0,"delta":{{"role":"assistant","content":null}}}}],"id":"a",
            "prompt_progress":{{"total":100,"cache":0,"processed":{read},"time_ms":1}}}}"#
        ).replace('\n', ""))
    };
    let reading = [Part::Comments(40), progress(38), progress(100)];
    let mut answer = hello();
    answer.splice(1..1, reading);
    let loopback = Server::start(vec![answer]).await;
    let chat = chat(&loopback.url, timeouts);
    let asking = Request {
        tells_progress: true,
        ..request(vec![user("Hi")])
    };
    let mut told = Vec::new();
    let mut stream = chat.stream(asking);
    while let Some(event) = stream.next().await {
        if let StreamEvent::Reading { read, total } = event.expect("no stall") {
            told.push((read, total));
        }
    }
    assert_eq!(told, [(38, 100), (100, 100)]);
    let (_, body) = loopback.request();
    assert!(body.contains(r#""return_progress":true"#), "{body}");
}

/// What follows a stop reason are numbers and an end marker. An answer without them is whole.
#[tokio::test]
async fn a_whole_answer_counts_though_its_stream_stays_open_or_breaks() {
    let timeouts = Timeouts {
        next_event: Duration::from_millis(50),
        ..Timeouts::default()
    };
    let rest = |finish: &str| {
        events(&format!(
            r#"{{"id":"a","choices":[{{"delta":{{"content":"lo"}},"finish_reason":{finish}}}]}}"#
        ))
    };
    for (finish, end, expected) in [
        ("\"stop\"", Part::Silence, Ok(())),
        ("\"stop\"", Part::Close, Ok(())),
        ("null", Part::Silence, Err(ErrorClass::Stalled)),
        ("null", Part::Close, Err(ErrorClass::Network)),
    ] {
        let answer = vec![stream_head(), beginning(), rest(finish), end];
        let loopback = Server::start(vec![answer]).await;
        let (said, outcome) = ask(&chat(&loopback.url, timeouts)).await;
        let outcome = outcome.map_err(|error| error.class);
        assert_eq!((said.as_str(), outcome), ("Hello", expected), "{finish}");
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_is_an_answer() {
    let json = r#"{"id":"a","choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
    for content_type in ["application/json", "text/event-stream", "text/plain"] {
        let headers = format!("content-type: {content_type}\r\n");
        let loopback = Server::start(vec![plain("200 OK", &headers, json)]).await;
        let (said, outcome) = ask(&chat(&loopback.url, Timeouts::default())).await;
        assert_eq!((said.as_str(), outcome), ("Hello", Ok(())));
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    let loopback = Server::start(vec![vec![stream_head(), beginning(), Part::Silence]]).await;
    let chat = chat(&loopback.url, Timeouts::default());
    let mut stream = chat.stream(request(vec![user("Hi")]));
    while let Some(event) = stream.next().await {
        if matches!(event, Ok(StreamEvent::Delta { .. })) {
            break;
        }
    }
    drop(stream);
    loopback.client_left().await;
}
