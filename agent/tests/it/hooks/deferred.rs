//! Calls that a hook leaves to a later run.

use ah_agent::Stop;
use ah_agent::hooks::HookEvent;
use ah_conversation::{ContentBlock, ExitReason, PermissionMode};
use ah_testkit::script::{says, uses_all};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{RecordedPayloads, asking, change, changes, pre};

/// A deferred call ends the run without a result. The next use of the session, also after a crash, asks the hooks about it
/// again; the other calls of the answer run once.
#[tokio::test]
async fn a_deferred_call_is_taken_up_again() {
    let decide = |decision: &'static str, only: &'static str| {
        move |payload: &Value| match payload["tool_input"]["what"] == only {
            true => pre(decision, &json!({})),
            false => pre("allow", &json!({})),
        }
    };
    let three = || uses_all(["a", "b", "c"].map(|what| ("change", json!({"what": what}))));
    for (prompt, decision, expected) in [
        (None, "allow", "changed {\"what\":\"b\"}"),
        (None, "deny", "PreToolUse:change hook error: rule 7"),
        (Some("and now?"), "allow", "changed {\"what\":\"b\"}"),
        (
            Some("and now?"),
            "defer",
            "A hook has deferred this call again, and the conversation continued: it did not run.",
        ),
    ] {
        let payloads = RecordedPayloads::default();
        let first = payloads.hook(HookEvent::PreToolUse, decide("defer", "b"));
        let mut world = asking([three()]).with_hooks([first]);
        let outcome = world.run("go").await;
        let deferred = outcome.deferred.expect("a deferred call");
        assert_eq!((&outcome.reason, outcome.turns), (&ExitReason::EndTurn, 1));
        assert!(world.last_results().is_empty(), "no message with results");

        let payloads = RecordedPayloads::default();
        let again = payloads.hook(HookEvent::PreToolUse, decide(decision, "b"));
        let mut world = world
            .resumed([says("Done.")])
            .with(change())
            .with_hooks([again]);
        world.settings.permissions.mode = PermissionMode::Default;
        let mut session = world.open().await.unwrap();
        assert!(session.has_deferred());
        let stop = Stop::interrupt(CancellationToken::new());
        let outcome = match prompt {
            Some(prompt) => session.run(vec![ContentBlock::text(prompt)], &stop).await,
            None => session.resume(&stop).await.map(Option::unwrap),
        };
        assert_eq!(outcome.unwrap().answer, "Done.", "{decision}");
        assert!(!session.has_deferred());
        let results = [
            "changed {\"what\":\"a\"}",
            expected,
            "changed {\"what\":\"c\"}",
        ];
        assert_eq!(world.last_results(), results, "{decision}");
        let payloads = payloads.0.lock();
        let asked: Vec<_> = payloads.iter().map(|it| &it["tool_use_id"]).collect();
        assert_eq!(asked, [deferred.id.as_str()], "{decision}");
    }
}

/// A hook may defer a call as often as it likes.
#[tokio::test]
async fn a_call_is_deferred_several_times() {
    let payloads = RecordedPayloads::default();
    let defers = || payloads.hook(HookEvent::PreToolUse, |_| pre("defer", &json!({})));
    let mut world = asking([changes("this")]).with_hooks([defers()]);
    world.run("go").await;
    for _ in 0..3 {
        world = world
            .resumed([says("Never.")])
            .with(change())
            .with_hooks([defers()]);
        let mut session = world.open().await.unwrap();
        let stop = Stop::interrupt(CancellationToken::new());
        let outcome = session.resume(&stop).await.unwrap().unwrap();
        assert!(outcome.deferred.is_some() && world.requests().is_empty());
    }
}
