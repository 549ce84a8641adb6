//! Output of running commands: seen while it comes, and kept when the command is interrupted.

use ah_testkit::script::{fails, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// Writes 40 lines and a progress bar, and waits for a file.
const TICKING: &str =
    "seq -f 'tick %g' 40; printf ' 10%%\\r 90%%'; until [ -e go ]; do sleep 0.02; done; echo over";

#[test]
fn the_end_of_a_running_output_is_seen_and_all_of_it_on_request() {
    let world = World::new();
    let server = Server::new([uses("bash", json!({"command": TICKING})), says("Done.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("count");
    seat.sees("    tick 36\n    tick 37\n    tick 38\n    tick 39\n    tick 40\n     90%\n");
    assert!(!seat.screen().contains("tick 35"));
    // The viewer has it whole, and what comes meanwhile.
    seat.types("\x0f");
    seat.sees("    tick 35\n");
    seat.sees("of 44 ");
    seat.types("g");
    seat.sees("    tick 1\n    tick 2\n");
    seat.types("G");
    world.write("go", "");
    seat.sees("over\n");
    seat.sees("Done.");
    seat.types("q");
    seat.sees_no_more("q back");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn what_an_interrupted_command_has_written_is_kept_and_told() {
    let world = World::new();
    let server = Server::new([uses("bash", json!({"command": TICKING})), says("I see.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("count");
    seat.sees("tick 40");
    seat.types("\x1b");
    seat.sees("interrupted\n");
    seat.sees_no_more("Esc interrupts");
    let screen = seat.screen();
    assert!(
        screen.contains("✗ bash (") && screen.contains("  tick 1\n"),
        "{screen}"
    );
    seat.says("and?");
    seat.sees("I see.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let told = server.requests()[1].body["messages"].to_string();
    for part in [
        "tick 1\\ntick 2",
        "tick 40\\n",
        "was interrupted while this tool ran",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let shown = world.as_typed(["show", "2", "--output"]).run().expect(0);
    assert!(shown.stdout.contains("tick 40\n"), "{}", shown.stdout);
}

#[test]
fn a_command_of_the_users_shows_its_output_too() {
    let world = World::new();
    let server = Server::new([says("Unused.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says(&format!("!{TICKING}"));
    seat.sees("    tick 40\n     90%\n");
    seat.types("\x1b");
    seat.sees("[stopped]");
    assert!(seat.screen().contains("\ntick 40\n"));
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn the_wait_before_a_retry_is_counted_down_and_can_be_skipped() {
    let world = World::new();
    let overloaded = || {
        let mut turn = fails(529, "overloaded_error");
        turn.error.as_mut().unwrap().retry_after = Some(50.0);
        turn
    };
    // More than are tried where nobody looks on.
    let turns = (0..6).map(|_| overloaded()).chain([says("At last.")]);
    let server = Server::new(turns);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("Hi");
    for attempt in 1..=6 {
        seat.sees(&format!("retry {attempt} in "));
        seat.sees("· Enter retries now · Esc interrupts");
        seat.types("\r");
    }
    seat.sees("retried 6 times:");
    seat.sees("At last.");
    seat.sees_no_more("Esc interrupts");
    let shown = seat.screen();
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(server.requests().len(), 7);
    // One line tells of all of them.
    let told = shown.matches("529").count();
    assert_eq!(told, 1, "{shown}");
}
