//! Questions to a user at a terminal, and runs without one.

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::support::binary::World;

/// The user asks for a plan, answers a question and approves the plan; only then are files written.
#[test]
fn a_person_at_a_terminal_chooses_and_approves() {
    let world = World::new();
    let write = |path: &str| uses("write", json!({"path": path, "content": "x"}));
    let question = json!({"questions": [{
        "question": "Which colour?", "header": "Colour", "options": [
            {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"},
        ],
    }]});
    let turns = [
        uses("enter_plan_mode", json!({})),
        write("too-early"),
        uses("ask_user_question", question),
        uses("exit_plan_mode", json!({"plan": "Paint it."})),
        write("in-time"),
        says("Done."),
    ];
    let model = world.scenario("s", turns);
    let ended = world
        .ah(["-m", &model, "go"])
        .stdin("y\n2\nn first the door\n")
        .at_terminal()
        .run()
        .expect(0);
    assert!(
        ended.stderr.contains("Enter plan mode?"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("- Which colour? blue"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("Paint it."), "{}", ended.stderr);
    assert!(ended.stderr.contains("first the door"), "{}", ended.stderr);
    assert!(!world.file("too-early").exists() && !world.file("in-time").exists());
    let ended = world
        .ah(["-n", "-m", &model, "go"])
        .stdin("yes\nneither\ny\n")
        .at_terminal()
        .run()
        .expect(0);
    assert!(
        ended.stderr.contains("- Which colour? neither"),
        "{}",
        ended.stderr
    );
    assert!(!world.file("too-early").exists() && world.file("in-time").exists());
}

/// Without a user to ask, tools that ask are not offered.
#[test]
fn tools_that_ask_are_there_only_with_a_person() {
    let world = World::new();
    let model = world.scenario("s", [says("Done.")]);
    let list = |format: &str, is_person: bool| {
        let run = world.ah(["-n", "-m", &model, "--output-format", format, "tools"]);
        let run = if is_person {
            run.stdin("\n").at_terminal()
        } else {
            run
        };
        run.run().expect(0).stdout
    };
    assert!(list("text", true).contains("ask_user_question"));
    assert!(!list("text", false).contains("ask_user_question"));
    assert!(!list("events", true).contains("ask_user_question"));
}
