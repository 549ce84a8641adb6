//! The pictures of `docs/screens.md`: what the program really shows on a terminal. A picture that is not what it shows
//! any more fails here; `AH_WRITE_SCREENS=1 cargo test -p ah-cli --test it screens` makes them anew.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses, uses_all};
use ah_testkit::server::Server;
use ah_testkit::svg::svg;
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

use crate::support::binary::{ASKS_UNCONFINED, Ah, World, open_terminal, spawn};
use crate::support::pseudo_terminal::Seat;
use crate::support::shown::steady;

const COLUMNS: u16 = 80;
/// More rows than any run fills, so that nothing scrolls away.
const ROWS: u16 = 80;

/// The terminal's content after `ah` has ended. Varying parts are replaced by stand-ins that all look different.
fn screen(world: &World, ah: Ah) -> vt100::Parser {
    let (mut person, side) = open_terminal();
    let size = Winsize {
        ws_row: ROWS,
        ws_col: COLUMNS,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&side, size).unwrap();
    let mut command = ah.env("TERM", "xterm-256color").into_command();
    command
        .stdin(side.try_clone().unwrap())
        .stdout(side.try_clone().unwrap())
        .stderr(side);
    let mut child = spawn(&mut command);
    // It holds our copies of the program's side.
    drop(command);
    let mut bytes = Vec::new();
    // The end of a terminal is reported as an error.
    let _ = person.read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    settled(world, &bytes, (COLUMNS, ROWS))
}

/// Renders these bytes on a terminal of this size, with varying parts replaced.
fn settled(world: &World, bytes: &[u8], (columns, rows): (u16, u16)) -> vt100::Parser {
    let mut text = steady(world, str::from_utf8(bytes).unwrap());
    for (stand_in, shown) in [
        ("<n>s", "0.1s"),
        ("<id>", "01KAQ5ZB3YC"),
        ("<ah>", "ah"),
        ("<project>", "~/greeter"),
    ] {
        text = text.replace(stand_in, shown);
    }
    for (varying, shown) in [
        (r"[^\s']*/ah-demo-\w+", "/tmp/ah-demo-x7Kq2P"),
        (
            r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] (\w+|waiting for your answer) \d+s",
            "⠹ $1 4s",
        ),
    ] {
        let varying = regex::Regex::new(varying).unwrap();
        text = varying.replace_all(&text, shown).into_owned();
    }
    let mut terminal = vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0);
    terminal.process(text.as_bytes());
    terminal
}

/// Compares a screen with its picture in the documents.
fn check(name: &str, terminal: &vt100::Parser) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/screens/{name}.svg"));
    let picture = svg(terminal.screen());
    if std::env::var_os("AH_WRITE_SCREENS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &picture).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == picture,
        "docs/screens/{name}.svg is not what the program shows, which is:\n{}\n\
         `AH_WRITE_SCREENS=1 cargo test -p ah-cli --test it screens` makes the pictures anew",
        terminal.screen().contents()
    );
}

#[test]
fn the_demo() {
    let world = World::new();
    let ah = world.as_typed(["demo"]).env("TMPDIR", world.home());
    check("demo", &screen(&world, ah));
}

const ANSWER: &str = "\
## What `greet.sh` does

It greets **everyone who is named**, one line each:

```sh
for name in \"$@\"; do
  echo \"Hello, $name!\"   # quoted, so that names may have blanks
done
```

| call                  | lines | why |
|-----------------------|------:|-----|
| `greet.sh`            |     1 | without a name it greets the world |
| `greet.sh Ada Grace`  |     2 | an argument each |

1. Quotes keep a name of two words whole.
   - see [the shell's manual](https://www.gnu.org/software/bash/manual/)
2. *Nothing else* is needed.

> Wide characters stay in line: 日本語, and so do 👍🏽.
";

#[test]
fn an_answer_and_its_tools() {
    let world = World::new();
    world.write(
        "greet.sh",
        "#!/bin/sh\nfor name in $*; do\n  echo \"Hello, $name!\"\ndone\n",
    );
    let todo = |first: &str, second: &str| {
        json!({"todos": [
            {"content": "Quote the arguments", "status": first, "activeForm": "Quoting the arguments"},
            {"content": "Explain it", "status": second},
        ]})
    };
    let edit =
        json!({"path": "greet.sh", "old_string": "in $*; do", "new_string": "in \"$@\"; do"});
    let turns = [
        uses("todo", todo("in_progress", "pending")),
        uses("edit", edit),
        uses(
            "bash",
            json!({"command": "for n in $(seq 40); do echo \"check $n passed\"; done"}),
        ),
        uses("read", json!({"path": "greet.txt"})),
        uses("todo", todo("completed", "in_progress")),
        says(ANSWER),
    ];
    let model = world.scenario("s", turns);
    let ah = world.as_typed(["-m", &model, "--dangerously-skip-permissions", "explain"]);
    check("answer", &screen(&world, ah));
}

/// The user types while the agent works.
#[test]
fn a_conversation() {
    let world = World::new();
    world.write(
        "greet.sh",
        "#!/bin/sh\n# Greets everyone who is named.\nfor name in $*; do\n  echo \"Hello, $name!\"\ndone\n",
    );
    world.write(
        "test.sh",
        "echo 'ok: greet.sh Ada'\nif grep -q '\"$@\"' greet.sh; then\n  until test -e go; do sleep 0.01; done\n\
         else\n  echo 'FAIL: greet.sh \"Grace Hopper\"'\n  exit 1\nfi\n",
    );
    let taking = |input_tokens: u64, turn: Turn| Turn {
        usage: Some(Usage {
            input_tokens,
            output_tokens: 120,
            ..Usage::default()
        }),
        ..turn
    };
    let edit =
        json!({"path": "greet.sh", "old_string": "in $*; do", "new_string": "in \"$@\"; do"});
    let test = || uses("bash", json!({"command": "sh test.sh"}));
    let server = Server::by_history([
        taking(
            4_100,
            Turn {
                text: Some("I run the test first, to see it fail for myself.".into()),
                ..test()
            },
        ),
        taking(
            4_350,
            Turn {
                text: Some(
                    "`$*` without quotes is **split at every blank**; `\"$@\"` keeps names whole."
                        .into(),
                ),
                ..uses("edit", edit)
            },
        ),
        taking(4_600, test()),
        says("Done."),
    ]);
    let ah = world.asking(&server, ["-m", "sonnet"]);
    let mut seat = Seat::of_size(ah, COLUMNS, 30);
    seat.says("the test fails: find out why, and repair it");
    seat.sees("✓ edit");
    seat.sees("  bash sh test.sh");
    seat.types("say it in the changelog too\r");
    seat.sees("queued for the next step: say it");
    seat.types("and then have a look at @tes");
    seat.sees("❯ @test.sh");
    let bytes = seat.bytes();
    world.write("go", "");
    check("conversation", &settled(&world, &bytes, (COLUMNS, 30)));
}

const GREETER: &str = "#!/bin/sh\n# Greets everyone who is named.\nfor name in $*; do\n  echo \"Hello, $name!\"\ndone\n";

/// The user is asked about an edit.
#[test]
fn a_question() {
    let world = World::new();
    world.write("greet.sh", GREETER);
    let edit =
        json!({"path": "greet.sh", "old_string": "in $*; do", "new_string": "in \"$@\"; do"});
    let server = Server::new([
        uses("read", json!({"path": "greet.sh"})),
        Turn {
            text: Some("`$*` is split at every blank; `\"$@\"` keeps names whole.".into()),
            ..uses("edit", edit)
        },
        says("Done."),
    ]);
    let ah = world.asking_as_typed(&server, ASKS_UNCONFINED);
    let mut seat = Seat::of_size(ah, COLUMNS, 30);
    seat.says("greet people with two names right");
    seat.sees("Allow?");
    let bytes = seat.bytes();
    check("question", &settled(&world, &bytes, (COLUMNS, 30)));
}

/// The user undoes what the agent did.
#[test]
fn an_undo() {
    let world = World::new();
    world.write("greet.sh", GREETER);
    let edit = json!({"path": "greet.sh", "old_string": "Hello", "new_string": "Good evening"});
    let server = Server::new([uses("edit", edit), says("It greets in the evening now.")]);
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), COLUMNS, 30);
    seat.says("greet people in the evening");
    seat.sees("in the evening now.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/undo");
    seat.sees("Continue?");
    seat.says("y");
    seat.sees("/redo reverses this");
    seat.sees_no_more("Esc interrupts");
    let bytes = seat.bytes();
    check("undo", &settled(&world, &bytes, (COLUMNS, 30)));
}

/// Returns the turns of a repair: 16 calls, among them a failing and a passing test, two edits and three subagents.
fn repair() -> Vec<Turn> {
    let agent = |about: &str| {
        let input =
            json!({"description": about, "prompt": about, "subagent_type": "general-purpose"});
        uses("agent", input)
    };
    let read = |path: &str| ("read", json!({"path": path}));
    let edit = |old: &str, new: &str| {
        uses(
            "edit",
            json!({"path": "greet.sh", "old_string": old, "new_string": new}),
        )
    };
    let test = || uses("bash", json!({"command": "sh test.sh"}));
    vec![
        Turn {
            text: Some("I look at the code first.".into()),
            ..uses_all([
                ("glob", json!({"pattern": "*.sh"})),
                read("greet.sh"),
                read("test.sh"),
                ("grep", json!({"pattern": "Hello"})),
            ])
        },
        uses_all([read("greet.sh"), ("grep", json!({"pattern": "for name"}))]),
        test(),
        agent("who calls greet.sh"),
        uses_all([read("greet.sh")]),
        says("Only `test.sh` calls it, with one name or with two."),
        agent("quoting elsewhere"),
        uses_all([("grep", json!({"pattern": "[$][*]"}))]),
        says("No other script uses `$*`."),
        agent("portable shells"),
        says("`\"$@\"` is in every POSIX shell."),
        edit("in $*; do", "in \"$@\"; do"),
        edit(
            "# Greets everyone who is named.",
            "# Greets everyone who is named, in full.",
        ),
        test(),
        says("Names of two words are greeted whole: `\"$@\"` keeps each argument as it is."),
    ]
}

/// A screenful for a thought: all of a repair is read at a glance.
#[test]
fn a_repair() {
    let world = World::new();
    world.write("greet.sh", GREETER);
    world.write(
        "test.sh",
        "for n in 1 2 3 4 5 6; do echo \"ok $n: plain names\"; done\nif grep -q '\"$@\"' greet.sh; then\n  echo 'ok 7: greet.sh \"Grace Hopper\"'\n\
         else\n  echo 'FAIL 7: greet.sh \"Grace Hopper\"'\n  echo '  wanted: Hello, Grace Hopper!'\n  echo '  got:    Hello, Grace!'\n  exit 1\nfi\n",
    );
    let server = Server::new(repair());
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), COLUMNS, 60);
    seat.says("the test fails: find out why, and repair it");
    seat.sees("as it is.");
    seat.sees_no_more("Esc interrupts");
    let terminal = settled(&world, &seat.bytes(), (COLUMNS, 60));
    let shown = terminal.screen().contents();
    let story = shown.split("> the test fails").nth(1).unwrap();
    // Below it is the input.
    let story = story.split("────").next().unwrap();
    let rows = story.trim_end().lines().count();
    assert!(rows <= 40, "{rows} rows:\n{story}");
    check("repair", &terminal);
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}
