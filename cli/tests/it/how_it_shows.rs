//! Screens of a conversation on terminals of several sizes and kinds.

use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::repl::{stable, waits_for};
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// An incomplete answer with elements that are hard to lay out.
const ANSWER: &str = "\
## Names

Some **words** that go on for longer than a terminal of eighty columns is wide, so that there are two rows of them.

| name | in Japanese | hands |
|------|-------------|-------|
| one  | 日本語      | 👍🏽    |

- a point, and 日本語 in it
- another, that nobody has ended ye";

/// A new session shows how to begin, until something is typed.
#[test]
fn a_new_session_invites() {
    let world = World::new();
    let model = world.scenario("s", [says("Hello.")]);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.sees(
        "Describe a task or ask a question (/help for help)\nbypass permissions · project · s",
    );
    seat.types("h");
    seat.sees("> h\nbypass permissions · project · s");
    seat.types("\x03");
    seat.sees("Describe a task");
    seat.says("Hi");
    seat.sees("Hello.");
    seat.sees_no_more("Describe a task");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// A streamed answer above an input line with wide characters that wraps to a second row.
#[test]
fn an_answer_that_comes_and_a_line_that_is_typed() {
    // The emulator counts the emoji as two columns, as some terminals do, so it is placed where its width does not
    // matter.
    let typed = "日本語 and e\u{301}, all of it typed while the answer is coming, in a line that is long, with 👍🏽";
    let mut screens = Vec::new();
    for (columns, lines) in [(80, 24), (200, 50), (40, 20)] {
        let world = World::new();
        let server = Server::new([hangs(ANSWER)]);
        let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), columns, lines);
        seat.says("names?");
        seat.sees("nobody has");
        seat.types(typed);
        seat.sees("with 👍🏽");
        screens.push(stable(&seat.screen()));
        seat.types("\x03");
        seat.sees("interrupted");
        seat.types("\x03\x03\x03");
        seat.leaves();
    }
    insta::assert_snapshot!(screens[0], @"
    > names?

    ## Names

    Some words that go on for longer than a terminal of eighty columns is wide, so
    that there are two rows of them.

    name │ in Japanese │ hands
    ─────┼─────────────┼──────
    one  │ 日本語      │ 👍🏽

    • a point, and 日本語 in it
    • another, that nobody has ended ye

    ⠋ answering 0s · Esc interrupts
    ────────────────────────────────────────────────────────────────────────────────
    > 日本語 and é, all of it typed while the answer is coming, in a line that is
      long, with 👍🏽
    bypass permissions · claude-sonnet-4-5-20250929
    ");
    insta::assert_snapshot!(screens[1], @"
    > names?

    ## Names

    Some words that go on for longer than a terminal of eighty columns is wide, so that there are two rows of them.

    name │ in Japanese │ hands
    ─────┼─────────────┼──────
    one  │ 日本語      │ 👍🏽

    • a point, and 日本語 in it
    • another, that nobody has ended ye

    ⠋ answering 0s · Esc interrupts
    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    > 日本語 and é, all of it typed while the answer is coming, in a line that is long, with 👍🏽
    bypass permissions · claude-sonnet-4-5-20250929
    ");
    insta::assert_snapshot!(screens[2], @"
## Names

Some words that go on for longer than a
terminal of eighty columns is wide, so
that there are two rows of them.

name │ in Japanese │ hands
─────┼─────────────┼──────
one  │ 日本語      │ 👍🏽

• a point, and 日本語 in it
• another, that nobody has ended ye

⠋ answering 0s · Esc interrupts
────────────────────────────────────────
> 日本語 and é, all of it typed while
  the answer is coming, in a line that
  is long, with 👍🏽
bypass permissions · ? for help
");
}

/// Without colours the layout is the same.
#[test]
fn no_colour_leaves_the_layout() {
    let world = World::new();
    let turns = [
        uses("bash", json!({"command": "echo one; exit 3"})),
        says(ANSWER),
    ];
    let server = Server::new(turns);
    let ah = world.asking(&server, ["-m", "sonnet"]).env("NO_COLOR", "1");
    let mut seat = Seat::take(ah);
    seat.says("names?");
    seat.sees("nobody has");
    seat.sees_no_more("Esc interrupts");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > names?

    ✗ bash $ echo one; exit 3 (0.0s)
      one
      exit code: 3

    ## Names

    Some words that go on for longer than a terminal of eighty columns is wide, so
    that there are two rows of them.

    name │ in Japanese │ hands
    ─────┼─────────────┼──────
    one  │ 日本語      │ 👍🏽

    • a point, and 日本語 in it
    • another, that nobody has ended ye

    ────────────────────────────────────────────────────────────────────────────────
    >
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    let bytes = String::from_utf8(seat.bytes()).unwrap();
    let colour = regex::Regex::new("\x1b\\[[0-9;]*m").unwrap();
    assert_eq!(colour.find(&bytes).map(|found| found.as_str()), None);
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// After a resize during an answer the lower part fits again, and no text is lost or repeated.
#[test]
fn another_size_in_the_middle_of_an_answer() {
    let world = World::new();
    let items: Vec<_> = (1..=30).map(|n| format!("- point {n}")).collect();
    let server = Server::new([hangs(&items.join("\n"))]);
    // Like xterm, the emulator does not rewrap lines.
    let ah = world
        .asking(&server, ["-m", "sonnet"])
        .env("XTERM_VERSION", "1");
    let mut seat = Seat::take(ah);
    seat.says("points?");
    seat.sees("point 30");
    seat.types("typed before and after, in a row of its own");
    seat.sees("of its own");
    seat.resizes(40, 12);
    seat.sees("in a row of\n  its own\n");
    insta::assert_snapshot!(stable(&seat.screen()), @r#"
• point 24
• point 25
• point 26
• point 27
• point 28
• point 29
• point 30

⠋ answering 0s · Esc interrupts
> typed before and after, in a row of
  its own
bypass permissions · ? for help
"#);
    seat.resizes(100, 30);
    seat.sees("> typed before and after, in a row of its own\n");
    seat.types("\x1b");
    seat.sees("interrupted");
    let all = seat.scrollback();
    for item in &items {
        let shown = item.replace("- ", "• ");
        let count = all.lines().filter(|line| line.trim_end() == shown).count();
        assert_eq!(count, 1, "{item}:\n{all}");
    }
    seat.types("\x03\x04");
    assert_eq!(seat.leaves(), 0);
}

/// A saved rule avoids the question in this session and in the next one.
#[test]
fn always_means_always() {
    let world = World::new();
    let touch = |name: &str| uses("bash", json!({"command": format!("touch {name}")}));
    let arguments = [
        "-n",
        "-m",
        "sonnet",
        "--no-sandbox",
        "--permission-mode",
        "default",
    ];
    let server = Server::new([touch("made"), touch("made"), says("Made.")]);
    let mut seat = Seat::take(world.asking(&server, arguments));
    seat.says("make it");
    seat.sees("Allow?");
    insta::assert_snapshot!(stable(&seat.screen()), @r#"
> make it

⠋ waiting for your answer 0s · Esc interrupts

bash: touch made
  y           yes, once
  s           yes, for this session: bash(touch made)
  a           yes, always in this project: same rule, saved to FILE
  g           yes, always in ALL projects: same rule, saved to FILE
  n [reason]  no; the reason is sent to the model
Allow?
ask before each action · claude-sonnet-4-5-20250929
"#);
    seat.says("a");
    seat.sees("Made.");
    seat.sees_no_more("Esc interrupts");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > make it

    bash: touch made
    → yes, always in this project

    ✓ bash $ touch made (0.0s)
      (no output)
    ✓ bash $ touch made (0.0s)
      (no output)

    Made.

    ────────────────────────────────────────────────────────────────────────────────
    >
    ask before each action · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    let server = Server::new([touch("made"), says("Made again.")]);
    let mut seat = Seat::take(world.asking(&server, arguments));
    seat.says("make it");
    seat.sees("Made again.");
    seat.types("\x04");
    seat.leaves();
    // In another project it is a question again, whose answer may be for all.
    for (name, is_asked) in [("other", true), ("third", false)] {
        let folder = world.home().join(name);
        std::fs::create_dir(&folder).unwrap();
        let server = Server::new([touch("made"), says("Made elsewhere.")]);
        let mut seat = Seat::take(world.asking(&server, arguments).within(&folder));
        seat.says("make it");
        if is_asked {
            seat.sees("Allow?");
            seat.says("g");
        }
        seat.sees("Made elsewhere.");
        seat.types("\x04");
        seat.leaves();
    }
}

/// A choice that the model offers is a question above the input line.
#[test]
fn a_choice_of_the_models() {
    let world = World::new();
    let question = json!({"questions": [{
        "question": "Which colour?", "header": "Colour", "options": [
            {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"},
        ],
    }]});
    let server = Server::new([uses("ask_user_question", question), says("Blue it is.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("paint it");
    seat.sees("Which colour?");
    seat.sees("your own words:");
    seat.sees("waiting for your answer");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > paint it

    ⠋ waiting for your answer 0s · Esc interrupts

    [Colour] Which colour?
      1  red: warm
      2  blue: cold
    A number, or your own words:
    bypass permissions · claude-sonnet-4-5-20250929
    ");
    seat.says("2");
    seat.sees("Blue it is.");
    seat.sees_no_more("Esc interrupts");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > paint it

    [Colour] Which colour?
    → blue

    Blue it is.

    ────────────────────────────────────────────────────────────────────────────────
    >
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// A resumed session is named; lists are filtered by what is typed.
#[test]
fn a_session_taken_up_and_its_lists() {
    let world = World::new();
    let server = Server::new(["# One\n\nof **them**", "Two.", "Three."].map(says));
    for (prompt, answer) in [("fix the parser", "of them"), ("write the docs", "Two.")] {
        let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
        seat.says(prompt);
        seat.sees(answer);
        seat.sees_no_more("Esc interrupts");
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
    }
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.sees("Two.");
    seat.types("half a line");
    seat.sees("half a line");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    session SESSION, 4 messages

    > fix the parser

    # One

    of them

    > write the docs

    Two.

    ────────────────────────────────────────────────────────────────────────────────
    > half a line
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.types("\x03");
    seat.says("/tree");
    seat.sees("message:");
    seat.types("two");
    seat.sees("message: two");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    session SESSION, 4 messages

    > fix the parser

    # One

    of them

    > write the docs

    Two.

    ────────────────────────────────────────────────────────────────────────────────
    message: two
    ❯ > @3 A Two.
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.types("\x1b");
    seat.sees_no_more("message:");
    seat.types("\x12docs");
    seat.sees("history: docs");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    session SESSION, 4 messages

    > fix the parser

    # One

    of them

    > write the docs

    Two.

    ────────────────────────────────────────────────────────────────────────────────
    history: docs
    ❯ write the docs
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.types("\r");
    seat.sees("> write the docs");
    seat.types("\x03\x04");
    assert_eq!(seat.leaves(), 0);
}

/// The first Ctrl-C stops the agent and the second one exits, even during a tool; the session is kept.
#[test]
fn twice_leaves_in_the_middle_of_a_tool() {
    let world = World::new();
    let server = Server::by_history([waits_for("never"), says("Never.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("begin");
    seat.sees("until test");
    seat.types("\x03\x03");
    assert_eq!(seat.leaves(), 0);
    world.assert_nothing_runs();
    let connection = crate::interrupted_again_and_again::open_sound(&world.database());
    assert_eq!(
        crate::interrupted_again_and_again::texts(&connection, "user"),
        ["begin"]
    );
}

/// A whole conversation on a terminal that cannot position the cursor.
#[test]
fn lines_on_a_dumb_terminal() {
    let world = World::new();
    let turns = [
        uses("bash", json!({"command": "echo one; echo two"})),
        uses("bash", json!({"command": "seq 9; echo it failed; exit 3"})),
        says("# Two\n\n- **one**\n- two"),
    ];
    let server = Server::new(turns);
    let ah = world.asking(&server, ["-m", "sonnet"]).env("TERM", "dumb");
    let mut seat = Seat::take(ah);
    seat.sees("? lists commands and keys\n\n>");
    seat.says("count");
    seat.sees("- two");
    seat.sees("two\n\n>");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > count
    bash (0.0s)
      $ echo one; echo two
      one
      two

    ✗ bash (0.0s)
      $ seq 9; echo it failed; exit 3
      1
      2
      ... 6 more lines
      9
      it failed
      exit code: 3

    # Two

    - **one**
    - two

    >
    ");
    // Of a long list a part of the text chooses.
    seat.says("/model");
    seat.sees("more\nA number, a part of the text, or Enter for none:");
    seat.says("haiku");
    seat.sees("none: haiku\n   1  ");
    seat.says("");
    seat.says("/exit");
    assert_eq!(seat.leaves(), 0);
}
