//! The Messages API over real sockets, against a loopback server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::ContentBlock;
use ah_conversation::{
    Delta, Environment, ErrorClass, Message, MessageId, Origin, Provider, ProviderError, Request,
    Role, StreamEvent, Time,
};
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::retry::Policy;
use ah_provider::{Options, connect};
use futures_util::StreamExt;

use crate::route::no_command;
use crate::server::{Part, Server, beginning, events, hello, plain, stream_end, stream_head};

const QUICK: Policy = Policy {
    retries: 1,
    first_delay: Duration::from_millis(1),
    has_fallback: false,
};

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Environment::new(variables, PathBuf::new())
}

/// A provider for a model with `variables` in its environment.
fn provider_with(
    variables: &[(&str, &str)],
    retry: Policy,
    timeouts: Timeouts,
) -> Arc<dyn Provider> {
    connected("claude-opus-4-6", variables, retry, timeouts, false)
}

fn connected(
    model: &str,
    variables: &[(&str, &str)],
    retry: Policy,
    timeouts: Timeouts,
    fast_mode: bool,
) -> Arc<dyn Provider> {
    let environment = environment(variables);
    let http = ah_http::Options::from_variables(|name| environment.get(name));
    let options = Options {
        environment: &environment,
        catalog: &Catalog::built_in(),
        servers: &BTreeMap::new(),
        key_source: &no_command,
        http: &http,
        betas: &[],
        max_output: None,
        cache_ttl: ah_provider::caching::CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts,
        retry,
        seed: 1,
    };
    connect(model, &options).expect("connected")
}

fn provider(url: &str) -> Arc<dyn Provider> {
    let variables = [("ANTHROPIC_BASE_URL", url), ("ANTHROPIC_API_KEY", "key")];
    provider_with(&variables, QUICK, Timeouts::default())
}

fn request() -> Request {
    let message = Message {
        id: MessageId::from("1"),
        parent: None,
        seq: 0,
        role: Role::User,
        origin: Origin::Prompt,
        created_at: Time(0),
        content: vec![ContentBlock::text("Say hello.")],
        response: None,
    };
    Request {
        messages: Arc::new(vec![Arc::new(message)]),
        max_output: 100,
        ..Request::default()
    }
}

/// The answer of `provider` in short: text, `|` at the end of an attempt, and the outcome.
async fn ask(provider: &dyn Provider) -> (String, Result<(), ProviderError>) {
    let mut said = String::new();
    let mut stream = provider.stream(request());
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            }) => said.push_str(&text),
            Ok(StreamEvent::Retry(_)) => said.push('|'),
            Ok(StreamEvent::Ended) => return (said, Ok(())),
            Ok(_) => {}
            Err(error) => return (said, Err(error)),
        }
    }
    panic!("a stream without an end")
}

async fn fails(provider: &dyn Provider) -> ProviderError {
    ask(provider).await.1.expect_err("a failure")
}

#[tokio::test]
async fn a_request_identifies_itself_as_ah() {
    let server = Server::start(vec![hello()]).await;
    let (said, outcome) = ask(&*provider(&format!("{}/", server.url))).await;
    assert_eq!((said.as_str(), outcome), ("Hello", Ok(())));
    let (head, body) = server.request();
    let mut head: Vec<_> = head
        .lines()
        .filter(|line| !line.starts_with("host: "))
        .collect();
    head[1..].sort_unstable();
    insta::assert_snapshot!(head.join("\n"), @r"
    POST /v1/messages HTTP/1.1
    accept-encoding: identity
    accept: text/event-stream
    anthropic-version: 2023-06-01
    content-length: 172
    content-type: application/json
    user-agent: ah/0.1.0
    x-api-key: key
    ");
    insta::assert_snapshot!(body, @r#"{"model":"claude-opus-4-6","max_tokens":100,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Say hello.","cache_control":{"type":"ephemeral"}}]}]}"#);
}

#[tokio::test]
async fn each_kind_of_credentials_has_its_header() {
    for (variable, expected) in [
        ("ANTHROPIC_API_KEY", "x-api-key: secret\r\n"),
        ("ANTHROPIC_AUTH_TOKEN", "authorization: Bearer secret\r\n"),
        (
            "CLAUDE_CODE_OAUTH_TOKEN",
            "authorization: Bearer secret\r\n",
        ),
    ] {
        let server = Server::start(vec![hello()]).await;
        let variables = [
            ("ANTHROPIC_BASE_URL", server.url.as_str()),
            (variable, "secret"),
        ];
        let provider = provider_with(&variables, QUICK, Timeouts::default());
        ask(&*provider).await.1.expect("an answer");
        let (head, _) = server.request();
        assert!(head.contains(expected), "{head}");
        let is_oauth = variable.contains("OAUTH");
        assert_eq!(
            head.contains("anthropic-beta: oauth-2025-04-20\r\n"),
            is_oauth,
            "{head}"
        );
    }
}

#[tokio::test]
async fn turns_share_a_connection() {
    let server = Server::start(vec![hello(), hello(), hello()]).await;
    let provider = provider(&server.url);
    for _ in 0..3 {
        ask(&*provider).await.1.expect("an answer");
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn transient_failures_are_retried() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (name, failure, expected) in [
        ("status", plain("529 -", "", overloaded), "|Hello"),
        (
            "wait",
            plain("429 -", "retry-after-ms: 1\r\n", ""),
            "|Hello",
        ),
        (
            "in the answer",
            vec![stream_head(), beginning(), events(overloaded), stream_end()],
            "Hel|Hello",
        ),
        (
            "connection cut",
            vec![stream_head(), beginning(), Part::Close],
            "Hel|Hello",
        ),
        (
            "no message_stop",
            vec![stream_head(), beginning(), stream_end()],
            "Hel|Hello",
        ),
        ("no answer", vec![Part::Close], "|Hello"),
        (
            "not JSON",
            vec![stream_head(), events("{"), stream_end()],
            "|Hello",
        ),
        (
            "a web page",
            plain("200 OK", "content-type: text/html\r\n", "<html>"),
            "|Hello",
        ),
    ] {
        let server = Server::start(vec![failure, hello()]).await;
        let (said, outcome) = ask(&*provider(&server.url)).await;
        assert_eq!((said.as_str(), outcome), (expected, Ok(())), "{name}");
        let [first, second] = &server.requests()[..] else {
            panic!("{name}: not two requests")
        };
        assert_eq!(first, second, "{name}");
    }
}

#[tokio::test]
async fn permanent_failures_are_reported_with_a_hint() {
    let moved = plain("302 Found", "location: http://elsewhere/\r\n", "");
    let page = plain(
        "200 OK",
        "content-type: text/html\r\n",
        "<html><title>Log in</title>",
    );
    let unauthorized = plain("401 -", "", r#"{"error":{"message":"invalid x-api-key"}}"#);
    let no_model = plain("404 -", "", r#"{"error":{"message":"model: x"}}"#);
    for (answer, class, words, hint) in [
        (
            moved,
            ErrorClass::InvalidRequest,
            "API error 302: the server redirects to http://elsewhere/, which is not followed",
            "check ANTHROPIC_BASE_URL",
        ),
        (
            page,
            ErrorClass::Protocol,
            "the answer is not an event stream but text/html: a web page instead of an answer: Log in",
            "check ANTHROPIC_BASE_URL and the proxy",
        ),
        (
            unauthorized,
            ErrorClass::Authentication,
            "API error 401: invalid x-api-key",
            "check ANTHROPIC_API_KEY",
        ),
        (
            no_model,
            ErrorClass::ModelNotFound,
            "API error 404: model: x",
            "`ah models --refresh` reads the server's list of models",
        ),
    ] {
        let server = Server::start(vec![answer.clone(), answer]).await;
        let error = fails(&*provider(&server.url)).await;
        assert_eq!((error.class, error.to_string().as_str()), (class, words));
        assert_eq!(error.hint.as_deref(), Some(hint));
    }
}

#[tokio::test]
async fn a_stalled_server_is_an_error() {
    let short = |first_event, next_event| Timeouts {
        first_event: Duration::from_millis(first_event),
        next_event: Duration::from_millis(next_event),
    };
    let never = 3_600_000;
    for (name, answer, timeouts) in [
        ("no head", vec![Part::Silence], short(50, never)),
        (
            "no event",
            vec![stream_head(), Part::Silence],
            short(50, never),
        ),
        (
            "only pings",
            vec![stream_head(), Part::Pings],
            short(50, never),
        ),
        (
            "then silence",
            vec![stream_head(), beginning(), Part::Silence],
            short(never, 50),
        ),
        (
            "then pings",
            vec![stream_head(), beginning(), Part::Pings],
            short(never, 50),
        ),
    ] {
        let server = Server::start(vec![answer]).await;
        let variables = [
            ("ANTHROPIC_BASE_URL", server.url.as_str()),
            ("ANTHROPIC_API_KEY", "key"),
        ];
        let once = Policy {
            retries: 0,
            ..QUICK
        };
        let error = fails(&*provider_with(&variables, once, timeouts)).await;
        assert_eq!(error.class, ErrorClass::Stalled, "{name}");
        assert_eq!(
            error.message, "no data from the server for 0.05 s",
            "{name}"
        );
    }
}

#[tokio::test]
async fn to_drop_the_stream_is_to_end_the_request() {
    let server = Server::start(vec![vec![stream_head(), beginning(), Part::Silence]]).await;
    let provider = provider(&server.url);
    let mut stream = provider.stream(request());
    while let Some(event) = stream.next().await {
        if matches!(event, Ok(StreamEvent::Delta { .. })) {
            break;
        }
    }
    drop(stream);
    server.client_left().await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let server = Server::start(vec![hello()]).await;
    let provider = provider(&server.url);
    let unused = provider.stream(request());
    ask(&*provider).await.1.expect("an answer");
    drop(unused);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_in_one_piece_is_an_answer() {
    let message = r#"{"type":"message","id":"m","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn"}"#;
    let server = Server::start(vec![plain(
        "200 OK",
        "content-type: application/json\r\n",
        message,
    )])
    .await;
    let mut stream = provider(&server.url).stream(request());
    let mut text = String::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::Delta {
            delta: Delta::Text(piece),
            ..
        } = event.expect("no failure")
        {
            text.push_str(&piece);
        }
    }
    assert_eq!(text, "Hello");
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let error = fails(&*provider("http://127.0.0.1:1")).await;
    assert_eq!(error.class, ErrorClass::Network);
    assert!(
        error.message.starts_with("cannot connect to 127.0.0.1:1: "),
        "{error}"
    );
    assert!(error.hint.is_some());
}

#[tokio::test]
async fn proxies_of_the_environment_are_used() {
    let proxy = Server::start(vec![hello(), plain("502 Bad Gateway", "", "")]).await;
    let with_base = |base, no_proxy| {
        let variables = [
            ("ANTHROPIC_BASE_URL", base),
            ("ANTHROPIC_API_KEY", "key"),
            ("HTTP_PROXY", proxy.url.as_str()),
            ("https_proxy", proxy.url.as_str()),
            ("NO_PROXY", no_proxy),
        ];
        let once = Policy {
            retries: 0,
            ..QUICK
        };
        provider_with(&variables, once, Timeouts::default())
    };
    let plain_http = with_base("http://model.invalid", "");
    ask(&*plain_http).await.1.expect("an answer");
    let encrypted = fails(&*with_base("https://model.invalid", "")).await;
    assert_eq!(encrypted.class, ErrorClass::Network);
    let starts: Vec<_> = proxy
        .requests()
        .iter()
        .map(|request| request.lines().next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        starts,
        [
            "POST http://model.invalid/v1/messages HTTP/1.1",
            "CONNECT model.invalid:443 HTTP/1.1"
        ]
    );
    let direct = Server::start(vec![hello()]).await;
    ask(&*with_base(&direct.url, "127.0.0.1"))
        .await
        .1
        .expect("an answer");
    assert_eq!(proxy.requests().len(), 2);
}

/// It is asked for where the model has it; a server that does not know it is asked without, at the usual price.
#[tokio::test]
async fn fast_mode_has_its_price() {
    let unknown = r#"{"error":{"type":"invalid_request_error","message":"speed: Extra inputs are not permitted"}}"#;
    for (model, wanted, refused, [speed, beta], factor) in [
        ("claude-opus-5-5", true, false, [true, false], 2),
        ("claude-opus-5", true, false, [true, true], 2),
        ("claude-sonnet-5-5", true, false, [false, false], 1),
        ("claude-opus-5-5", false, false, [false, false], 1),
        ("claude-opus-5-5", true, true, [false, false], 1),
    ] {
        let refusal = refused.then(|| plain("400 Bad Request", "", unknown));
        let answers = refusal.into_iter().chain([hello()]).collect();
        let server = Server::start(answers).await;
        let variables = [
            ("ANTHROPIC_BASE_URL", server.url.as_str()),
            ("ANTHROPIC_API_KEY", "key"),
        ];
        let provider = connected(model, &variables, QUICK, Timeouts::default(), wanted);
        assert_eq!(ask(&*provider).await, ("Hello".to_owned(), Ok(())));
        let asked = server.requests().pop().expect("a request");
        let (head, body) = asked.split_once("\r\n\r\n").expect("a head");
        assert_eq!(body.contains(r#""speed":"fast""#), speed, "{model}");
        assert_eq!(head.contains("fast-mode-2026-02-01"), beta, "{model}");
        let usual = Catalog::built_in().model("anthropic", model).price;
        let price = usual.map(|price| price.times(factor));
        assert!(
            price.is_some() && provider.model().price == price,
            "{model}"
        );
    }
}

/// The API warns of these (`@anthropic-ai/sdk` 1.9.0, 16 November 2026); a later version refuses them.
#[tokio::test]
async fn no_beta_is_asked_for_that_is_deprecated() {
    for model in [
        "claude-opus-5-5",
        "claude-opus-5",
        "claude-fable-5-2",
        "claude-haiku-4-5",
    ] {
        let server = Server::start(vec![hello()]).await;
        let variables = [
            ("ANTHROPIC_BASE_URL", server.url.as_str()),
            ("ANTHROPIC_API_KEY", "key"),
        ];
        let provider = connected(model, &variables, QUICK, Timeouts::default(), true);
        assert_eq!(ask(&*provider).await.1, Ok(()));
        let (head, _) = server.request();
        for deprecated in [
            "message-batches-2024-09-24",
            "prompt-caching-2024-07-31",
            "pdfs-2024-09-25",
            "token-counting-2024-11-01",
            "token-efficient-tools-2025-02-19",
            "extended-cache-ttl-2025-04-11",
            "cache-diagnosis-2026-04-07",
        ] {
            assert!(!head.contains(deprecated), "{model}: {head}");
        }
    }
}

fn options(environment: &Environment) -> Options<'_> {
    Options {
        environment,
        catalog: Box::leak(Box::new(Catalog::built_in())),
        servers: Box::leak(Box::default()),
        key_source: &no_command,
        http: Box::leak(Box::default()),
        betas: &[],
        max_output: None,
        cache_ttl: ah_provider::caching::CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts: Timeouts::default(),
        retry: Policy::default(),
        seed: 1,
    }
}

/// Only of the vendor is it known when it stops serving a model.
#[test]
fn the_end_of_a_model_is_known_of_its_vendor() {
    let key = ("ANTHROPIC_API_KEY", "key");
    let gateway = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let end = |name: &str, variables: &[(&str, &str)]| {
        let environment = environment(variables);
        ah_provider::end(name, &options(&environment))
    };
    let day = Some(("opus", "22 January 2027"));
    assert_eq!(end("claude-opus-4-5", &[key]), day);
    assert_eq!(end("anthropic/claude-opus-4-5-20251101", &[key]), day);
    assert_eq!(end("claude-opus-4-5", &[key, gateway]), None);
    assert_eq!(end("opus", &[key]), None);
    assert_eq!(end("script:demo", &[key]), None);
}

#[tokio::test]
async fn names_lead_to_providers_or_errors() {
    let environment = environment(&[("ANTHROPIC_API_KEY", "key")]);
    for (name, provider, model) in [
        ("sonnet", "anthropic", "claude-sonnet-5-5"),
        ("claude-next", "anthropic", "claude-next"),
        ("anthropic/replay/x", "anthropic", "replay/x"),
        ("script:demo", "script", "demo"),
    ] {
        let connected = connect(name, &options(&environment)).expect("connected");
        let found = (
            connected.model().provider.as_str(),
            connected.model().name.as_str(),
        );
        assert_eq!(found, (provider, model));
    }
    for (name, expected) in [
        ("model-of-no-one", "no model is named `model-of-no-one`"),
        ("gpt-of-tomorrow", "no model is named `gpt-of-tomorrow`"),
        ("litellm/x", "no address for `litellm/` models"),
        (
            "script:/nowhere.yaml",
            "cannot read the scenario /nowhere.yaml",
        ),
    ] {
        let error = connect(name, &options(&environment))
            .err()
            .expect("an error");
        assert!(error.message.starts_with(expected), "{error}");
        assert!(error.hint.is_some());
    }
    let keyless = Environment::default();
    let error = connect("opus", &options(&keyless)).err().expect("an error");
    assert_eq!(error.class, ErrorClass::Authentication);
}
