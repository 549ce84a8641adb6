//! Lists of models, as the servers of every kind give them.

use ah_conversation::{ErrorClass, ProviderError};
use ah_provider::catalog::Catalog;
use ah_provider::listing::Listing;
use ah_provider::{configured, list};
use serde_json::{Value, json};

use crate::route::with_options;
use crate::server::{Part, Server, plain};

fn found(body: &Value) -> Vec<Part> {
    plain(
        "200 OK",
        "content-type: application/json\r\n",
        &body.to_string(),
    )
}

fn missing() -> Vec<Part> {
    plain("404 Not Found", "", "{}")
}

/// Asks `name` for its models; its address is in `variable`.
async fn listed(name: &str, variable: &str, server: &Server) -> Result<Listing, ProviderError> {
    let runtime = tokio::runtime::Handle::current();
    let variables = [
        (variable.to_owned(), server.url.clone()),
        ("ANTHROPIC_API_KEY".to_owned(), "k".to_owned()),
        ("LITELLM_API_KEY".to_owned(), "k".to_owned()),
    ];
    let name = name.to_owned();
    let asking = tokio::task::spawn_blocking(move || {
        let variables = variables
            .each_ref()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        with_options(&variables, &json!({}), |options| {
            runtime.block_on(list(&name, options))
        })
    });
    asking.await.expect("no panic")
}

/// Returns the paths of the requests, with their methods.
fn paths(server: &Server) -> Vec<String> {
    let first = |request: &String| {
        let line = request.lines().next().unwrap_or_default();
        line.trim_end_matches(" HTTP/1.1").to_owned()
    };
    server.requests().iter().map(first).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_the_messages_api_comes_in_pages() {
    let page = |id: &str, more: bool| {
        found(
            &json!({"data": [{"type": "model", "id": id, "max_input_tokens": 5, "max_tokens": 2}],
            "has_more": more, "last_id": id}),
        )
    };
    let server = Server::start(vec![page("claude-a", true), page("claude-b", false)]).await;
    let listing = listed("anthropic", "ANTHROPIC_BASE_URL", &server)
        .await
        .expect("a list");
    assert_eq!(
        paths(&server),
        [
            "GET /v1/models?limit=1000",
            "GET /v1/models?limit=1000&after_id=claude-a"
        ]
    );
    let request = &server.requests()[0];
    for header in [
        "x-api-key: k\r\n",
        "anthropic-version: 2023-06-01\r\n",
        "accept: application/json\r\n",
    ] {
        assert!(request.contains(header), "{request}");
    }
    let file = listing.to_catalogue("2026-11-22");
    assert_eq!(
        file,
        json!({"source": format!("{}/v1/models", server.url), "date": "2026-11-22", "models": {
            "anthropic/claude-a": {"context_window": 5, "max_output": 2},
            "anthropic/claude-b": {"context_window": 5, "max_output": 2},
        }})
    );
    let mut catalog = Catalog::built_in();
    catalog
        .extend(&file.to_string(), "list")
        .expect("a catalogue");
    let entry = catalog.entry("anthropic", "claude-b");
    assert_eq!(
        (entry.context_window, entry.origin.as_str()),
        (5, "list, 2026-11-22")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn litellm_says_limits_and_prices() {
    let about = json!({"data": [{"model_name": "team", "model_info": {"max_input_tokens": 90000,
        "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}}]});
    let server = Server::start(vec![found(&about)]).await;
    let listing = listed("litellm", "LITELLM_BASE_URL", &server)
        .await
        .expect("a list");
    assert_eq!(paths(&server), ["GET /v1/model/info"]);
    assert!(server.requests()[0].contains("authorization: Bearer k\r\n"));
    assert_eq!(
        Value::Object(listing.models),
        json!({"team": {"context_window": 90000, "price": {"input": 1.0, "output": 2.0}}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_list_of_limits_has_one_of_names() {
    let names =
        json!({"object": "list", "data": [{"id": "Qwen/Qwen3-32B", "max_model_len": 12000}]});
    let server = Server::start(vec![missing(), found(&names)]).await;
    let listing = listed("openai", "OPENAI_BASE_URL", &server)
        .await
        .expect("a list");
    assert_eq!(paths(&server), ["GET /v1/model/info", "GET /v1/models"]);
    assert_eq!(
        Value::Object(listing.models),
        json!({"Qwen/Qwen3-32B": {"context_window": 12000}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ollama_is_asked_about_each_model() {
    let names = json!({"models": [{"name": "qwen3:8b"}, {"name": "embed:1b"}]});
    let server = Server::start(vec![
        found(&names),
        found(
            &json!({"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion"]}),
        ),
        found(&json!({"capabilities": ["embedding"]})),
    ])
    .await;
    let listing = listed("ollama", "OLLAMA_HOST", &server)
        .await
        .expect("a list");
    assert_eq!(
        paths(&server),
        ["GET /api/tags", "POST /api/show", "POST /api/show"]
    );
    assert!(server.requests()[1].ends_with(r#"{"model":"qwen3:8b"}"#));
    assert_eq!(
        Value::Object(listing.models),
        json!({"qwen3:8b": {"context_window": 40960}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_had_is_an_error() {
    for (answers, class) in [
        (
            vec![plain("401 Unauthorized", "", "{}")],
            ErrorClass::Authentication,
        ),
        (vec![plain("200 OK", "", "<html>")], ErrorClass::Protocol),
        (vec![found(&json!({"data": []}))], ErrorClass::Protocol),
        (vec![], ErrorClass::Network),
    ] {
        let server = Server::start(answers).await;
        let error = listed("anthropic", "ANTHROPIC_BASE_URL", &server)
            .await
            .expect_err("an error");
        assert_eq!(error.class, class, "{error}");
    }
}

#[test]
fn servers_with_an_address_or_a_key_are_set_up() {
    let own = json!({"gw": {"baseUrl": "http://h"}, "ollama": {"baseUrl": "http://h"}});
    for (variables, servers, expected) in [
        (&[][..], &json!({}), &[][..]),
        (&[("ANTHROPIC_API_KEY", "k")], &json!({}), &["anthropic"]),
        (
            &[("LITELLM_BASE_URL", "http://h"), ("OPENAI_API_KEY", "k")],
            &json!({}),
            &["litellm", "openai"],
        ),
        (&[("OLLAMA_HOST", "h")], &json!({}), &["ollama"]),
        (&[("LITELLM_API_KEY", "k")], &own, &["gw", "ollama"]),
    ] {
        let found = with_options(variables, servers, configured);
        assert_eq!(found, expected, "{variables:?}");
    }
}
