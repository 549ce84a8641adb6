//! The scrollback is whole and has each line once, at every size, through Ctrl-L, resizes and a question.

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::binary::World;
use crate::seat::Seat;

#[test]
fn nothing_is_lost_or_repeated_at_any_size() {
    let all: Vec<_> = (1..=60).map(|number| format!("line {number}")).collect();
    let (before, after) = all.split_at(40);
    for (columns, lines) in [(80, 24), (40, 20), (20, 8)] {
        let world = World::new();
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
        // Like xterm, the emulator does not rewrap lines.
        let ah = world.asking(&server, asking).env("XTERM_VERSION", "1");
        let mut seat = Seat::of_size(ah, columns, lines);
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
        let shown = seen.lines().map(str::trim_end);
        let shown: Vec<_> = shown.filter(|line| line.starts_with("line ")).collect();
        assert_eq!(shown, all, "{columns}x{lines}:\n{seen}");
        for once in ["> count", "> more", "→ yes, once"] {
            let count = seen.lines().filter(|line| line.starts_with(once)).count();
            assert_eq!(count, 1, "{once} at {columns}x{lines}:\n{seen}");
        }
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
    }
}
