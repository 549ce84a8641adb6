//! Questions to a user at a terminal, and runs without one.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

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
        ended.stderr.contains("your own words: 2"),
        "{}",
        ended.stderr
    );
    // What was typed is not told a second time.
    assert!(
        !ended.stderr.contains("- Which colour?"),
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
        ended.stderr.contains("your own words: neither"),
        "{}",
        ended.stderr
    );
    assert!(!world.file("too-early").exists() && world.file("in-time").exists());
}

/// An answer can be changed until all of them are sent: they are shown once more first.
#[test]
fn several_questions_have_a_way_back() {
    let question = |header: &str, labels: [&str; 2]| {
        let options = labels.map(|label| json!({"label": label, "description": label}));
        json!({"question": format!("{header}?"), "header": header, "options": options})
    };
    let questions = json!([
        question("Colour", ["red", "blue"]),
        question("Size", ["small", "large"]),
    ]);
    let ask = || uses("ask_user_question", json!({"questions": questions}));
    let answered = |seat: &mut Seat| {
        seat.sees("(1 of 2)");
        // Keys are for it from now on.
        seat.sees("your own words:");
        seat.says("1");
        seat.sees("(2 of 2)");
        seat.says("<");
        seat.sees_no_more("<  back");
        seat.says("2");
        seat.sees("<  back");
        seat.says("1");
        seat.sees("Send these answers?");
        seat.sees("Colour? blue");
        seat.says("y");
        seat.sees("Done.");
        seat.sees_no_more("Esc interrupts");
    };
    let sent = |server: &Server| {
        let request = server.requests()[1].body["messages"].to_string();
        assert!(request.contains("- Colour? blue"), "{request}");
        assert!(request.contains("- Size? small"), "{request}");
    };
    let world = World::new();
    let server = Server::new([ask(), says("Done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.sees("? lists commands and keys");
    seat.says("go");
    answered(&mut seat);
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    sent(&server);
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
