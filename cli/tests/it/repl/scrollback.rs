//! The scrollback is whole and has each line once, at every size, through Ctrl-L, resizes and a question.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::{Ah, World};
use crate::support::pseudo_terminal::Seat;

/// Sizes of terminals: columns and lines.
pub(super) const SIZES: [(u16, u16); 3] = [(80, 24), (40, 20), (20, 8)];

/// A conversation of sixty lines with a question behind the fortieth: its lines, its server, and the program.
pub(super) fn sixty_lines(world: &World) -> (Vec<String>, Server, Ah) {
    let all: Vec<_> = (1..=60).map(|number| format!("line {number}")).collect();
    let (before, after) = all.split_at(40);
    let server = Server::new([
        says(&before.join("\n\n")),
        uses("bash", json!({"command": "touch a"})),
        says(&after.join("\n\n")),
    ]);
    let asking = [
        "-m",
        "sonnet",
        "--no-sandbox",
        "--permission-mode",
        "default",
    ];
    let ah = world.asking(&server, asking);
    (all, server, ah)
}

/// Fails unless `seen` has all lines once and in order, and each of `once` at the beginning of one line.
pub(super) fn assert_whole(seen: &str, all: &[String], once: &[&str], size: (u16, u16)) {
    let shown = seen.lines().map(str::trim_end);
    let shown: Vec<_> = shown.filter(|line| line.starts_with("line ")).collect();
    assert_eq!(shown, all, "{size:?}:\n{seen}");
    for once in once {
        let count = seen.lines().filter(|line| line.starts_with(once)).count();
        assert_eq!(count, 1, "{once} at {size:?}:\n{seen}");
    }
}

#[test]
fn nothing_is_lost_or_repeated_at_any_size() {
    for (columns, lines) in SIZES {
        let world = World::new();
        let (all, _server, ah) = sixty_lines(&world);
        // Like xterm, the emulator does not rewrap lines.
        let mut seat = Seat::of_size(ah.env("XTERM_VERSION", "1"), columns, lines);
        seat.says("count");
        seat.sees("line 40");
        seat.wait_until("it rests", |_, screen| !screen.contains("answering"));
        seat.types("\x0c");
        seat.sees_no_more("line 40");
        seat.says("more");
        seat.sees("Allow?");
        seat.resizes(columns + 20, lines + 6);
        seat.sees("touch a");
        seat.types("\x0c");
        seat.sees("Allow?");
        seat.says("y");
        seat.sees("line 60");
        seat.wait_until("it rests", |_, screen| !screen.contains("answering"));
        let seen = seat.scrollback();
        let once = ["> count", "> more", "→ yes, once"];
        assert_whole(&seen, &all, &once, (columns, lines));
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
    }
}
