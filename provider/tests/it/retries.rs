//! Delays between attempts, with a paused clock.

use std::time::Duration;

use ah_conversation::{Provider, ProviderError, Request, RetryNotice, StreamEvent};
use ah_provider::retry::{Policy, Retrying};
use ah_provider::script::Script;
use ah_provider::script::format::Scenario;
use futures_util::StreamExt;
use tokio::time::Instant;

fn provider(scenario: &str, policy: Policy) -> Retrying<Script> {
    let scenario = Scenario::parse(scenario).expect("a scenario");
    let script = Script::new("test", scenario).expect("a valid scenario");
    Retrying::new(script, policy, 7)
}

fn request() -> Request {
    Request {
        max_output: 100,
        ..Request::default()
    }
}

/// The retry notices with the time elapsed before each, the total time, and the outcome.
async fn ask(
    provider: &dyn Provider,
) -> (
    Vec<(Duration, RetryNotice)>,
    Duration,
    Result<(), ProviderError>,
) {
    let start = Instant::now();
    let mut notices = Vec::new();
    let mut stream = provider.stream(request());
    while let Some(event) = stream.next().await {
        match event {
            Ok(StreamEvent::Retry(notice)) => notices.push((start.elapsed(), notice)),
            Ok(_) => {}
            Err(error) => return (notices, start.elapsed(), Err(error)),
        }
    }
    (notices, start.elapsed(), Ok(()))
}

#[tokio::test(start_paused = true)]
async fn a_notice_precedes_the_delay_that_the_server_asked_for() {
    let scenario = "turns: [{error: {status: 429, retry_after: 7}}, {text: Here.}]";
    let (notices, elapsed, outcome) = ask(&provider(scenario, Policy::default())).await;
    assert_eq!(outcome, Ok(()));
    let [(at, notice)] = &notices[..] else {
        panic!("not one notice: {notices:?}")
    };
    assert_eq!(
        (*at, notice.delay),
        (Duration::ZERO, Duration::from_secs(7))
    );
    assert_eq!((notice.attempt, notice.status), (0, Some(429)));
    assert!(elapsed >= notice.delay && elapsed < notice.delay + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn retries_end_at_the_limit() {
    let scenario = "turns: [{error: {status: 529}}, {error: {status: 529}}, {error: {status: 529}}, {error: {status: 529}}, {text: Late.}]";
    let (notices, elapsed, outcome) = ask(&provider(scenario, Policy::default())).await;
    assert_eq!(outcome.expect_err("given up").status, Some(529));
    let attempts: Vec<_> = notices.iter().map(|(_, notice)| notice.attempt).collect();
    assert_eq!(attempts, [0, 1, 2]);
    assert!((3..=7).contains(&elapsed.as_secs()), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delay_ends_when_the_stream_is_dropped() {
    let scenario = "turns: [{error: {status: 429, retry_after: 30}}, {text: Here.}]";
    let provider = provider(scenario, Policy::default());
    let answer = tokio::time::timeout(Duration::from_secs(1), ask(&provider)).await;
    assert!(answer.is_err());
    // The attempt after the delay was never made: its turn answers the next request.
    let (notices, _, outcome) = ask(&provider).await;
    assert_eq!((notices.len(), outcome), (0, Ok(())));
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_stream_breaks_is_asked_for_in_one_piece_in_the_end() {
    let once = Policy {
        retries: 1,
        ..Policy::default()
    };
    for (scenario, notices, outcome) in [
        (
            "turns: [{text: Half, cut: true, repeat: 2}, {text: Whole.}]",
            2,
            None,
        ),
        ("turns: [{text: Half, cut: true, repeat: 3}]", 2, Some(None)),
        // A server that has only streams.
        (
            "turns: [{text: Half, cut: true, repeat: 2}, {error: {status: 400}}]",
            2,
            Some(None),
        ),
        (
            "turns: [{text: Half, cut: true, repeat: 2}, {error: {status: 529}}]",
            2,
            Some(Some(529)),
        ),
        (
            "turns: [{error: {status: 500}, repeat: 2}, {text: Late.}]",
            1,
            Some(Some(500)),
        ),
    ] {
        let (told, _, ended) = ask(&provider(scenario, once)).await;
        assert_eq!(told.len(), notices, "{scenario}");
        assert_eq!(ended.err().map(|error| error.status), outcome, "{scenario}");
    }
}
