//! Conformance checks of the loop, one test each. The check of the hooks is in `hooks.rs`.

use ah_conversation::{Cost, ExitReason, Output, StopReason, Usage};
use ah_testkit::script::{PricePerMillion, Scenario, Turn, hangs, says, scenario, uses, uses_all};
use serde_json::json;

use crate::world::{Fake, World};

fn look() -> Fake {
    Fake::reading("look", |input| {
        let number = input.get("number").cloned().unwrap_or_default();
        async move { Output::text(number.to_string()) }
    })
}

fn looks(number: usize) -> Turn {
    uses("look", json!({"number": number}))
}

/// Each model response counts as one turn.
#[tokio::test]
async fn turn_counting() {
    let mut world = World::new([looks(1), looks(2), says("Done.")]).with(look());
    let outcome = world.run("go").await;
    assert_eq!((outcome.turns, world.requests().len()), (3, 3));
}

/// All four stop reasons are mapped.
#[tokio::test]
async fn stop_reason_mapping() {
    for (word, kept, reason) in [
        ("end_turn", StopReason::EndTurn, ExitReason::EndTurn),
        ("tool_use", StopReason::ToolUse, ExitReason::EndTurn),
        (
            "stop_sequence",
            StopReason::StopSequence,
            ExitReason::StopSequence,
        ),
        ("max_tokens", StopReason::MaxTokens, ExitReason::MaxTokens),
    ] {
        let turn = || Turn {
            stop_reason: Some(word.into()),
            ..says("Words.")
        };
        let mut world = World::new([turn(), turn(), turn(), turn()]);
        assert_eq!(world.run("go").await.reason, reason, "{word}");
        let messages = world.messages().await;
        assert_eq!(messages[1].stop_reason(), Some(&kept));
    }
}

/// Each call gets one result.
#[tokio::test]
async fn tool_result_format() {
    let turn = uses_all([
        ("look", json!({"number": 1})),
        ("look", json!({"number": 2})),
    ]);
    let mut world = World::new([turn, says("Done.")]).with(look());
    world.run("go").await;
    let results = world.requests()[1]
        .messages
        .last()
        .unwrap()
        .tool_results()
        .count();
    assert_eq!(results, 2, "one result for each call, in one user message");
}

/// A run has at most the allowed number of turns.
#[tokio::test]
async fn max_turns_enforcement() {
    let mut world = World::new((0..9).map(looks)).with(look());
    world.settings.limits.max_turns = Some(3);
    let outcome = world.run("go").await;
    assert_eq!(
        (outcome.reason, world.requests().len()),
        (ExitReason::MaxTurns, 3)
    );
    assert_eq!(
        world.last_results(),
        ["2"],
        "the calls of the last turn have run"
    );
}

/// A run ends once its cost reaches the budget.
#[tokio::test]
async fn budget_enforcement() {
    let usage = Usage {
        input_tokens: 100_000,
        output_tokens: 20_000,
        ..Usage::default()
    };
    let price = PricePerMillion {
        input: 3.0,
        output: 15.0,
        ..PricePerMillion::default()
    };
    let turns = (0..9).map(|number| Turn {
        usage: Some(usage),
        ..looks(number)
    });
    let scenario = Scenario {
        price: Some(price),
        ..scenario(turns)
    };
    let mut world = World::playing(scenario).with(look());
    world.settings.limits.max_budget = Some(Cost::from_usd(1.0));
    let outcome = world.run("go").await;
    assert_eq!(
        (outcome.reason, world.requests().len()),
        (ExitReason::MaxBudget, 2)
    );
    assert_eq!(
        world.last_results(),
        ["Not run: the USD budget of this run is used up."]
    );
}

/// An interrupt ends the stream, and takes effect before the next tool.
#[tokio::test]
async fn interrupt_behaviour() {
    let mut world = World::new([hangs("Let me")]);
    let outcome = world.run_until_text("go", "Let me").await;
    assert_eq!(
        (outcome.reason, world.requests().len()),
        (ExitReason::Interrupted, 1)
    );
    let stuck = Fake::reading("stuck", |_| std::future::pending());
    let turn = uses_all([("stuck", json!({})), ("change", json!({}))]);
    let change = Fake::touching("change", ah_conversation::Access::Unknown, |_| async {
        panic!("must not run")
    });
    let mut world = World::new([turn]).with(stuck).with(change);
    assert_eq!(
        world
            .run_until_event("go", "tool_call_start stuck")
            .await
            .reason,
        ExitReason::Interrupted
    );
    assert!(world.last_results()[1].contains("did not run"));
}

/// An answer cut in a full window is continued after a summary.
#[tokio::test]
async fn context_overflow() {
    let full = Usage {
        input_tokens: 190_000,
        ..Usage::default()
    };
    let cut = Turn {
        stop_reason: Some("max_tokens".into()),
        usage: Some(full),
        ..says("Half")
    };
    let mut world = World::new([says("One."), cut, says("In short."), says("Whole.")]);
    world.run("first").await;
    assert_eq!(world.run("second").await.reason, ExitReason::EndTurn);
    assert!(world.events().contains("compaction_complete"));
}

/// Results keep the order of the calls.
#[tokio::test]
async fn message_ordering() {
    let turn = uses_all([
        ("look", json!({"number": 7})),
        ("look", json!({"number": 8})),
        ("look", json!({"number": 9})),
    ]);
    let mut world = World::new([turn, says("Done.")]).with(look());
    world.run("go").await;
    assert_eq!(world.last_results(), ["7", "8", "9"]);
}

/// Events keep their order.
#[tokio::test]
async fn emission_order() {
    let mut world = World::new([looks(1), says("Done.")]).with(look());
    world.run("go").await;
    let events = world.events();
    let order: Vec<_> = events
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(order.first(), Some(&"agent_start"));
    assert_eq!(order.last(), Some(&"agent_end"));
    assert_eq!(
        order.iter().filter(|name| **name == "api_call_end").count(),
        2
    );
}

/// The session is persisted.
#[tokio::test]
async fn session_persistence() {
    let mut world = World::new([says("Done.")]);
    world.run("go").await;
    let texts: Vec<_> = world
        .messages()
        .await
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, ["go", "Done."]);
}

/// A stop for tool use without a call ends the turn.
#[tokio::test]
async fn empty_tool_use() {
    let turn = Turn {
        stop_reason: Some("tool_use".into()),
        ..says("Nothing to do.")
    };
    let mut world = World::new([turn]);
    let outcome = world.run("go").await;
    assert_eq!((outcome.reason, outcome.turns), (ExitReason::EndTurn, 1));
}

/// All tool calls of an answer run.
#[tokio::test]
async fn several_tools_in_one_turn() {
    let turn = uses_all((0..4).map(|number| ("look", json!({"number": number}))));
    let mut world = World::new([turn, says("Done.")]).with(look());
    world.run("go").await;
    assert_eq!(world.last_results(), ["0", "1", "2", "3"]);
}
