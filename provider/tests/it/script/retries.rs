//! Scripted failures with the retries of every provider.

use ah_provider::retry::{Policy, Retrying};
use ah_provider::script::normalizer::Normalizer;
use ah_provider::script::record::Recording;

use super::*;

#[tokio::test]
async fn a_retry_meets_the_next_turn() {
    let script = script(
        "turns: [{error: {status: 529, retry_after: 0}}, {text: half, cut: true}, {text: Here.}, {text: More.}]",
    );
    let patient = Retrying::new(
        script,
        Policy {
            first_delay: std::time::Duration::ZERO,
            ..Policy::default()
        },
        1,
    );
    let events = ask(&patient, &[user(0, "hello")]).await;
    assert_eq!(events.matches("Retry(").count(), 2);
    assert!(events.ends_with("Ended"), "{events}");
    assert_eq!(words(&patient, &[user(0, "hello")]).await, "More.");
}

#[tokio::test]
async fn retries_inside_the_recorded_model_are_turns_of_their_own() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("run.yaml");
    let instant = Policy {
        first_delay: std::time::Duration::ZERO,
        ..Policy::default()
    };
    let model = script(
        "turns: [{error: {status: 503, message: down}}, {text: half, cut: true}, {text: Here.}]",
    );
    let model = Arc::new(Retrying::new(model, instant, 1));
    let recording =
        Recording::create(&path, model.model(), Normalizer::default()).expect("writable");
    let original = ask(&recording.of(model), &[user(0, "hello")]).await;
    assert_eq!(original.matches("Retry(").count(), 2);

    let replay = Retrying::new(Script::open(&path).expect("valid"), instant, 1);
    assert_eq!(ask(&replay, &[user(0, "hello")]).await, original);
}
