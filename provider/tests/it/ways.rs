//! The rules by which a name leads to a server and a protocol, and what follows from a refusal of the protocol.

use ah_conversation::ErrorClass;
use ah_provider::catalog::Catalog;
use serde_json::json;

use crate::route::{answered, connected, connected_with, hello};
use crate::server::{Server, events, plain, stream_end, stream_head};

/// OpenAI's own host, which is reached through a proxy on loopback here, is asked by the Responses API, and so are the other
/// hosts of its models; a server that is only compatible by chat completions. What the settings or the path say goes first.
#[tokio::test]
async fn the_protocol_follows_from_the_host() {
    let gateway = |address: &str| json!({"gw": {"baseUrl": address}});
    let of_api = |api: &str| json!({"openai": {"api": api}});
    let (responses, chat, none) = ("/v1/responses", "/v1/chat/completions", json!({}));
    let openai = "http://api.openai.com";
    for (name, address, servers, path) in [
        ("gpt-6-sol", openai, none.clone(), responses),
        ("openai/gpt-6.1-sol", openai, none.clone(), responses),
        (
            "openai/gpt-6.1-sol",
            "http://api.openai.com/v1/",
            none.clone(),
            responses,
        ),
        ("gpt-6.2-sol", openai, none.clone(), responses),
        ("openai/gpt-6.2-sol", openai, of_api("openai"), chat),
        (
            "openai/gpt-6.2-sol",
            "http://api.openai.com/v1/chat/completions",
            none.clone(),
            chat,
        ),
        ("openai/m", "http://h", none.clone(), chat),
        (
            "openai/m",
            "http://h",
            of_api("openai-responses"),
            responses,
        ),
        ("openai/m", "http://h/v1/responses", none.clone(), responses),
        ("openai-responses/m", "http://h", none.clone(), responses),
        (
            "openai/m",
            "http://openrouter.ai/api/v1",
            none.clone(),
            "/api/v1/chat/completions",
        ),
        (
            "gw/m",
            "",
            gateway("http://r.openai.azure.com/openai/v1"),
            "/openai/v1/responses",
        ),
        (
            "gw/m",
            "",
            gateway("http://bedrock-mantle.us-east-1.api.aws/v1"),
            responses,
        ),
        ("gw/m", "", gateway("http://api.x.ai"), responses),
        (
            "gw/m",
            "",
            gateway("http://api.minimax.io/anthropic"),
            "/anthropic/v1/messages",
        ),
        ("gw/m", "", gateway("http://h"), chat),
    ] {
        let loopback = Server::start(vec![hello()]).await;
        let variables = [
            ("OPENAI_BASE_URL", address),
            ("OPENAI_API_KEY", "k"),
            ("HTTP_PROXY", loopback.url.as_str()),
        ];
        let provider = connected_with(name, &variables, &servers).expect(name);
        // The outcome does not matter here.
        let _ = answered(&*provider).await;
        let (head, _) = loopback.request();
        let line = head.lines().next().unwrap_or_default();
        assert!(
            line.ends_with(&format!("{path} HTTP/1.1")),
            "{name} {address} {servers}: {line}"
        );
    }
}

/// A refusal that names the other way is followed once, and what worked is the first way from then on.
#[tokio::test]
async fn a_refusal_of_the_way_is_followed_once() {
    let (chat, responses) = ("/v1/chat/completions", "/v1/responses");
    let told = r#"{"error":{"message":"Function tools are not supported in /v1/chat/completions. Use /v1/responses."}}"#;
    let refused = || plain("400 Bad Request", "", told);
    let missing = || plain("404 Not Found", "", r#"{"detail":"Not Found"}"#);
    let whole = || {
        let answer =
            r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#;
        vec![stream_head(), events(answer), stream_end()]
    };
    let azure = json!({"azure": {"baseUrl": "URL/openai"}});
    let fixed = json!({"openai": {"api": "openai"}});
    for (name, servers, answers, again, paths, class) in [
        // OpenAI's rule behind a proxy of OpenAI.
        (
            "openai/gpt-6.1-sol",
            json!({}),
            vec![refused(), whole()],
            whole(),
            vec![chat, responses, responses],
            None,
        ),
        // A server with only the older of the two.
        (
            "azure/old",
            azure,
            vec![missing(), hello()],
            hello(),
            vec![
                "/openai/v1/responses",
                "/openai/v1/chat/completions",
                "/openai/v1/chat/completions",
            ],
            None,
        ),
        // Both refuse: the first refusal counts, and the first way stays the first.
        (
            "openai/neither",
            json!({}),
            vec![missing(), missing()],
            hello(),
            vec![chat, responses, chat],
            Some(ErrorClass::InvalidRequest),
        ),
        // The settings have the last word.
        (
            "openai/fixed",
            fixed,
            vec![refused()],
            hello(),
            vec![chat, chat],
            Some(ErrorClass::InvalidRequest),
        ),
    ] {
        let loopback = Server::start(answers.into_iter().chain([again]).collect()).await;
        let servers = servers.to_string().replace("URL", &loopback.url);
        let servers = serde_json::from_str(&servers).expect("JSON");
        let variables = [
            ("OPENAI_BASE_URL", loopback.url.as_str()),
            ("OPENAI_API_KEY", "k"),
            ("AZURE_OPENAI_API_KEY", "k"),
        ];
        let first = connected_with(name, &variables, &servers).expect(name);
        let outcome = answered(&*first).await;
        assert_eq!(outcome.err().map(|error| error.class), class, "{name}");
        // What was learned holds for connections made later.
        let second = connected_with(name, &variables, &servers).expect(name);
        assert_eq!(answered(&*second).await, Ok(()), "{name}");
        let requests = loopback.requests();
        let lines = requests.iter().filter_map(|request| request.lines().next());
        let expected: Vec<_> = paths
            .iter()
            .map(|path| format!("POST {path} HTTP/1.1"))
            .collect();
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{name}");
    }
}

/// A bare name of a vendor's family goes to the vendor, known or not, but to a gateway or a list first.
#[test]
fn a_bare_name_goes_to_the_vendor_of_its_family() {
    let keys = [
        ("OPENAI_API_KEY", "k"),
        ("GEMINI_API_KEY", "k"),
        ("XAI_API_KEY", "k"),
        ("DEEPSEEK_API_KEY", "k"),
        ("MOONSHOT_API_KEY", "k"),
        ("ZAI_API_KEY", "k"),
        ("MINIMAX_API_KEY", "k"),
        ("DASHSCOPE_API_KEY", "k"),
        ("MISTRAL_API_KEY", "k"),
        ("ANTHROPIC_API_KEY", "k"),
    ];
    let known = Catalog::built_in();
    for (name, vendor) in [
        ("gpt-6.2-sol", "openai"),
        ("gpt-9", "openai"),
        ("o3", "openai"),
        ("o9-mini", "openai"),
        ("gemini-9-flash", "gemini"),
        ("claude-next", "anthropic"),
        ("grok-9", "xai"),
        ("deepseek-v9", "deepseek"),
        ("kimi-k9", "moonshot"),
        ("glm-9", "zai"),
        ("MiniMax-M9", "minimax"),
        ("qwen9-max", "qwen"),
        ("mistral-medium-9", "mistral"),
        ("devstral-9", "mistral"),
    ] {
        let found = connected(name, &keys).expect(name);
        assert_eq!(
            (found.model().provider.as_str(), found.model().name.as_str()),
            (vendor, name)
        );
        let is_known = known.models().any(|(known, _)| known == name) || vendor == "anthropic";
        let class = match is_known {
            true => ErrorClass::Authentication,
            false => ErrorClass::ModelNotFound,
        };
        let keyless = connected(name, &[]).err().expect(name);
        assert_eq!(keyless.class, class, "{name}");
        let gateway = [("LITELLM_BASE_URL", "http://h")];
        let variables: Vec<_> = keys.iter().chain(&gateway).copied().collect();
        let found = connected(name, &variables).expect(name);
        let expected = if vendor == "anthropic" {
            vendor
        } else {
            "litellm"
        };
        assert_eq!(found.model().provider, expected, "{name}");
    }
    for name in ["opus-9", "o-9", "llama-4", "unheard-of"] {
        let error = connected(name, &[]).err().map(|error| error.class);
        let expected = Some(ErrorClass::ModelNotFound);
        assert_eq!(error, expected, "{name}");
    }
}

/// The name of a vendor before a `/` means the vendor if its key is set; else it may begin a name at a gateway.
#[test]
fn the_name_of_a_vendor_without_a_key_may_be_one_of_a_gateway() {
    let (gateway, key) = (("LITELLM_BASE_URL", "http://h"), ("DEEPSEEK_API_KEY", "k"));
    for (variables, expected) in [
        (vec![gateway, key], Ok("deepseek:deepseek-v9")),
        (vec![key], Ok("deepseek:deepseek-v9")),
        (vec![gateway], Ok("litellm:deepseek/deepseek-v9")),
        (vec![], Err("set DEEPSEEK_API_KEY")),
    ] {
        let found = connected("deepseek/deepseek-v9", &variables).map(|found| {
            let model = found.model();
            format!("{}:{}", model.provider, model.name)
        });
        let found = found.map_err(|error| error.hint.unwrap_or_default());
        assert_eq!(
            found,
            expected.map(str::to_owned).map_err(str::to_owned),
            "{variables:?}"
        );
    }
}
