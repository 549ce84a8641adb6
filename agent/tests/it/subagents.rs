//! Runs with subagents: their prompt and tools, their report, their cost, and crashes.

use std::sync::Arc;

use ah_conversation::{Access, Cost, ExitReason, Origin, Output, Usage};
use ah_testkit::script::{
    PricePerMillion, Scenario, Turn, fails, hangs, says, scenario, uses, uses_all,
};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::world::{Fake, World};

fn digger() -> Value {
    json!({"digger": {"description": "digs", "prompt": "You dig.", "tools": ["look"]}})
}

fn dig() -> Value {
    json!({"description": "dig it", "prompt": "Find gold.", "subagent_type": "digger"})
}

/// Returns the same turn with so many output tokens.
fn writes(output_tokens: u64, turn: Turn) -> Turn {
    let usage = Usage {
        output_tokens,
        ..Usage::default()
    };
    Turn {
        usage: Some(usage),
        ..turn
    }
}

/// Returns the turns of a model whose every token costs a dollar.
fn priced(turns: impl IntoIterator<Item = Turn>) -> Scenario {
    let price = PricePerMillion {
        output: 1_000_000.0,
        ..PricePerMillion::default()
    };
    Scenario {
        price: Some(price),
        ..scenario(turns)
    }
}

fn look() -> Fake {
    Fake::reading("look", |_| async { Output::text("sand") })
}

fn change() -> Fake {
    Fake::touching("change", Access::Unknown, |_| async {
        Output::text("done")
    })
}

/// The subagent has its own prompt and tools, and only its report is returned.
#[tokio::test]
async fn a_subagent_has_its_own_prompt_and_tools_and_reports() {
    let turns = [
        uses("agent", dig()),
        uses("look", json!({})),
        says("Gold."),
        says("It found gold."),
    ];
    let mut world = World::new(turns)
        .with(look())
        .with(change())
        .with_agents(digger());
    let outcome = world.run("delegate").await;
    assert_eq!(outcome.answer, "It found gold.");
    assert_eq!(outcome.turns, 2);
    let requests = world.requests();
    let below = &requests[1];
    assert_eq!(*below.system, ["You dig."]);
    let tools: Vec<_> = below.tools.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(tools, ["look"]);
    let said: Vec<_> = below
        .messages
        .iter()
        .map(|message| message.text())
        .collect();
    let opening = "[CONTEXT]\n# AGENTS.md[CONTEXT]\n# Environment";
    assert_eq!(said, [opening, "Find gold."]);
    let report = world.last_results().remove(0);
    assert!(report.starts_with("Gold.\n\nagentId: a"), "{report}");
    assert!(
        !world.request(3).contains("sand"),
        "what it read stays below"
    );
    insta::assert_snapshot!(world.events(), @"
    agent_start delegate
    state_change idle processing
    api_call_start
    api_call_end
    tool_call_start agent
    task started
    task Running look
    below sand
    task completed: Gold.
    tool_call_end agent ok
    api_call_start
    text_delta It found gold.
    api_call_end
    state_change processing idle
    agent_end end_turn
    ");
}

/// A subagent's usage counts to the run, in tokens, cost and by model.
#[tokio::test]
async fn the_usage_of_a_subagent_counts_to_the_run() {
    let turns = [
        writes(1, uses("agent", dig())),
        writes(10, says("Gold.")),
        writes(100, says("Done.")),
    ];
    let mut world = World::playing(priced(turns))
        .with(look())
        .with_agents(digger());
    let outcome = world.run("delegate").await;
    assert_eq!(outcome.usage.output_tokens, 101, "the main conversation's");
    assert_eq!(outcome.models.len(), 1);
    assert_eq!(outcome.models[0].usage.output_tokens, 111);
    assert_eq!(outcome.models[0].cost, Some(Cost::from_usd(111.0)));

    // A subagent may use only the rest of the run's budget.
    let turns = [
        writes(10, uses("agent", dig())),
        writes(10, uses("look", json!({}))),
        writes(10, uses("look", json!({}))),
        says("Never said."),
    ];
    let mut world = World::playing(priced(turns))
        .with(look())
        .with_agents(digger());
    world.settings.limits.max_budget = Some(Cost::from_usd(25.0));
    let outcome = world.run("delegate").await;
    assert_eq!(outcome.reason, ExitReason::MaxBudget);
    assert_eq!(outcome.models[0].usage.output_tokens, 30);
}

/// Only a subagent that has the tool starts others, and the nesting depth is limited.
#[tokio::test]
async fn nesting_needs_the_tool_and_is_limited() {
    let agents = json!({
        "chief": {"description": "leads", "tools": ["agent(digger)"]},
        "digger": {"description": "digs", "tools": ["look"]},
        "endless": {"description": "starts itself", "tools": ["Task"]},
    });
    let to = |kind: &str| {
        uses(
            "agent",
            json!({"description": "d", "prompt": "p", "subagent_type": kind}),
        )
    };
    for (turns, expected) in [
        (
            vec![
                to("chief"),
                to("digger"),
                says("Gold."),
                says("Led."),
                says("Done."),
            ],
            "Led.",
        ),
        (
            vec![to("chief"), to("chief"), says("Alone."), says("Done.")],
            "Alone.",
        ),
        (
            vec![to("digger"), to("digger"), says("Alone."), says("Done.")],
            "Alone.",
        ),
        (
            vec![
                to("endless"),
                to("endless"),
                to("endless"),
                to("endless"),
                says("3"),
                says("2"),
                says("1"),
                says("Done."),
            ],
            "1",
        ),
        (
            vec![to("nobody"), says("Done.")],
            "Agent type 'nobody' not found. Available agents: chief, digger, endless",
        ),
    ] {
        let mut world = World::new(turns).with(look()).with_agents(agents.clone());
        let outcome = world.run("go").await;
        assert_eq!(outcome.answer, "Done.");
        let result = world.last_results().remove(0);
        assert!(result.starts_with(expected), "{expected}: {result}");
    }
}

/// Several subagents of one answer run together, and each report is the result of its call.
#[tokio::test]
async fn several_subagents_run_together() {
    let agents = json!({
        "a": {"description": "a", "prompt": "A"},
        "b": {"description": "b", "prompt": "B"},
    });
    let to = |kind: &str| {
        (
            "agent",
            json!({"description": kind, "prompt": kind, "subagent_type": kind}),
        )
    };
    let both = Arc::new(Barrier::new(2));
    let meet = Fake::reading("meet", move |_| {
        let both = both.clone();
        async move {
            both.wait().await;
            Output::text("met")
        }
    });
    let turns = [
        uses_all([to("a"), to("b")]),
        uses("meet", json!({})),
        uses("meet", json!({})),
        says("One."),
        says("Other."),
        says("Done."),
    ];
    let mut world = World::new(turns).with(meet).with_agents(agents);
    let outcome = world.run("go").await;
    assert_eq!(outcome.answer, "Done.");
    assert_eq!(world.last_errors(), "ok ok");
}

/// A failed subagent is an error result, and its conversation can be continued by its id.
#[tokio::test]
async fn a_failed_subagent_is_an_error_result_and_can_be_resumed() {
    let turns = [
        uses("agent", dig()),
        fails(400, "invalid_request_error"),
        says("Too bad."),
    ];
    let mut world = World::new(turns).with(look()).with_agents(digger());
    let outcome = world.run("delegate").await;
    assert_eq!(outcome.answer, "Too bad.");
    let report = world.last_results().remove(0);
    assert!(
        report.starts_with("The subagent `digger` did not finish"),
        "{report}"
    );
    let id = report
        .split("agentId: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();

    let again = json!({"description": "again", "prompt": "Go on.", "subagent_type": "digger", "resume": id});
    let turns = [uses("agent", again), says("Gold after all."), says("Good.")];
    let mut world = world.resumed(turns).with(look()).with_agents(digger());
    assert_eq!(world.run("once more").await.answer, "Good.");
    assert!(
        world.request(1).contains("Find gold."),
        "{}",
        world.request(1)
    );

    let nobody =
        json!({"description": "x", "prompt": "x", "subagent_type": "digger", "resume": "a0"});
    let mut world = world
        .resumed([uses("agent", nobody), says("No.")])
        .with_agents(digger());
    world.run("and").await;
    assert_eq!(world.last_results(), ["no subagent a0 in this session"]);
}

/// Crashes at every write of a run with a subagent: its stored messages are kept, and it can continue.
#[tokio::test]
async fn a_crash_at_any_write_loses_no_stored_message_of_a_subagent() {
    for survives in 1.. {
        let turns = [
            uses("agent", dig()),
            uses("look", json!({})),
            says("Gold."),
            says("Done."),
        ];
        let mut world = World::new(turns).with(look()).with_agents(digger());
        let died = world.run_until_write("delegate", survives).await;
        let mut world = world
            .resumed([says("Back.")])
            .with(look())
            .with_agents(digger());
        assert_eq!(
            world.run("go on").await.answer,
            "Back.",
            "after {survives} writes"
        );
        let request = world.request(0);
        let may_go_on = request.contains("go on with it by `resume`");
        let is_cut = request.contains("The session was interrupted while this tool ran");
        assert!(is_cut || !may_go_on, "{request}");
        if !died {
            assert!(
                survives >= 8,
                "a run with a subagent has more writes than {survives}"
            );
            return;
        }
    }
}

/// An interrupt ends the subagent with the run; the host is notified of its end.
#[tokio::test]
async fn an_interrupt_ends_the_subagent() {
    let turns = [uses("agent", dig()), hangs("Digging")];
    let mut world = World::new(turns).with(look()).with_agents(digger());
    let outcome = world.run_until_event("delegate", "task started").await;
    assert_eq!(outcome.reason, ExitReason::Interrupted);
    assert!(
        world.events().contains("task stopped"),
        "{}",
        world.events()
    );
}

/// A background subagent does not delay the run, and its report becomes a message of the run.
#[tokio::test]
async fn a_background_subagent_is_reported_when_it_has_ended() {
    let mut beside = dig();
    beside["run_in_background"] = json!(true);
    let turns = [
        uses("agent", beside),
        // The order of the two requests is not fixed, nor whether one ends before the other continues.
        writes(7, says("Gold.")),
        writes(7, says("Gold.")),
        says("It found gold."),
    ];
    let mut world = World::new(turns).with(look()).with_agents(digger());
    let outcome = world.run("delegate").await;
    assert_eq!(outcome.reason, ExitReason::EndTurn);
    assert_eq!(outcome.usage.output_tokens, 7);
    assert_eq!(outcome.models[0].usage.output_tokens, 14);
    let messages = world.messages().await;
    let at = messages
        .iter()
        .position(|message| message.origin == Origin::Task);
    assert!(
        at.is_some_and(|at| at + 1 < messages.len()),
        "the model has answered it"
    );
    let told: Vec<_> = { messages.iter() }
        .map(|message| message.text())
        .filter(|text| text.starts_with("[TASK]"))
        .collect();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("dig it") && told[0].ends_with("completed.\n\nGold."),
        "{told:?}"
    );
}

/// A subagent in the background ended with its process: the model was told that it would hear of its end, and never did.
#[tokio::test]
async fn the_next_process_tells_of_a_background_subagent_that_was_cut_off() {
    let mut beside = dig();
    beside["run_in_background"] = json!(true);
    // Which of the two asks first is not fixed.
    let turns = [uses("agent", beside), hangs("Waiting"), hangs("Waiting")];
    let mut world = World::new(turns).with(look()).with_agents(digger());
    world.run_until_text("delegate", "Waiting").await;
    for answer in ["I see.", "I know."] {
        world = world
            .resumed([says(answer), says("Too many reports.")])
            .with(look())
            .with_agents(digger());
        assert_eq!(world.run("go on").await.answer, answer);
        let messages = world.messages().await;
        let told = messages.iter().map(|message| message.text());
        let told: Vec<_> = told.filter(|text| text.starts_with("[TASK]")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("(dig it) has ended: stopped") && told[0].contains("may have run"),
            "{told:?}"
        );
    }
}
