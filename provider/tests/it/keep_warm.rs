//! Which conversations are kept in the prompt cache.

use std::time::Duration;

use ah_conversation::{Provider, Request};
use ah_provider::script::format::Turn;
use ah_provider::{Options, connect};
use ah_testkit::script::says;
use ah_testkit::server::Server;
use futures_util::StreamExt as _;
use serde_json::json;

use crate::requests::{request, user};
use crate::route::with_options;

/// Time after which entries that live for five minutes are used again, with room.
const PAUSE: Duration = Duration::from_secs(280);

async fn ask(provider: &dyn Provider, precedes_pause: bool) {
    let request = Request {
        precedes_pause,
        ..request(vec![user("Hi")])
    };
    provider.stream(request).count().await;
}

async fn pause() {
    // It begins.
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(PAUSE).await;
    tokio::time::resume();
}

fn cached(text: &str) -> Turn {
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 5_000});
    Turn {
        usage: serde_json::from_value(usage).expect("tokens"),
        ..says(text)
    }
}

/// A question that nobody continues is not asked again, and neither is one of which nothing is in the cache. A question aside
/// changes nothing.
#[tokio::test]
async fn only_a_conversation_that_a_person_may_continue_is_kept() {
    let answers = ["One.", "Two.", "Three.", "Aside.", "Warm."];
    let mut turns: Vec<_> = answers.map(cached).into();
    turns.insert(2, says("Nothing is cached."));
    let server = Server::new(turns);
    let url = server.url();
    let variables = [
        ("ANTHROPIC_BASE_URL", url.as_str()),
        ("ANTHROPIC_API_KEY", "k"),
    ];
    let provider = with_options(&variables, &json!({}), |options| {
        let options = Options {
            keep_warm: 1,
            ..*options
        };
        connect("claude-opus-4-6", &options)
    });
    let provider = provider.expect("a provider");
    for precedes_pause in [false, false, true] {
        ask(&*provider, precedes_pause).await;
        pause().await;
    }
    ask(&*provider, true).await;
    ask(&*provider, false).await;
    pause().await;
    let waited = tokio::task::spawn_blocking(move || {
        server.wait_until(|requests| requests.len() == 6);
        server
    });
    let server = waited.await.expect("a request in the pause");
    let limits = server.requests().into_iter();
    let limits = limits.map(|it| it.body["max_tokens"].as_u64().unwrap_or_default() > 1);
    assert_eq!(
        limits.collect::<Vec<_>>(),
        [true, true, true, true, true, false]
    );
}
