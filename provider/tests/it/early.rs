//! A connection is opened before the first request, and one carries all of a session, through proxies as well.

use std::sync::Arc;

use ah_conversation::{Connecting, Provider};
use ah_provider::held::ConversationState;
use ah_provider::{Options, connect};
use ah_testkit::proxy::{Proxy, certificate};
use ah_testkit::script::says;
use ah_testkit::server::Server;
use serde_json::json;

use crate::held::{Held, Talk};
use crate::route::with_options;

/// The model of a server that is reached through `proxy` alone.
fn through(proxy: &Proxy, held: Held, state: ConversationState) -> Arc<dyn Provider> {
    let certificate = certificate();
    let variables = [
        ("OPENAI_API_KEY", "key"),
        ("HTTPS_PROXY", &*proxy.url()),
        ("SSL_CERT_FILE", &*certificate.to_string_lossy()),
    ];
    let (model, api) = match held {
        Held::Threads => ("mine/claude-opus-4-6", "anthropic"),
        Held::Sockets | Held::Stored => ("mine/gpt-6.2-sol", "openai-responses"),
        Held::Interactions => ("mine/gemini-3.8-flash", "gemini-interactions"),
    };
    let mut server =
        json!({"baseUrl": "https://localhost", "api": api, "keyEnv": "OPENAI_API_KEY"});
    if let Held::Stored | Held::Interactions = held {
        server["extraBody"] = json!({"store": true});
    }
    let provider = with_options(&variables, &json!({"mine": server}), |options| {
        let options = Options {
            betas: &[],
            conversation_state: state,
            ..*options
        };
        connect(model, &options)
    });
    provider.expect("connected")
}

fn connecting(provider: &dyn Provider) -> Option<Connecting> {
    provider.extras().early?.connect_early()
}

#[tokio::test]
async fn all_requests_of_a_session_use_the_connection_that_was_opened_before() {
    for (held, state) in [
        (Held::Threads, ConversationState::On),
        (Held::Threads, ConversationState::Off),
        (Held::Sockets, ConversationState::On),
        (Held::Sockets, ConversationState::Off),
        (Held::Stored, ConversationState::On),
        (Held::Interactions, ConversationState::On),
    ] {
        let turns = (0..5).map(|number| says(&format!("Answer {number}.")));
        let mut talk = Talk::new(Server::new(turns).opens_sockets(), held, state);
        let proxy = Proxy::to(&talk.server);
        talk.provider = through(&proxy, held, state);
        let connect_early = async |provider: &dyn Provider| {
            if let Some(connecting) = connecting(provider) {
                connecting.await;
            }
        };
        connect_early(&*talk.provider).await;
        assert_eq!(proxy.wanted(), ["CONNECT localhost:443 HTTP/1.1"]);
        assert!(talk.server.requests().is_empty());
        assert_eq!(talk.server.sockets_wanted(), 0);
        for number in 0..5 {
            talk.say(&format!("Prompt {number}.")).await;
            connect_early(&*talk.provider).await;
        }
        assert_eq!(proxy.wanted().len(), 1, "{held:?} {state:?}");
        assert_eq!(talk.server.accepted(), 1);
        assert_eq!(talk.server.requests().len(), 5);
        let is_over_socket = (held, state) == (Held::Sockets, ConversationState::On);
        assert_eq!(talk.server.sockets_wanted(), usize::from(is_over_socket));
    }
}

#[tokio::test]
async fn a_connection_is_opened_where_a_key_is_known_and_it_takes_time() {
    let proxy = Proxy::refusing();
    let plain = Server::new([says("One.")]);
    let keys = [
        ("ANTHROPIC_API_KEY", "key"),
        ("OPENAI_API_KEY", "key"),
        ("HTTPS_PROXY", &*proxy.url()),
    ];
    let servers = json!({
        "plain": {"baseUrl": plain.url(), "api": "openai", "keyEnv": "OPENAI_API_KEY"},
        "free": {"baseUrl": "https://free.example", "api": "openai"},
    });
    let mut expected = Vec::new();
    for (model, tunnel) in [
        (
            "claude-opus-4-6",
            Some("CONNECT api.anthropic.com:443 HTTP/1.1"),
        ),
        (
            "openai/gpt-6.2-sol",
            Some("CONNECT api.openai.com:443 HTTP/1.1"),
        ),
        ("plain/some", None),
        ("free/some", None),
    ] {
        let connected = with_options(&keys, &servers, |options| connect(model, options));
        let connecting = connecting(&*connected.expect("connected"));
        assert_eq!(connecting.is_some(), tunnel.is_some(), "{model}");
        if let Some(connecting) = connecting {
            connecting.await;
        }
        expected.extend(tunnel);
        assert_eq!(proxy.wanted(), expected, "{model}");
    }
    assert_eq!(plain.accepted(), 0);
}
