//! The transcript on a screen of its own.

use ah_testkit::script::{says, thinks, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// Waits until nothing works; a narrow screen has no room for more than the spinner.
fn idle(seat: &Seat) {
    let is_idle = |screen: &str| !screen.contains(|c| ('\u{2800}'..='\u{28ff}').contains(&c));
    seat.wait_until("it is idle", |_, screen| is_idle(screen));
}

#[test]
fn everything_can_be_looked_at_and_the_scrollback_stays_as_it_was() {
    for (columns, lines) in [(80, 24), (40, 20), (20, 8)] {
        let world = World::new();
        let server = Server::new([
            thinks("Deep down.", "I **count**."),
            uses("bash", json!({"command": "seq 1 3000"})),
            says("Counted."),
        ]);
        let ah = world.asking(&server, ["-m", "sonnet"]);
        let mut seat = Seat::of_size(ah, columns, lines);
        seat.says("count");
        seat.sees("count.");
        idle(&seat);
        seat.says("all");
        seat.sees("Counted.");
        idle(&seat);
        let before = (seat.scrollback(), seat.screen());

        seat.types("\x0f");
        seat.sees("    3000\n");
        // Each line of the output is there, and what was thought.
        seat.types("/1777\r");
        seat.sees("1 of 1");
        seat.sees("    1777\n");
        seat.types("g");
        seat.sees("  - thinking");
        seat.sees("Deep down.");
        // The alternate screen has no scrollback.
        seat.types("z");
        seat.sees("+ thinking");
        seat.types("q");
        seat.wait_until("the conversation again", |_, screen| screen == before.1);
        assert_eq!(seat.scrollback(), before.0);
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
    }
}

/// What a subagent did is below the call, in its own part, which is folded until it is wanted.
#[test]
fn the_transcript_of_a_subagent_is_one_key_away() {
    let world = World::new();
    world.write("notes", "gold\n");
    let input = json!({"description": "find gold", "prompt": "Find gold."});
    let server = Server::new([
        uses("agent", input),
        uses("read", json!({"path": "notes"})),
        says("It is in the notes."),
        says("Found."),
    ]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("go");
    seat.sees("Found.");
    seat.sees_no_more("interrupts");
    seat.types("\x0f");
    seat.sees("+ subagent ");
    assert!(!seat.screen().contains("read notes"), "{}", seat.screen());
    seat.types("/gold\r");
    seat.sees("- read notes");
    seat.types("Gc");
    seat.sees("copied 6 characters");
    let bytes = String::from_utf8_lossy(&seat.bytes()).into_owned();
    assert!(bytes.contains("\x1b]52;c;Rm91bmQu\x07"), "Found.");
    // Whoever leaves the program from here gets their screen back.
    seat.types("q\x04");
    assert_eq!(seat.leaves(), 0);
}
