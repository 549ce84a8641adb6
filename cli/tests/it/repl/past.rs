//! What came before: the history of a session that is opened again, earlier outputs, and tasks in the background.

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, thinks, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::stable;
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn a_session_that_is_opened_again_shows_what_was_said() {
    let world = World::new();
    world.write("notes", "one\ntwo\nthree\n");
    let server = Server::new([
        thinks("Where are they?", "I **look**."),
        uses("read", json!({"path": "notes"})),
        says("Three lines."),
        says("Bye."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    for (line, answer) in [
        ("what is in notes?", "look"),
        ("go on", "Three"),
        ("bye", "Bye"),
    ] {
        seat.says(line);
        seat.sees(answer);
        seat.sees_no_more("Esc interrupts");
    }
    let before = stable(&seat.scrollback());
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.sees("Bye.\n");
    let after = stable(&seat.scrollback());
    // As it was, but for the sums of each run.
    let is_said = |line: &&str| !line.contains(" total), ") && !line.is_empty();
    let said: Vec<_> = before.lines().filter(is_said).collect();
    let told: Vec<_> = after.lines().filter(is_said).collect();
    assert_eq!(told[0], "session SESSION, 8 messages");
    let shown = |lines: &[&str]| lines.join("\n").split("Bye.").next().unwrap().to_owned();
    assert_eq!(shown(&told[1..]), shown(&said));
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn of_a_long_session_the_last_messages_are_shown() {
    let world = World::new();
    let turn = Turn {
        repeat: Some(150),
        ..says("<{{user}}>")
    };
    let model = world.scenario("s.json", [turn]);
    let lines: String = (0..150).map(|n| format!("say {n}\n")).collect();
    let ah = world.ah(["-m", &model, "--profile", "plain-repl"]);
    ah.stdin(lines).run().expect(0);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.sees("> say 149\n\n<say 149>");
    let told = seat.scrollback();
    assert!(
        told.contains(
            ", 300 messages\n… 100 earlier messages; `/export` writes them all\n\n> say 50\n"
        ),
        "{told}"
    );
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn any_earlier_output_is_shown_again() {
    let world = World::new();
    let print = |text| uses("bash", json!({"command": format!("seq -f '{text} %g' 30")}));
    let server = Server::new([print("apple"), print("pear"), says("Done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("fruits");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/show");
    seat.sees("output of:\n❯    @3  bash seq -f 'pear %g' 30\n     @1  bash seq");
    seat.types("app");
    seat.sees("❯    @1  bash seq -f 'apple %g' 30\n");
    seat.types("\r");
    seat.sees("  apple 30\n");
    seat.says("/show 3");
    seat.says("/show 9");
    seat.sees("there is no message 9");
    let told = seat.scrollback();
    for (line, times) in [("  apple 15\n", 1), ("  pear 15\n", 1)] {
        assert_eq!(told.matches(line).count(), times, "{told}");
    }
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn tasks_in_the_background_are_listed_seen_and_stopped() {
    let world = World::new();
    let beside = |command: &str| {
        let input = json!({"command": command, "run_in_background": true});
        uses("bash", input)
    };
    let server = Server::new([
        beside("echo listening; until [ -e go ]; do sleep 0.02; done; echo over"),
        beside("echo; echo forever; sleep 1000"),
        says("Both run."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("/tasks");
    seat.sees("No background tasks.");
    seat.says("serve");
    seat.sees("Both run.");
    seat.sees_no_more("Esc interrupts");
    // Not the words that the model is told, with ids and paths.
    seat.sees("running in the background (/tasks)");
    seat.sees("2 tasks running · ");
    seat.says("/tasks");
    seat.sees("❯ #2 command: echo; echo forever; sleep 1000\n    running · ");
    seat.sees("  #1 command: echo listening;");
    seat.sees("Enter shows its output · Ctrl-X stops it\n");
    seat.types("listening\r");
    seat.sees("echo over,\nrunning · ");
    seat.sees("  listening\n");
    world.write("go", "");
    seat.sees("task #1 completed; /tasks 1 shows its output");
    seat.says("/tasks 1");
    seat.sees("  listening\n  over\n");
    seat.sees("1 task running · ");
    seat.says("/tasks");
    seat.sees("❯ #2 ");
    seat.types("\x18");
    seat.sees("task #2 stopped; /tasks 2 shows its output");
    seat.says("/tasks stop 7");
    seat.sees("there is no task 7; /tasks lists them");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    world.assert_nothing_runs();
}

/// A command is shown as it was typed, wherever the model was told its text.
#[test]
fn a_command_is_shown_by_its_name_when_its_session_is_opened_again() {
    let world = World::new();
    world.write(".ah/commands/ship.md", "Ship the changes of $ARGUMENTS.\n");
    let server = Server::new(["Shipped.", "Shipped again."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet", "--trust"]));
    seat.says("/ship today");
    seat.sees("Shipped.");
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let told = server.requests()[0].body["messages"].to_string();
    assert!(told.contains("Ship the changes of today."), "{told}");

    let listed = world.as_typed(["sessions"]).run().expect(0);
    assert!(listed.stdout.contains("/ship today"), "{}", listed.stdout);
    let mut seat = Seat::take(world.asking(&server, ["-c", "-m", "sonnet", "--trust"]));
    seat.sees("\n> /ship today\n");
    seat.sees("Shipped.");
    seat.says("/tree");
    seat.sees("U /ship today\n");
    seat.types("\x1b");
    seat.sees_no_more("message:");
    seat.types("\x1b\x1b");
    seat.sees("@0  /ship today\n");
    assert!(!seat.scrollback().contains("Ship the changes"));
    // Said once more, it is looked up again.
    seat.types("\r");
    seat.sees_no_more("edit:");
    seat.sees("> /ship today");
    seat.says(" and tomorrow");
    seat.sees("Shipped again.");
    let told = server.requests()[1].body["messages"].to_string();
    assert!(
        told.contains("Ship the changes of today and tomorrow."),
        "{told}"
    );
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
