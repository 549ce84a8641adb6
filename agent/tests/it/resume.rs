//! Resuming after a crash at any point.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_agent::{Leaving, RunOutcome};
use ah_conversation::{Access, ExitReason, Output};
use ah_testkit::script::{hangs, says, uses, uses_all};
use serde_json::json;

use crate::world::{Fake, World};

/// Crashes at every store operation of a run with two tool calls, resumes, and checks what the model sees.
#[tokio::test]
async fn a_run_resumes_after_a_crash_at_any_write_and_repeats_no_call() {
    for survives in 1.. {
        let runs = Arc::new(AtomicUsize::new(0));
        let change = || {
            let runs = runs.clone();
            Fake::touching("change", Access::Unknown, move |_| {
                let runs = runs.clone();
                async move {
                    Output::text(format!(
                        "change {}",
                        runs.fetch_add(1, Ordering::SeqCst) + 1
                    ))
                }
            })
        };
        let calls = || {
            uses_all([
                ("change", json!({"number": 1})),
                ("change", json!({"number": 2})),
            ])
        };
        let mut world = World::new([calls(), says("Done.")]).with(change());
        let died = world.run_until_write("go", survives).await;
        let mut world = world.resumed([says("Back.")]).with(change());
        let outcome = world.run("go on").await;
        assert_eq!(outcome.answer, "Back.", "after {survives} writes");
        assert!(
            runs.load(Ordering::SeqCst) <= 2,
            "a call ran again after {survives} writes"
        );
        let request = world.request(0);
        assert_eq!(
            request.contains("change 1"),
            runs.load(Ordering::SeqCst) >= 1 && survives > 3,
            "{request}"
        );
        assert_eq!(
            world.notices().contains("will not be rerun"),
            request.contains("The session was interrupted"),
            "{request}"
        );
        if !died {
            assert!(
                survives >= 6,
                "a run of two calls has more writes than {survives}"
            );
            return;
        }
    }
}

/// A call that a tool of this name is told of, by which the run is left.
fn leaves(leaving: &Leaving, is_at_once: bool) -> Fake {
    let leaving = leaving.clone();
    Fake::touching("leave", Access::Unknown, move |_| {
        let leaving = leaving.clone();
        async move {
            if is_at_once {
                leaving.at_once();
                return std::future::pending().await;
            }
            leaving.soon();
            Output::text("It has ended.")
        }
    })
}

/// A run that was left when `change`, which counts how often it runs, had not begun: its outcome, and the next process.
async fn left_before_a_change(runs: &Arc<AtomicUsize>) -> (RunOutcome, World) {
    let change = || {
        let runs = runs.clone();
        Fake::touching("change", Access::Unknown, move |_| {
            let number = runs.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Output::text(format!("change {number}")) }
        })
    };
    let leaving = Leaving::default();
    let world = World::new([uses_all([("leave", json!({})), ("change", json!({}))])])
        .with(leaves(&leaving, false))
        .with(change());
    let outcome = world.run_leaving("go", leaving).await;
    let next = world.resumed([says("Done.")]);
    let next = next.with(leaves(&Leaving::default(), false));
    (outcome, next.with(change()))
}

/// What runs is waited for; what has not begun is left to the other process, and runs there once.
#[tokio::test]
async fn a_run_that_is_left_is_resumed_by_another_process() {
    let runs = Arc::default();
    let (outcome, world) = left_before_a_change(&runs).await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let outcome = world.take_over().await.unwrap();
    assert_eq!(outcome.answer, "Done.");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let request = world.request(0);
    for part in ["It has ended.", "change 1"] {
        assert!(request.contains(part), "{request}");
    }
    assert_eq!(world.notices(), "");
}

/// What somebody else has left is answered before anybody goes on with their session.
#[tokio::test]
async fn what_somebody_else_has_left_open_is_not_begun() {
    let runs = Arc::default();
    let (_, world) = left_before_a_change(&runs).await;
    world.answer_open_calls().await;
    assert_eq!(world.take_over().await.unwrap().answer, "Done.");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let request = world.request(0);
    assert!(request.contains("It has ended."), "{request}");
}

#[tokio::test]
async fn a_run_that_is_left_at_once_interrupts_what_runs_and_asks_again() {
    let leaving = Leaving::default();
    let world = World::new([uses("leave", json!({}))]).with(leaves(&leaving, true));
    world.run_leaving("go", leaving).await;
    let world = { world.resumed([says("Done.")]) }.with(leaves(&Leaving::default(), true));
    assert_eq!(world.take_over().await.unwrap().answer, "Done.");
    let request = world.request(0);
    assert!(request.contains("interrupted"), "{request}");
    // An answer in progress is dropped.
    let world = World::new([hangs("I begin to say")]);
    world.run_leaving_at_text("go", "I begin").await;
    let world = world.resumed([says("Done.")]);
    assert_eq!(world.take_over().await.unwrap().answer, "Done.");
    let request = world.request(0);
    assert!(!request.contains("I begin"), "{request}");
}
