//! Compaction: summaries that replace older messages.

use ah_agent::Stop;
use ah_conversation::{ContentBlock, ExitReason, Usage, estimate_text};
use ah_testkit::script::{Scenario, Turn, fails, says, scenario, uses};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// Returns an answer that used so many tokens of the window of 200,000.
fn at(tokens: u64, text: &str) -> Turn {
    Turn {
        usage: Some(Usage {
            input_tokens: tokens,
            output_tokens: 0,
            ..Usage::default()
        }),
        ..says(text)
    }
}

/// Returns a conversation past 80 % of the window at its third prompt, whose summary is `turn`.
async fn crowded(turn: Turn) -> World {
    let mut world = World::new([
        at(1_000, "One."),
        at(160_001, "Two."),
        turn,
        at(2_000, "Three."),
    ]);
    for prompt in ["first", "second", "third"] {
        world.run(prompt).await;
    }
    world
}

/// The summary is requested past 80 %, behind what was said before, and the event reports how full the window was.
#[tokio::test]
async fn a_summary_is_made_past_80_percent() {
    let world = crowded(says("They counted to two.")).await;
    assert_eq!(world.requests().len(), 4);
    let [before, summary] = &world.requests()[1..3] else {
        panic!("two requests")
    };
    assert_eq!(
        (&summary.system, &summary.tools),
        (&before.system, &before.tools)
    );
    let said = before.messages.len();
    assert_eq!(summary.messages[..said], before.messages[..]);
    let last = summary.messages.last().unwrap().text();
    assert!(last.starts_with("[COMPACTION] "), "{last}");
    let events = world.events();
    assert!(
        events.contains("compaction_triggered 160007/200000"),
        "{events}"
    );
    assert!(events.contains("compaction_complete"), "{events}");
}

/// The cost of a summary counts like that of every other call, in this process and the next.
#[tokio::test]
async fn the_tokens_of_a_summary_count() {
    let summary = Turn {
        usage: Some(Usage {
            input_tokens: 500,
            output_tokens: 7,
            ..Usage::default()
        }),
        ..says("In short.")
    };
    let mut world = World::new([
        at(1_000, "One."),
        at(170_000, "Two."),
        summary,
        at(2_000, "Three."),
    ]);
    for prompt in ["first", "second"] {
        world.run(prompt).await;
    }
    let outcome = world.run("third").await;
    assert_eq!(
        (
            outcome.turns,
            outcome.usage.input_tokens,
            outcome.usage.output_tokens
        ),
        (1, 2_500, 7)
    );
    let stored: u64 = world
        .messages()
        .await
        .iter()
        .map(|message| message.usage().input_tokens)
        .sum();
    assert_eq!(stored, 173_500);
}

/// The tail stays unchanged after the summary; the history stays whole in the store.
#[tokio::test]
async fn the_view_is_the_summary_and_an_unchanged_tail() {
    let world = crowded(says("They counted to two.")).await;
    insta::assert_snapshot!(world.request(3), @"
        user: [COMPACTION SUMMARY]
        They counted to two. (end_turn)
        assistant: Two. (end_turn)
        user: third
        ");
    assert_eq!(world.messages().await.len(), 7);
}

/// Of a wide window the tail is no larger than of a usual one: here a tenth of what was said, not nearly half of it.
#[tokio::test]
async fn the_tail_in_a_wide_window_is_short() {
    let answers = (1..=20).map(|number| at(number * 42_000, &"word ".repeat(1_000)));
    let mut world = World::playing(Scenario {
        context_window: Some(1_000_000),
        ..scenario(answers.chain([says("In short."), says("Done.")]))
    });
    for _ in 0..21 {
        world.run("go on").await;
    }
    let last = world.request(world.requests().len() - 1);
    assert!(last.starts_with("user: [COMPACTION SUMMARY]"), "{last}");
    let answers = last.matches("assistant: ").count();
    assert!((1..=2).contains(&answers), "{answers} answers");
}

/// Resumed sessions start from the summary as well.
#[tokio::test]
async fn a_resumed_session_starts_at_the_summary() {
    let world = crowded(says("They counted to two.")).await;
    let mut world = world.resumed([says("Four.")]);
    world.run("fourth").await;
    let request = world.request(0);
    assert!(
        request.starts_with("user: [COMPACTION SUMMARY]\nThey counted to two."),
        "{request}"
    );
    assert!(request.ends_with("user: fourth"), "{request}");
    assert!(!request.contains("first"), "{request}");
}

/// If no summary can be made, the older messages are left out nevertheless.
#[tokio::test]
async fn a_failed_summary_falls_back_to_leaving_out() {
    for turn in [fails(400, "invalid_request_error"), says("  ")] {
        let world = crowded(turn).await;
        let request = world.request(3);
        assert!(
            request.contains("a summary of them could not be made"),
            "{request}"
        );
        assert!(request.ends_with("user: third"), "{request}");
        assert!(
            world
                .events()
                .contains("error cannot compact the conversation"),
            "{}",
            world.events()
        );
    }
}

/// A conversation can be summarised repeatedly; each summary includes the one before it.
#[tokio::test]
async fn summaries_follow_each_other() {
    let mut world = World::new([
        at(170_000, "One."),
        says("Summary one."),
        at(170_000, "Two."),
        says("Summary two."),
        at(1_000, "Three."),
    ]);
    for prompt in ["first", "second", "third"] {
        assert_eq!(world.run(prompt).await.reason, ExitReason::EndTurn);
    }
    assert!(
        world.request(3).contains("Summary one."),
        "{}",
        world.request(3)
    );
    let last = world.request(4);
    assert!(
        last.contains("Summary two.") && !last.contains("Summary one."),
        "{last}"
    );
}

/// The summary may come from another model.
#[tokio::test]
async fn another_model_may_summarise() {
    let mut world = World::new([at(170_000, "One."), at(1_000, "Two.")]);
    let summarizer = world.summarised_by(scenario([says("In short.")]));
    world.run("first").await;
    world.run("second").await;
    assert_eq!(summarizer.requests().len(), 1);
    assert!(world.request(1).contains("In short."));
}

/// If the server rejects the prompt as too long, one summary is made, and then the run ends with a clear error.
#[tokio::test]
async fn a_prompt_that_is_too_long_is_summarised_once() {
    let too_long = || Turn {
        ..fails(400, "prompt is too long: 210000 tokens > 200000 maximum")
    };
    let mut world = World::new([
        at(100, "One."),
        too_long(),
        says("In short."),
        at(100, "Two."),
    ]);
    world.run("first").await;
    assert_eq!(world.run("second").await.answer, "Two.");
    assert!(world.request(3).contains("[COMPACTION SUMMARY]\nIn short."));

    let mut world = World::new([
        at(100, "One."),
        too_long(),
        says("In short."),
        too_long(),
        says("never"),
    ]);
    world.run("first").await;
    let outcome = world.run("second").await;
    assert_eq!(
        (outcome.reason, world.requests().len()),
        (ExitReason::Error, 4)
    );
}

/// An answer cut by the output limit in a full window is continued after a summary.
#[tokio::test]
async fn a_cut_answer_in_a_full_window_is_summarised_and_continued() {
    let cut = Turn {
        stop_reason: Some("max_tokens".into()),
        ..at(170_000, "The first half")
    };
    let mut world = World::new([
        at(100, "One."),
        cut,
        says("In short."),
        says("The second half"),
    ]);
    world.run("first").await;
    let outcome = world.run("second").await;
    assert_eq!(
        (outcome.reason, outcome.answer.as_str()),
        (ExitReason::EndTurn, "The second half")
    );
    let request = world.request(3);
    assert!(
        request.contains("[COMPACTION SUMMARY]") && request.contains("cut off by the output limit"),
        "{request}"
    );
}

/// The tail takes about 40 % of the window.
#[tokio::test]
async fn the_tail_takes_about_two_fifths_of_the_window() {
    let words = "word ".repeat(8_000); // About 10,000 tokens.
    let turns = (1..=16).map(|turn| at(turn * 10_100, "Noted."));
    let mut world = World::new(turns.chain([says("In short."), at(100, "Done.")]));
    for _ in 0..17 {
        world.run(&words).await;
    }
    let kept: u64 = world.requests()[17]
        .messages
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(ContentBlock::as_text)
        .map(estimate_text)
        .sum();
    assert!((65_000..=82_000).contains(&kept), "{kept} of 200,000");
}

/// Past `maxConversationMessages` the oldest messages are left out, up to a safe message, with a notice.
#[tokio::test]
async fn trimming_by_count_leaves_a_valid_request() {
    let mut world = World::new([says("1"), says("2"), says("3")]);
    world.settings.max_messages = Some(4);
    for prompt in ["one", "two", "three"] {
        world.run(prompt).await;
    }
    assert_eq!(
        world.request(2),
        "user: two\nassistant: 2 (end_turn)\nuser: three"
    );
    assert!(
        world.notices().contains("2 older messages are left out"),
        "{}",
        world.notices()
    );
}

/// A long run holds little of what has left the view; it counts, and attempts at an answer and reminders are remembered.
#[tokio::test]
async fn a_long_run_forgets_what_has_left_the_view() {
    let wrong = |tokens| Turn {
        usage: at(tokens, "").usage,
        ..uses("StructuredOutput", json!({"name": 7}))
    };
    let read = |number: usize| uses("read", json!({"path": format!("file-{number}")}));
    let round = |round: usize| {
        let turns = (0..20).map(move |turn| read(round * 20 + turn));
        turns.chain([wrong(170_000), says("In short.")])
    };
    let turns = (0..4)
        .flat_map(round)
        .chain([wrong(1_000), says("Nobody hears this.")]);
    let world = World::new(turns).in_form(json!({
        "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
    }));
    let mut session = world.open().await.unwrap();
    let stop = Stop::interrupt(CancellationToken::new());
    let prompt = vec![ContentBlock::text("Which fruit?")];
    let outcome = session.run(prompt, &stop).await.unwrap();
    assert_eq!(outcome.reason, ExitReason::MaxStructuredOutputRetries);
    assert_eq!(outcome.turns, 4 * 21 + 1);
    let stored = world.messages().await;
    let used = |usage: fn(Usage) -> u64| stored.iter().map(|it| usage(it.usage())).sum::<u64>();
    assert_eq!(outcome.usage.input_tokens, used(|it| it.input_tokens));
    assert_eq!(outcome.usage.output_tokens, used(|it| it.output_tokens));
    let transcript = session.transcript();
    assert_eq!(transcript.count(), stored.len());
    let held = transcript.messages().len();
    assert!(held < 60, "{held} of {} messages are held", stored.len());
}
