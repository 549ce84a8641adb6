//! Ends of runs.

use ah_agent::RunFailure;
use ah_conversation::{ExitReason, Output, StopReason, Usage};
use ah_testkit::script::{Turn, fails, hangs, says, uses};
use serde_json::json;

use crate::world::{Fake, World};

fn look() -> Fake {
    Fake::reading("look", |_| async { Output::text("seen") })
}

fn looks(number: usize) -> Turn {
    uses("look", json!({"number": number}))
}

#[tokio::test]
async fn the_events_of_a_run() {
    let mut world = World::new([looks(1), says("I have looked.")]).with(look());
    let outcome = world.run("look").await;
    assert_eq!((outcome.reason, outcome.turns), (ExitReason::EndTurn, 2));
    insta::assert_snapshot!(world.events(), @"
        agent_start look
        state_change idle processing
        api_call_start
        api_call_end
        tool_call_start look
        tool_call_end look ok
        api_call_start
        text_delta I have looked.
        api_call_end
        state_change processing idle
        agent_end end_turn
        ");
}

#[tokio::test]
async fn repetition_warns_at_three_and_four_and_ends_the_run_at_five() {
    let mut world = World::new((0..6).map(|_| looks(1))).with(look());
    let outcome = world.run("look").await;
    assert_eq!(
        (outcome.reason, outcome.turns),
        (ExitReason::LoopDetected, 5)
    );
    let told = |request: usize| world.request(request).matches("[LOOP DETECTED]").count();
    assert_eq!([told(2), told(3), told(4)], [0, 1, 2]);
}

#[tokio::test]
async fn an_answer_that_repeats_a_piece_is_ended_and_kept() {
    let piece = "I am here to help you with your tasks. ";
    let mut world = World::new([says(&piece.repeat(400)), says("Done.")]);
    world.settings.limits.ends_chants = true;
    let outcome = world.run("look").await;
    assert_eq!(
        (outcome.reason, outcome.turns),
        (ExitReason::LoopDetected, 1)
    );
    assert!(outcome.answer.ends_with(&piece.repeat(10)));
    assert!(
        world.events().contains("loop_detected"),
        "{}",
        world.events()
    );
    // The next prompt goes on.
    assert_eq!(world.run("and now?").await.answer, "Done.");
}

#[tokio::test]
async fn different_arguments_are_no_repetition() {
    let mut world = World::new((0..7).map(looks).chain([says("Done.")])).with(look());
    assert_eq!(world.run("look").await.reason, ExitReason::EndTurn);
}

#[tokio::test]
async fn a_used_up_token_budget_answers_the_open_calls() {
    let usage = Usage {
        input_tokens: 900,
        output_tokens: 101,
        ..Usage::default()
    };
    let turn = Turn {
        usage: Some(usage),
        ..looks(1)
    };
    let mut world = World::new([turn]).with(look());
    world.settings.limits.max_tokens = Some(1_000);
    let outcome = world.run("look").await;
    assert_eq!(outcome.reason, ExitReason::BudgetExceeded);
    assert_eq!(
        world.last_results(),
        ["Not run: the token budget of this run is used up."]
    );
    assert!(world.events().contains("budget_exceeded"));
}

#[tokio::test]
async fn a_refusal_is_a_failure_with_the_models_words() {
    let turn = Turn {
        stop_reason: Some("refusal".into()),
        ..says("I won't.")
    };
    let outcome = World::new([turn]).run("do it").await;
    assert_eq!(outcome.reason, ExitReason::Refusal);
    assert!(matches!(outcome.failure, Some(RunFailure::Refusal(words)) if words == "I won't."));
}

#[tokio::test]
async fn an_unknown_stop_reason_is_kept_and_ends_the_run() {
    let turn = Turn {
        stop_reason: Some("new_reason".into()),
        ..says("Hm.")
    };
    let mut world = World::new([turn]);
    assert_eq!(
        world.run("go").await.reason,
        ExitReason::Other("new_reason".into())
    );
    let reason = world
        .messages()
        .await
        .last()
        .unwrap()
        .stop_reason()
        .cloned();
    assert_eq!(reason, Some(StopReason::Other("new_reason".into())));
}

#[tokio::test]
async fn a_paused_turn_is_continued() {
    let turn = Turn {
        stop_reason: Some("pause_turn".into()),
        ..says("Wait.")
    };
    let outcome = World::new([turn, says("Done.")]).run("go").await;
    assert_eq!(
        (outcome.reason, outcome.turns, outcome.answer.as_str()),
        (ExitReason::EndTurn, 2, "Done.")
    );
}

/// An answer cut by the output limit is continued three times, then the run ends.
#[tokio::test]
async fn three_cut_answers_in_a_row_end_the_turn() {
    let cut = |text| Turn {
        stop_reason: Some("max_tokens".into()),
        ..says(text)
    };
    let mut world = World::new([cut("1"), cut("2"), cut("3"), cut("4"), says("never")]);
    let outcome = world.run("count").await;
    assert_eq!((outcome.reason, outcome.turns), (ExitReason::MaxTokens, 4));
}

#[tokio::test]
async fn a_failing_model_ends_the_run_and_loses_nothing() {
    let mut world = World::new([fails(400, "invalid_request_error"), says("Back again.")]);
    let outcome = world.run("first").await;
    assert_eq!(outcome.reason, ExitReason::Error);
    assert!(matches!(outcome.failure, Some(RunFailure::Provider(_))));
    assert_eq!(world.run("second").await.answer, "Back again.");
    assert!(world.request(1).contains("first") && world.request(1).contains("second"));
}

#[tokio::test]
async fn an_interrupt_keeps_the_partial_answer() {
    let mut world = World::new([hangs("I was about to")]);
    let outcome = world.run_until_text("go", "about").await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    let last = world.messages().await.pop().unwrap();
    assert_eq!(
        (last.text().as_str(), last.stop_reason()),
        ("I was about to", Some(&StopReason::Interrupted))
    );
}

/// Ten calls run at once; after an interrupt the others are answered as not run.
#[tokio::test]
async fn an_interrupt_distinguishes_waiting_from_running_calls() {
    let calls =
        ah_testkit::script::uses_all((0..12).map(|number| ("look", json!({"number": number}))));
    let hanging = Fake::reading("look", |_| std::future::pending());
    let mut world = World::new([calls]).with(hanging);
    world.run_until_event("look", "tool_call_start").await;
    let did_not_run = |text: &&String| text.contains("it did not run");
    assert_eq!(world.last_results().iter().filter(did_not_run).count(), 2);
}

#[tokio::test]
async fn an_interrupt_drops_the_running_tool_and_answers_every_call() {
    let stuck = Fake::touching("stuck", ah_conversation::Access::Unknown, |_| {
        std::future::pending()
    });
    let turn = ah_testkit::script::uses_all([
        ("look", json!({})),
        ("stuck", json!({})),
        ("look", json!({})),
    ]);
    let mut world = World::new([turn, says("Fine.")]).with(look()).with(stuck);
    let outcome = world.run_until_event("go", "tool_call_start stuck").await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    insta::assert_snapshot!(world.last_results().join("\n"), @"
        seen
        The session was interrupted while this tool ran. It may have run, wholly or in part, and was not run again: check its effects before you repeat it.
        The session was interrupted before this tool ran; it did not run.
        ");
    assert_eq!(world.run("go on").await.answer, "Fine.");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_ends_a_silent_model() {
    let mut world = World::new([hangs("One moment")]);
    world.settings.timeout_ms = Some(2_000);
    let outcome = world.run("go").await;
    assert_eq!(
        (outcome.reason, outcome.answer.as_str()),
        (ExitReason::Timeout, "One moment")
    );
}

#[tokio::test]
async fn a_missing_file_is_requested_once() {
    let mut world = World::new([says("Done."), says("Really done.")]);
    world.settings.must_produce = Some("/nowhere/plan.md".into());
    let outcome = world.run("plan").await;
    assert_eq!((outcome.turns, outcome.reason), (2, ExitReason::Error));
    assert!(matches!(outcome.failure, Some(RunFailure::NotProduced(_))));
    assert!(world.request(1).contains("/nowhere/plan.md"));
}

/// An answer of nothing, and one of thinking alone.
fn silent() -> [Turn; 2] {
    [
        says(""),
        Turn {
            thinking: Some("Hm.".into()),
            ..Turn::default()
        },
    ]
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_once_more() {
    for silent in silent() {
        for before in [vec![], vec![looks(1)]] {
            let turns = before.into_iter().chain([silent.clone(), says("Found.")]);
            let mut world = World::new(turns).with(look());
            let outcome = world.run("look").await;
            let reason = (outcome.reason, outcome.answer.as_str());
            assert_eq!(reason, (ExitReason::EndTurn, "Found."));
            let last = world.request(world.requests().len() - 1);
            assert!(last.ends_with("or continue with the task."), "{last}");
        }
    }
}

#[tokio::test]
async fn a_run_without_an_answer_fails() {
    for silent in silent() {
        let mut world = World::new([silent.clone(), silent.clone(), silent.clone(), says("Yes.")]);
        let outcome = world.run("look").await;
        assert_eq!((outcome.reason, outcome.turns), (ExitReason::Error, 2));
        assert!(matches!(outcome.failure, Some(RunFailure::Silent)));
        // The next run has a chance of its own.
        let outcome = world
            .resumed([silent.clone(), says("Yes.")])
            .run("again")
            .await;
        assert_eq!(outcome.answer, "Yes.");
    }
}
