//! Showing and undoing the tools' file changes from the conversation.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use super::stable;
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

#[test]
fn files_are_given_back_once_that_is_agreed_to() {
    let world = World::new();
    world.write("old.txt", "one\ntwo\nthree\n");
    let turns = [
        uses("read", json!({"path": "old.txt"})),
        uses(
            "edit",
            json!({"path": "old.txt", "old_string": "two", "new_string": "2"}),
        ),
        uses("write", json!({"path": "new.txt", "content": "new\n"})),
        says("Done."),
        says("I see."),
    ];
    let server = Server::by_history(turns);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), 80, 40);
    seat.says("/undo");
    seat.sees("Nothing to undo.");
    seat.says("do it");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    let text = |name: &str| std::fs::read_to_string(world.file(name)).ok();
    seat.types("\x0c");
    seat.says("/diff");
    seat.sees("new.txt (+1 -0)");
    seat.says("/undo");
    seat.sees("Continue?");
    seat.says("n");
    seat.sees_no_more("Esc interrupts");
    assert_eq!(text("old.txt").unwrap(), "one\n2\nthree\n");
    seat.says("/undo");
    seat.sees("Continue? (y/n)\n");
    seat.says("y");
    seat.sees("/redo reverses this");
    seat.sees_no_more("Esc interrupts");
    assert_eq!(text("old.txt").unwrap(), "one\ntwo\nthree\n");
    assert_eq!(text("new.txt"), None);
    seat.says("/redo");
    seat.sees("Continue? (y/n)\n");
    // No answer is not consent.
    seat.types("\x1b");
    seat.wait_until("it rests", |_, screen| {
        !screen.contains("Esc interrupts") && !screen.contains("stopping")
    });
    assert_eq!(text("new.txt"), None);
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > /diff

    new.txt (+1 -0)
    1 + new
    old.txt (+1 -1)
    1   one
    2 - two
    2 + 2
    3   three

    > /undo

    undo: 2 files would change
      remove new.txt (+0 -1)
      restore old.txt (+1 -1)
    → no

    > /undo

    undo: 2 files would change
      remove new.txt (+0 -1)
      restore old.txt (+1 -1)
    → yes
    2 files changed; /redo reverses this

    > /redo

    redo: 2 files would change
      recreate new.txt (+1 -0)
      restore old.txt (+1 -1)

    ────────────────────────────────────────────────────────────────────────────────
    >
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.says("what now?");
    seat.sees("I see.");
    let last = server.requests().pop().unwrap().body;
    let mut said = crate::interrupted_again_and_again::blocks(&last);
    assert_eq!(said.pop().unwrap().1["text"], "what now?");
    let note = said.pop().unwrap().1["text"].to_string();
    assert!(note.contains("remove new.txt"), "{note}: {said:?}");
    assert_eq!(server.refusals(), Vec::<String>::new());
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
