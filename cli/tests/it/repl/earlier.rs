//! Earlier prompts, and the tree of messages.

use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn a_prompt_is_edited_and_the_tree_shows_where_one_is() {
    let world = World::new();
    let server = Server::new(["One.", "Two.", "Three.", "Four."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    for (prompt, answer) in [("echo one", "One."), ("echo two", "Two.")] {
        seat.says(prompt);
        seat.sees(answer);
        seat.sees_no_more("interrupts");
    }
    // One Esc says what the next would do; a key between them is not for nothing.
    seat.types("\x1b");
    seat.sees("Esc again: edit an earlier prompt");
    seat.types("x");
    seat.sees_no_more("Esc again");
    seat.types("\x7f\x1b");
    seat.sees("Esc again");
    seat.types("\x1b");
    seat.sees("edit:");
    seat.sees("echo one");
    seat.types("\r");
    seat.sees_no_more("edit:");
    // It is in the input.
    seat.sees("─\n> echo two\n");
    seat.says(" again");
    seat.sees("Three.");
    seat.sees_no_more("interrupts");
    let told = server.requests()[2].body["messages"].to_string();
    assert!(
        told.contains("echo two again") && !told.contains("Two."),
        "{told}"
    );

    // Both branches are there, and the place.
    seat.says("/tree");
    seat.sees("message:");
    let screen = seat.screen();
    for part in [
        "├─",
        "U echo two\n",
        "└─* ",
        "U echo two again\n",
        "> @",
        "A Three.\n",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    // The first prompt begins anew.
    seat.types("echo one\r");
    seat.sees_no_more("message:");
    seat.sees("─\n> echo one\n");
    seat.says("!");
    seat.sees("Four.");
    seat.sees_no_more("interrupts");
    let told = server.requests()[3].body["messages"].to_string();
    assert!(
        told.contains("echo one!") && !told.contains("echo two"),
        "{told}"
    );
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// It is asked with all that was said, and the next prompt knows nothing of it; it is paid for all the same.
#[test]
fn a_side_question_stays_out_of_the_conversation() {
    let world = World::new();
    let server = Server::new([says("Blue."), says("It is in the sky."), says("Done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("which colour?");
    seat.sees("Blue.");
    seat.sees_no_more("interrupts");
    seat.says("/btw where does one see it?");
    seat.sees("It is in the sky.");
    seat.sees_no_more("interrupts");
    assert_eq!(
        seat.screen().matches("> /btw").count(),
        1,
        "{}",
        seat.screen()
    );
    seat.says("paint it");
    seat.sees("Done.");
    seat.sees_no_more("interrupts");
    let requests = server.requests();
    let [_, aside, next] = &requests[..] else {
        panic!("{} requests", requests.len());
    };
    let text = |request: &ah_testkit::server::Received| request.body.to_string();
    assert!(text(aside).contains("Blue.") && text(aside).contains("where does one see it?"));
    assert!(text(next).contains("Blue.") && text(next).contains("paint it"));
    assert!(!text(next).contains("where does one") && !text(next).contains("in the sky"));
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let usage = world.as_typed(["usage", "--json"]).run().expect(0);
    let usage: serde_json::Value = serde_json::from_str(&usage.stdout).unwrap();
    assert_eq!(usage["api_calls"], 3, "{usage}");
    let reasons = [0, 1, 2].map(|call| usage["calls"][call]["reason"].as_str());
    assert_eq!(reasons, [None, Some("side_question"), None], "{usage}");
}

/// While the agent works: the answer comes beside its run, which knows nothing of it, and is paid for.
#[test]
fn a_side_question_is_answered_while_the_agent_works() {
    let world = World::new();
    let waits = "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done";
    let server = Server::new([
        uses("bash", json!({"command": waits})),
        says("It waits for a file."),
        says("Done."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("wait for it");
    crate::support::binary::wait_for_file(&world.file("begun"));
    seat.says("/btw what does it do?");
    seat.sees("It waits for a file.");
    let screen = seat.screen();
    assert_eq!(screen.matches("> /btw").count(), 1, "{screen}");
    assert!(!world.file("go").exists());
    world.write("go", "");
    seat.sees("Done.");
    seat.sees_no_more("interrupts");
    let requests = server.requests();
    let [first, aside, next] = &requests[..] else {
        panic!("{} requests", requests.len());
    };
    let text = |request: &ah_testkit::server::Received| request.body.to_string();
    assert!(text(aside).contains("what does it do?") && text(aside).contains("wait for it"));
    assert!(!text(next).contains("what does it do?") && !text(next).contains("for a file."));
    // It begins like the requests of the run, whose cache it reads.
    for part in ["system", "tools"] {
        assert_eq!(first.body[part], aside.body[part]);
    }
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let usage = world.as_typed(["usage", "--json"]).run().expect(0);
    let usage: serde_json::Value = serde_json::from_str(&usage.stdout).unwrap();
    assert_eq!(usage["api_calls"], 3, "{usage}");
}

/// It is asked while another one is being answered: neither knows of the other.
#[test]
fn side_questions_know_nothing_of_each_other() {
    let world = World::new();
    let server = Server::new([says("Blue."), hangs("Per"), says("It is dark.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("which colour?");
    seat.sees("Blue.");
    seat.sees_no_more("interrupts");
    seat.says("/btw is it bright?");
    server.wait_until(|requests| requests.len() == 2);
    seat.says("/btw is it dark?");
    seat.sees("It is dark.");
    let second = server.requests()[2].body.to_string();
    assert!(second.contains("Blue.") && !second.contains("is it bright?"));
    seat.types("\x1b");
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// The model that was chosen during a run is asked, and an answer without words says why.
#[test]
fn a_side_question_is_for_the_model_that_was_chosen_last() {
    let world = World::new();
    let waits = "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done";
    let server = Server::new([
        uses("bash", json!({"command": waits})),
        uses("bash", json!({"command": "ls"})),
        says("Done."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("wait for it");
    crate::support::binary::wait_for_file(&world.file("begun"));
    seat.says("/model opus");
    seat.sees("opus");
    seat.says("/btw what is here?");
    seat.sees("the model tried to call a tool");
    let requests = server.requests();
    assert_ne!(requests[0].body["model"], requests[1].body["model"]);
    world.write("go", "");
    seat.sees("Done.");
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
