//! The fallback model.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    CallReason, Delta, Message, Origin, Provider, StreamEvent, UnseenUse as _, Usage,
};
use ah_provider::fallback::Fallback;
use ah_provider::retry::{Policy, Retrying};
use ah_provider::script::Script;
use ah_testkit::script::{Turn, fails, says, scenario};
use futures_util::StreamExt;

use crate::requests::{request, user};

/// The answer to a request that ends with `last`: `[second for first]`, or `[silent]`, for a fallback, text, `|` for a retry, and
/// the class of an error.
async fn ask(provider: &Fallback, last: Arc<Message>) -> String {
    let mut stream = provider.stream(request(vec![user("Hi"), last]));
    let mut said = String::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            }) => said += &text,
            Ok(StreamEvent::Fallback(notice)) => {
                said += &match notice.error {
                    Some(_) => format!("[{} for {}]", notice.model.name, notice.instead_of),
                    None => "[silent]".to_owned(),
                };
            }
            Ok(StreamEvent::Retry(_)) => said += "|",
            Ok(_) => {}
            Err(error) => said += &format!("{:?}", error.class),
        }
    }
    said
}

fn scripted(name: &str, turns: Vec<Turn>) -> Script {
    Script::new(name, scenario(turns)).expect("a scenario")
}

fn provider(first: Vec<Turn>, second: Vec<Turn>) -> Fallback {
    let policy = Policy {
        retries: 1,
        first_delay: Duration::from_millis(1),
        ..Policy::default()
    };
    let first = Retrying::new(scripted("first", first), policy, 1);
    Fallback::new(Arc::new(first), Arc::new(scripted("second", second)))
}

fn results() -> Arc<Message> {
    let mut message = Arc::unwrap_or_clone(user("results"));
    message.origin = Origin::Results;
    Arc::new(message)
}

#[tokio::test]
async fn the_second_model_answers_if_the_first_cannot() {
    let overloaded = || fails(529, "overloaded_error");
    let broken = || fails(500, "api_error");
    for (first, second, expected) in [
        (vec![says("A")], vec![says("B")], "A"),
        (vec![overloaded(), says("A")], vec![says("B")], "|A"),
        (
            vec![overloaded(), overloaded()],
            vec![says("B")],
            "|[second for first]B",
        ),
        (
            vec![overloaded(), broken()],
            vec![says("B")],
            "|[second for first]B",
        ),
        (
            vec![broken(), broken()],
            vec![fails(401, "authentication_error")],
            "|[second for first]Authentication",
        ),
        (
            vec![fails(400, "invalid_request_error")],
            vec![says("B")],
            "InvalidRequest",
        ),
        (
            vec![
                fails(429, "rate_limit_error"),
                fails(429, "rate_limit_error"),
            ],
            vec![says("B")],
            "|[second for first]B",
        ),
        (
            vec![fails(404, "model_not_found")],
            vec![says("B")],
            "[second for first]B",
        ),
        (
            vec![fails(402, "billing_error")],
            vec![says("B")],
            "[second for first]B",
        ),
        // The key of the same server.
        (
            vec![fails(401, "authentication_error")],
            vec![says("B")],
            "Authentication",
        ),
    ] {
        assert_eq!(ask(&provider(first, second), user("go")).await, expected);
    }
}

/// What was said before the refusal is void, and what it has used is still paid for.
#[tokio::test]
async fn the_second_model_answers_if_the_first_refuses() {
    let used = Usage {
        input_tokens: 7,
        output_tokens: 2,
        ..Usage::default()
    };
    let refuses = || Turn {
        stop_reason: Some("refusal".to_owned()),
        usage: Some(used),
        ..says("I would ra")
    };
    let asked = provider(vec![refuses()], vec![says("B"), says("C")]);
    let said = ask(&asked, user("go")).await;
    assert_eq!(said, "I would ra[second for first]B");
    let refused = || {
        (
            CallReason::Refused,
            scripted("first", vec![says("A")]).model().clone(),
            used,
        )
    };
    assert_eq!(asked.end_pause(), [refused()]);
    assert_eq!(asked.end_pause(), []);
    assert_eq!(ask(&asked, results()).await, "[silent]C");
    // What the second has used counts as well, as its own.
    let second = provider(vec![refuses()], vec![says("D")]);
    let first = scripted("zeroth", vec![fails(529, "overloaded_error")]);
    let chain = Fallback::new(Arc::new(first), Arc::new(second));
    assert!(ask(&chain, user("go")).await.ends_with('D'));
    assert_eq!(chain.used(), [refused()]);
    assert_eq!(chain.end_pause(), []);
    let both = provider(vec![refuses()], vec![refuses()]);
    let said = ask(&both, user("go")).await;
    assert_eq!(said, "I would ra[second for first]I would ra");
}

#[tokio::test]
async fn the_second_model_keeps_the_rest_of_the_run() {
    let broken = || fails(500, "api_error");
    let first = vec![broken(), broken(), says("A")];
    let provider = provider(first, vec![says("B"), says("C")]);
    assert_eq!(ask(&provider, user("go")).await, "|[second for first]B");
    assert_eq!(ask(&provider, results()).await, "[silent]C");
    assert_eq!(ask(&provider, user("go on")).await, "A");
    assert_eq!(provider.model().name, "first");
}

#[tokio::test]
async fn models_are_tried_in_order() {
    let broken = || fails(500, "api_error");
    let last = provider(vec![broken(), broken()], vec![says("C"), says("D")]);
    let all = Fallback::new(
        Arc::new(scripted("zeroth", vec![broken(), broken()])),
        Arc::new(last),
    );
    let said = ask(&all, user("go")).await;
    assert_eq!(said, "[first for zeroth]|[second for first]C");
    assert_eq!(ask(&all, results()).await, "[silent][silent]D");
}
