//! Finding the server of a model by its name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_conversation::{Environment, ErrorClass, Provider, ProviderError, StreamEvent};
use ah_provider::auth::KeySource;
use ah_provider::catalog::Catalog;
use ah_provider::exchange::Timeouts;
use ah_provider::named_server::NamedServer;
use ah_provider::retry::Policy;
use ah_provider::{Options, connect};
use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::requests::{request, user};
use crate::server::{Part, Server, events, plain, stream_end, stream_head};

/// A key source for tests that configure no command.
pub fn no_command(_: &str, setting: &str) -> Arc<dyn KeySource> {
    panic!("no command is set in {setting}")
}

/// Returns the keys that the command lists, one after the other.
struct Listed(Vec<String>, AtomicUsize);

#[async_trait]
impl KeySource for Listed {
    async fn key(&self) -> Result<String, ProviderError> {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        Ok(self.0[number].clone())
    }
}

fn listed(command: &str, _: &str) -> Arc<dyn KeySource> {
    let keys = command.split_whitespace().map(str::to_owned);
    Arc::new(Listed(keys.collect(), AtomicUsize::new(0)))
}

pub fn connected_with(
    name: &str,
    variables: &[(&str, &str)],
    servers: &Value,
) -> Result<Arc<dyn Provider>, ProviderError> {
    with_options(variables, servers, |options| connect(name, options))
}

pub fn with_options<T>(
    variables: &[(&str, &str)],
    servers: &Value,
    ask: impl FnOnce(&Options<'_>) -> T,
) -> T {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let servers: BTreeMap<String, NamedServer> =
        serde_json::from_value(servers.clone()).expect("servers");
    let environment = Environment::new(variables, PathBuf::new());
    let options = Options {
        environment: &environment,
        catalog: &Catalog::built_in(),
        servers: &servers,
        key_source: &listed,
        http: &ah_http::Options::from_variables(|name| environment.get(name)),
        betas: &["b1".to_owned()],
        max_output: None,
        cache_ttl: ah_provider::caching::CacheTtl::default(),
        conversation_state: Default::default(),
        server_compaction: false,
        fast_mode: false,
        keep_fact: None,
        keep_warm: 0,
        notes: None,
        timeouts: Timeouts::default(),
        retry: Policy {
            retries: 0,
            ..Policy::default()
        },
        seed: 1,
    };
    ask(&options)
}

pub fn connected(
    name: &str,
    variables: &[(&str, &str)],
) -> Result<Arc<dyn Provider>, ProviderError> {
    connected_with(name, variables, &json!({}))
}

pub async fn answered(provider: &dyn Provider) -> Result<(), ProviderError> {
    let mut stream = provider.stream(request(vec![user("Hi")]));
    while let Some(event) = stream.next().await {
        if event? == StreamEvent::Ended {
            return Ok(());
        }
    }
    panic!("a stream without an end")
}

pub fn hello() -> Vec<Part> {
    let answer = r#"{"id":"a","choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}
        [DONE]"#;
    vec![stream_head(), events(answer), stream_end()]
}

/// The part before the `/` selects the server, the rest is sent as the model's name.
#[tokio::test]
async fn a_model_is_found_by_its_vendor() {
    for (name, variables, path, model, key) in [
        (
            "litellm/anthropic/claude-opus-4-6",
            ["LITELLM_BASE_URL", "LITELLM_API_KEY"],
            "/v1/chat/completions",
            "anthropic/claude-opus-4-6",
            true,
        ),
        (
            "openai/m",
            ["OPENAI_BASE_URL", "OPENAI_API_KEY"],
            "/v1/chat/completions",
            "m",
            true,
        ),
        (
            "openai-responses/m",
            ["OPENAI_BASE_URL", "OPENAI_API_KEY"],
            "/v1/responses",
            "m",
            true,
        ),
        (
            "ollama/m:7b",
            ["OLLAMA_HOST", "OTHER_API_KEY"],
            "/v1/chat/completions",
            "m:7b",
            false,
        ),
    ] {
        let loopback = Server::start(vec![hello()]).await;
        let [address, credentials] = variables;
        let variables = [(address, loopback.url.as_str()), (credentials, " k\n")];
        let provider = connected(name, &variables).expect(name);
        assert_eq!(provider.model().name, model);
        assert_eq!(
            Some(provider.model().provider.as_str()),
            name.split('/').next()
        );
        // Some answers are of another API; only the request matters here.
        let _ = answered(&*provider).await;
        let (head, body) = loopback.request();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1")), "{head}");
        assert_eq!(
            head.contains("\r\nauthorization: Bearer k\r\n"),
            key,
            "{head}"
        );
        assert!(body.contains(&format!("\"model\":\"{model}\"")), "{body}");
        assert_eq!(
            body.contains("\"anthropic-beta\":\"b1\""),
            name.starts_with("litellm")
        );
    }
    let known = connected(
        "litellm/anthropic/claude-opus-4-6",
        &[("LITELLM_BASE_URL", "http://h")],
    );
    assert!(known.expect("no key is needed").model().price.is_some());
}

#[test]
fn missing_settings_are_named() {
    for (name, class, hint) in [
        (
            "litellm/m",
            ErrorClass::InvalidRequest,
            "set LITELLM_BASE_URL to the address of the server",
        ),
        ("openai/m", ErrorClass::Authentication, "set OPENAI_API_KEY"),
        (
            "openai-responses/m",
            ErrorClass::Authentication,
            "set OPENAI_API_KEY",
        ),
    ] {
        let error = connected(name, &[]).err().expect("a failure");
        assert_eq!((error.class, error.hint.as_deref()), (class, Some(hint)));
    }
    connected("ollama/m", &[]).map(drop).expect("it is here");
    let error = connected("oracle/m", &[]).err().expect("a failure");
    assert_eq!(error.class, ErrorClass::ModelNotFound);
}

/// A server in the settings and the expected request to it.
#[tokio::test]
async fn settings_can_define_servers() {
    for (servers, name, variables, path, expected, unexpected) in [
        (
            json!({"here": {"baseUrl": "URL"}}),
            "here/m",
            vec![],
            "/v1/chat/completions",
            vec!["\"model\":\"m\""],
            vec!["authorization", "anthropic-beta"],
        ),
        (
            json!({"gw": {"api": "openai", "baseUrl": "URL/v1/", "keyEnv": "GW", "headers": {"X-Team": "a"},
                   "extraBody": {"user": "u"}, "quirks": {"extraHeaders": true, "modelPrefix": "p/"}}}),
            "gw/m",
            vec![("GW", "k1")],
            "/v1/chat/completions",
            vec![
                "authorization: Bearer k1\r\n",
                "x-team: a\r\n",
                "\"model\":\"p/m\"",
                "\"user\":\"u\"",
                "\"extra_headers\":{\"X-Team\":\"a\",\"anthropic-beta\":\"b1\"}",
            ],
            vec![],
        ),
        (
            json!({"azure": {"api": "openai-responses", "baseUrl": "URL/openai/v1", "keyEnv": "GW", "keyHeader": "api-key"}}),
            "azure/d/m",
            vec![("GW", "k1")],
            "/openai/v1/responses",
            vec!["api-key: k1\r\n", "\"model\":\"d/m\""],
            vec!["authorization"],
        ),
        (
            json!({"claudes": {"api": "anthropic", "baseUrl": "URL/a/v1", "keyEnv": "GW", "headers": {"x-team": "a"},
                   "extraBody": {"top_k": 7, "max_tokens": 77}}}),
            "claudes/claude-x",
            vec![("GW", "k1"), ("ANTHROPIC_API_KEY", "k2")],
            "/a/v1/messages",
            vec![
                "x-api-key: k1\r\n",
                "x-team: a\r\n",
                "anthropic-beta: b1\r\n",
                "anthropic-version: ",
                "\"top_k\":7",
                "\"max_tokens\":77",
            ],
            vec!["k2", "\"max_tokens\":1"],
        ),
        (
            json!({"claudes": {"api": "anthropic", "baseUrl": "URL", "keyEnv": "GW", "keyHeader": "Authorization"}}),
            "claudes/claude-x",
            vec![("GW", "k1")],
            "/v1/messages",
            vec!["authorization: Bearer k1\r\n"],
            vec!["x-api-key"],
        ),
        // A known name provides what the settings do not set.
        (
            json!({"litellm": {"headers": {"x-team": "a"}}}),
            "litellm/m",
            vec![("LITELLM_BASE_URL", "URL"), ("LITELLM_API_KEY", "k1")],
            "/v1/chat/completions",
            vec![
                "authorization: Bearer k1\r\n",
                "x-team: a\r\n",
                "\"extra_headers\":{",
            ],
            vec![],
        ),
        (
            json!({"anthropic": {"baseUrl": "URL"}}),
            "claude-x",
            vec![("CLAUDE_CODE_OAUTH_TOKEN", "k1")],
            "/v1/messages",
            vec![
                "authorization: Bearer k1\r\n",
                "anthropic-beta: oauth-2025-04-20,b1\r\n",
            ],
            vec!["x-api-key"],
        ),
    ] {
        let loopback = Server::start(vec![hello()]).await;
        let servers = servers.to_string().replace("URL", &loopback.url);
        let servers = serde_json::from_str(&servers).expect("JSON");
        let variables: Vec<_> = variables
            .into_iter()
            .map(|(name, value)| (name, value.replace("URL", &loopback.url)))
            .collect();
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let provider = connected_with(name, &variables, &servers).expect(name);
        // The outcome does not matter here.
        let _ = answered(&*provider).await;
        let (head, body) = loopback.request();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1")), "{head}");
        let whole = format!("{head}\r\n\r\n{body}");
        for part in expected {
            assert!(whole.contains(part), "{part} is not in {whole}");
        }
        for part in unexpected {
            assert!(!whole.contains(part), "{part} is in {whole}");
        }
    }
}

#[tokio::test]
async fn the_key_command_runs_again_after_a_rejection() {
    let servers =
        |url: &str, keys: &str| json!({"gw": {"baseUrl": url, "keyCommand": keys, "keyEnv": "GW"}});
    let refused = || plain("401 -", "", "");
    for (answers, variables, keys, class) in [
        (vec![refused(), hello()], vec![], vec!["k1", "k2"], None),
        (
            vec![refused(), refused()],
            vec![],
            vec!["k1", "k2"],
            Some(ErrorClass::Authentication),
        ),
        (
            vec![refused()],
            vec![("GW", "k0")],
            vec!["k0"],
            Some(ErrorClass::Authentication),
        ),
    ] {
        let loopback = Server::start(answers).await;
        let servers = servers(&loopback.url, "k1 k2 k3");
        let provider = connected_with("gw/m", &variables, &servers).expect("a server");
        let outcome = answered(&*provider).await;
        assert_eq!(outcome.as_ref().err().map(|error| error.class), class);
        let hint = outcome.err().and_then(|error| error.hint);
        let setting = if variables.is_empty() {
            "providers.gw.keyCommand"
        } else {
            "GW"
        };
        assert_eq!(hint, class.map(|_| format!("check {setting}")));
        let requests = loopback.requests();
        assert_eq!(requests.len(), keys.len());
        for (request, key) in requests.iter().zip(keys) {
            assert!(
                request.contains(&format!("authorization: Bearer {key}\r\n")),
                "{request}"
            );
        }
    }
}

/// Requests to Bedrock are signed by the credentials of the variables, or by those that a command prints, which is asked again once
/// they have expired.
#[cfg(feature = "sigv4")]
#[tokio::test]
async fn requests_to_bedrock_are_signed() {
    let bedrock = |more: Value| {
        let mut settings = json!({"baseUrl": "http://bedrock-mantle.eu-west-1.api.aws/anthropic"});
        let fields = settings.as_object_mut().expect("an object");
        fields.extend(more.as_object().cloned().unwrap_or_default());
        json!({"bedrock": settings})
    };
    let printed = |id: &str| format!(r#"{{"AccessKeyId":"{id}","SecretAccessKey":"s"}}"#);
    let commands = format!("{} {}", printed("ONE"), printed("TWO"));
    let expired = || {
        let body = r#"{"message":"The security token included in the request is expired"}"#;
        plain("403 Forbidden", "", body)
    };
    let variables = [
        ("AWS_ACCESS_KEY_ID", "OWN"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_SESSION_TOKEN", "t"),
    ];
    for (settings, variables, answers, signers) in [
        (json!({}), &variables[..], vec![hello()], vec!["OWN"]),
        (
            json!({"keyCommand": commands}),
            &[],
            vec![expired(), hello()],
            vec!["ONE", "TWO"],
        ),
    ] {
        let loopback = Server::start(answers).await;
        let proxy = ("HTTP_PROXY", loopback.url.as_str());
        let variables: Vec<_> = variables.iter().copied().chain([proxy]).collect();
        let name = "bedrock/us.anthropic.claude-opus-5-5";
        let provider = connected_with(name, &variables, &bedrock(settings)).expect(name);
        // The answer is of another API; only the request matters here.
        let _ = answered(&*provider).await;
        let requests = loopback.requests();
        assert_eq!(requests.len(), signers.len());
        for (request, signer) in requests.iter().zip(signers) {
            let proof = format!("\r\nauthorization: AWS4-HMAC-SHA256 Credential={signer}/");
            assert!(request.contains(&proof), "{request}");
            assert!(request.contains("/eu-west-1/bedrock-mantle/aws4_request, "));
            let has_token = request.contains("\r\nx-amz-security-token: t\r\n");
            assert_eq!(has_token, signer == "OWN", "{request}");
        }
    }
    let error = connected("bedrock/m", &[("AWS_REGION", "eu-west-1")]);
    let error = error.err().expect("no credentials");
    assert_eq!(
        error.hint.as_deref(),
        Some("set AWS_BEARER_TOKEN_BEDROCK or AWS_PROFILE")
    );
}

#[test]
fn without_a_key_the_hint_lists_configured_servers() {
    let servers =
        json!({"team": {"baseUrl": "http://h"}, "shut": {"baseUrl": "http://h", "keyEnv": "SHUT"}});
    for (name, variables, servers, expected) in [
        (
            "opus",
            vec![],
            json!({}),
            "set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN, or write ANTHROPIC_API_KEY=... into \
             the .env of a folder you trust",
        ),
        (
            "opus",
            vec![("LITELLM_BASE_URL", "http://h"), ("OPENAI_API_KEY", "k")],
            json!({}),
            "set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN, or write ANTHROPIC_API_KEY=... into \
             the .env of a folder you trust; or use a server that is configured: `--model litellm/NAME`, `--model openai/NAME`",
        ),
        (
            "shut/m",
            vec![],
            servers,
            "set SHUT; or use a server that is configured: `--model team/NAME`",
        ),
    ] {
        let error = connected_with(name, &variables, &servers)
            .err()
            .expect("a failure");
        assert_eq!(error.class, ErrorClass::Authentication);
        assert_eq!(error.hint.as_deref(), Some(expected));
    }
}

/// The small model is the one that a variable names, or the vendor's own. A provider can be made for it.
#[test]
fn the_small_model_is_the_named_one_or_the_vendors_own() {
    let gateway = json!({"openai": {"baseUrl": "http://h"}});
    let elsewhere = ("ANTHROPIC_BASE_URL", "http://h");
    for (server, variables, servers, expected) in [
        ("anthropic", &[][..], &json!({}), Some("haiku")),
        ("openai", &[], &json!({}), Some("openai/gpt-5.4-mini")),
        (
            "openai-responses",
            &[],
            &json!({}),
            Some("openai-responses/gpt-5.4-mini"),
        ),
        ("anthropic", &[elsewhere], &json!({}), None),
        (
            "anthropic",
            &[elsewhere, ("ANTHROPIC_SMALL_FAST_MODEL", "glm-5-air")],
            &json!({}),
            Some("glm-5-air"),
        ),
        (
            "anthropic",
            &[elsewhere, ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "glm-5-air")],
            &json!({}),
            Some("haiku"),
        ),
        ("openai", &[], &gateway, None),
        ("ollama", &[], &json!({}), None),
        (
            "litellm",
            &[("LITELLM_BASE_URL", "http://h")],
            &json!({}),
            None,
        ),
        ("nobody", &[], &json!({}), None),
    ] {
        let found = with_options(variables, servers, |options| {
            ah_provider::small(server, options)
        });
        assert_eq!(found.as_deref(), expected, "{server} {variables:?}");
        if let Some(name) = found {
            let keys = [
                ("ANTHROPIC_API_KEY", "k"),
                ("OPENAI_API_KEY", "k"),
                elsewhere,
            ];
            assert!(connected(&name, &keys).is_ok(), "{name}");
        }
    }
}

/// A name that neither says its server nor is in a list goes to the server that is configured for all models.
#[test]
fn a_model_that_no_list_has_goes_to_the_configured_server() {
    let messages = ("ANTHROPIC_BASE_URL", "http://h");
    let litellm = ("LITELLM_BASE_URL", "http://h");
    let openai = ("OPENAI_BASE_URL", "http://h");
    let (one, two) = (
        json!({"gw": {"baseUrl": "http://h"}}),
        json!({"gw": {"baseUrl": "http://h"}, "b": {"baseUrl": "http://h"}}),
    );
    let none = json!({});
    let of_messages = Some("anthropic (ANTHROPIC_BASE_URL)");
    for (name, variables, servers, model, expected) in [
        (
            "glm-5",
            &[messages][..],
            &none,
            "anthropic:glm-5",
            of_messages,
        ),
        (
            "glm-5",
            &[messages, litellm],
            &two,
            "anthropic:glm-5",
            of_messages,
        ),
        (
            "zai/glm-5",
            &[messages],
            &none,
            "anthropic:zai/glm-5",
            of_messages,
        ),
        (
            "glm-5",
            &[litellm, openai],
            &none,
            "litellm:glm-5",
            Some("litellm (LITELLM_BASE_URL)"),
        ),
        (
            "glm-5",
            &[openai],
            &none,
            "openai:glm-5",
            Some("openai (OPENAI_BASE_URL)"),
        ),
        (
            "glm-5",
            &[],
            &one,
            "gw:glm-5",
            Some("gw (providers.gw.baseUrl)"),
        ),
        // The name says the server.
        (
            "litellm/glm-5",
            &[messages, litellm],
            &none,
            "litellm:glm-5",
            None,
        ),
        (
            "claude-next",
            &[messages],
            &none,
            "anthropic:claude-next",
            None,
        ),
        (
            "opus",
            &[messages],
            &none,
            "anthropic:claude-opus-5-5",
            None,
        ),
        ("script:demo", &[messages], &none, "script:demo", None),
        // No server is meant for all models.
        ("glm-5", &[], &none, "-", None),
        ("glm-5", &[], &two, "-", None),
        (
            "glm-5",
            &[("ANTHROPIC_BASE_URL", "https://api.anthropic.com")],
            &none,
            "-",
            None,
        ),
        ("glm-5", &[("OLLAMA_HOST", "http://h")], &none, "-", None),
    ] {
        let keys = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
        let variables: Vec<_> = variables.iter().chain(&keys).copied().collect();
        let connected = connected_with(name, &variables, servers);
        let shown = connected.map_or("-".to_owned(), |provider| {
            let found = provider.model();
            format!("{}:{}", found.provider, found.name)
        });
        assert_eq!(shown, model, "{name} {variables:?}");
        let server = with_options(&variables, servers, |options| {
            ah_provider::unlisted(name, options)
        });
        assert_eq!(server.as_deref(), expected, "{name} {variables:?}");
    }
}

/// A model in the list of a server is asked for there, also without the server's name.
#[test]
fn a_listed_model_goes_to_its_server() {
    let mut catalog = Catalog::built_in();
    let list = r#"{"models": {"litellm/team": {}, "b/both": {}, "gw/both": {}, "gone/m": {}}}"#;
    catalog.extend(list, "list").expect("a catalogue");
    let variables = [
        ("LITELLM_BASE_URL", "http://h"),
        ("ANTHROPIC_BASE_URL", "http://h"),
    ];
    let servers = json!({"gw": {"baseUrl": "http://h"}, "b": {"baseUrl": "http://h"}});
    for (name, expected) in [
        ("team", "litellm"),
        ("both", "b"),
        ("litellm/team", "litellm"),
        ("gone/m", "anthropic"),
        ("m", "anthropic"),
    ] {
        let provider = with_options(&variables, &servers, |options| {
            let options = Options {
                catalog: &catalog,
                ..*options
            };
            let keyed = [("ANTHROPIC_API_KEY", "k")].into_iter().chain(variables);
            let keyed = keyed.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let environment = Environment::new(keyed, PathBuf::new());
            connect(
                name,
                &Options {
                    environment: &environment,
                    ..options
                },
            )
        });
        assert_eq!(provider.expect(name).model().provider, expected, "{name}");
    }
}

/// The window of a million tokens is asked for by a suffix, which is not sent; most models have it anyway.
#[tokio::test]
async fn a_suffix_asks_for_the_wide_window() {
    for (name, sent, window) in [
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5", 1_000_000),
        ("claude-sonnet-4-5", "claude-sonnet-4-5", 200_000),
        ("opus[1m]", "claude-opus-5-5", 1_000_000),
    ] {
        let server = Server::start(vec![vec![stream_head(), stream_end()]]).await;
        let variables = [
            ("ANTHROPIC_BASE_URL", server.url.as_str()),
            ("ANTHROPIC_API_KEY", "k"),
        ];
        let provider = connected(name, &variables).expect("a model");
        assert_eq!(provider.model().context_window, window, "{name}");
        let _ = answered(&*provider).await;
        let (head, body) = server.request();
        let is_asked = head.contains("context-1m-2025-08-07");
        assert_eq!(is_asked, name.ends_with("[1m]"), "{head}");
        assert!(body.contains(&format!("\"model\":\"{sent}\"")), "{body}");
    }
}
