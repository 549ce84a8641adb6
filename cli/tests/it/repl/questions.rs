//! Who answers a question, and with what.

use ah_testkit::script::{Turn, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

const ASKING: [&str; 6] = [
    "-m",
    "sonnet",
    "--no-sandbox",
    "--permission-mode",
    "default",
    "--allowed-tools=bash(until:*) bash(do:*) bash(done:*) bash(test:*) bash(sleep:*)",
];

/// A text behind a list, and a sentence that begins like an answer, grant nothing.
#[test]
fn only_an_answer_that_is_meant_is_one() {
    let world = World::new();
    let server = Server::new([
        uses(
            "bash",
            json!({"command": "until test -e go; do sleep 0.01; done"}),
        ),
        uses("bash", json!({"command": "touch asked"})),
        says("Done."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ASKING));
    seat.says("begin");
    seat.sees("until test -e go");
    seat.types("yes and more");
    seat.sees("> yes and more");
    seat.types("\x10exp");
    seat.sees("❯ /export");
    world.write("go", "");
    seat.sees("bash: touch asked");
    seat.types("\x1b");
    seat.sees("Allow? (Tab, then your answer)");
    seat.sees("> yes and more");
    seat.types("\t");
    seat.says("a safer way would be a PR");
    seat.sees("is not one of the answers");
    seat.sees("Allow? a safer way would be a PR");
    assert!(!world.file("asked").exists());
    seat.types("\x15");
    seat.says("no, not now");
    seat.sees("Done.");
    seat.sees("> yes and more");
    assert!(!world.file("asked").exists());
    let last = server.requests().last().unwrap().body.to_string();
    assert!(last.contains("this call to happen: not now"), "{last}");
    // Ctrl-C would interrupt what is still at work.
    seat.sees_no_more("Esc interrupts");
    seat.types("\x03\x04");
    assert_eq!(seat.leaves(), 0);
}

/// The conversation asks on standard output, so it does not matter where standard error goes.
#[test]
fn a_question_is_asked_also_if_standard_error_is_a_file() {
    let world = World::new();
    let server = Server::new([
        uses("bash", json!({"command": "touch asked"})),
        says("Done."),
    ]);
    let ah = world.asking(&server, ASKING);
    let mut seat = Seat::take(ah.through("sh", ["-c", "exec \"$@\" 2>log", "sh"]));
    seat.says("begin");
    seat.sees("Allow?");
    seat.says("y");
    seat.sees("Done.");
    assert!(world.file("asked").exists());
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// `/exit` during a run ends it, and the program.
#[test]
fn a_run_is_left_by_a_word() {
    let world = World::new();
    let server = Server::new([
        uses("bash", json!({"command": "sleep 600"})),
        says("Never."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("begin");
    seat.sees("sleep 600");
    seat.says("exit");
    assert_eq!(seat.leaves(), 0);
}

/// Returns the arguments with more of them.
fn asking<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ASKING[..], more].concat()
}

/// A command that runs until the file `go` is there.
fn waits() -> Turn {
    // Its display has the sign for which a seat waits.
    let command = "until test -e go; do sleep 0.01; done 2>&1";
    uses("bash", json!({"command": command}))
}

/// Whoever types ahead has not seen the question.
#[test]
fn line_by_line_what_was_typed_before_a_question_is_the_next_prompt() {
    let world = World::new();
    let touch = uses("bash", json!({"command": "touch asked"}));
    let server = Server::new([waits(), touch, says("Done."), says("Again.")]);
    let mut seat = Seat::take(world.asking(&server, asking(&["--plain"])));
    seat.says("begin");
    server.wait_until(|seen| seen.len() == 1);
    seat.says("yes");
    world.write("go", "");
    seat.sees("Allow?");
    assert_eq!(server.requests().len(), 2);
    assert!(!world.file("asked").exists());
    seat.says("n");
    seat.sees("Again.");
    assert!(!world.file("asked").exists());
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn line_by_line_a_question_is_left_by_an_interrupt() {
    let world = World::new();
    let touch = uses("bash", json!({"command": "touch asked"}));
    let server = Server::new([touch, says("Again.")]);
    let mut seat = Seat::take(world.asking(&server, asking(&["--plain"])));
    seat.says("begin");
    seat.sees("Allow?");
    seat.types("\x03");
    seat.sees("interrupted");
    seat.says("y");
    seat.sees("Again.");
    assert!(!world.file("asked").exists());
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn without_a_conversation_what_was_typed_before_a_question_is_no_answer() {
    let world = World::new();
    let touch = uses("bash", json!({"command": "touch asked"}));
    let server = Server::new([waits(), touch, says("Done.")]);
    let mut seat = Seat::take(world.asking(&server, asking(&["begin"])));
    server.wait_until(|seen| seen.len() == 1);
    seat.says("g");
    world.write("go", "");
    seat.sees("(what you typed before this question was not taken as an answer)");
    seat.sees("Allow?");
    seat.says("n");
    seat.sees("Done.");
    assert!(!world.file("asked").exists());
    assert_eq!(seat.leaves(), 0);
}
