//! Resuming after a crash at any point.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ah_conversation::{Access, Output};
use ah_testkit::script::{says, uses_all};
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
