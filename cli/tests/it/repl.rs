//! The interactive conversation: the real binary at a pseudo-terminal.

mod earlier;
mod expected;
mod files;
mod first;
mod found;
mod glance;
mod goals;
mod live;
mod login;
mod mentions;
mod notes;
mod past;
mod pictures;
mod questions;
mod readable;
mod rules;
mod scrollback;
mod sessions;
mod settings;
mod suspended;
mod tmux;
mod to_background;
mod true_words;
mod viewer;

use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::{ASKS_UNCONFINED, World};
use crate::support::pseudo_terminal::Seat;

/// The screen with its varying parts replaced by fixed ones.
pub fn stable(screen: &str) -> String {
    let fixed = [
        (r"(?s)^.*? lists commands and keys\n\n", ""),
        (
            r"(?m)^(.*) · project(?: \([^)]*\))? · ([^$?<\n]*?)( · <?\$[\d.…]+)?( · \? for help)?$",
            "$1 · $2",
        ),
        (r"\[[0-9A-Z]{11}\]", "[SESSION]"),
        (r"\b01[0-9A-Z]{24}\b", "SESSION"),
        (r"\(\d+\.\ds\)", "(0.0s)"),
        (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ([\w ]+) \d+s", "⠋ $1 0s"),
        (r"(?m)^( *)\d+s( · <?\$[\d.]+)?$", "${1}0s$2"),
        (r"saved to\s+`[^`]*`", "saved to FILE"),
    ];
    fixed
        .iter()
        .fold(screen.to_owned(), |screen, (pattern, form)| {
            let pattern = regex::Regex::new(pattern).unwrap();
            pattern.replace_all(&screen, *form).into_owned()
        })
}

#[test]
fn a_long_output_is_shown_whole_on_request() {
    let world = World::new();
    let turns = [
        uses("bash", json!({"command": "seq 1 12"})),
        says("Counted."),
    ];
    let model = world.scenario("s", turns);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("count");
    seat.sees("... 8 more lines");
    seat.sees("Counted.");
    seat.sees_no_more("interrupts");
    seat.says("/show 1");
    seat.sees("bash seq 1 12\n  1\n  2\n  3\n  4\n  5\n  6\n  7\n  8\n  9\n  10\n  11\n  12\n");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn one_prompt_follows_the_other_in_one_session() {
    let world = World::new();
    let turns = [
        says("Hello. I am here."),
        uses("bash", json!({"command": "echo one; echo two"})),
        says("Two lines."),
    ];
    let model = world.scenario("s", turns);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("Hi");
    seat.sees("Hello. I am here.");
    seat.sees_no_more("interrupts");
    seat.says("list ünï 日本 👍");
    seat.sees("Two lines.");
    seat.sees_no_more("interrupts");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > Hi

    Hello. I am here.

    > list ünï 日本 👍

    ✓ bash $ echo one; echo two (0.0s)
      one
      two

    Two lines.

    ────────────────────────────────────────────────────────────────────────────────
    >
    bypass permissions · s · 0% of 200.0k
    ");
    seat.says("/exit");
    assert_eq!(seat.leaves(), 0);
    let connection = crate::interrupted_again_and_again::open_sound(&world.database());
    assert_eq!(
        crate::interrupted_again_and_again::texts(&connection, "user"),
        ["Hi", "list ünï 日本 👍"]
    );
    let history = world.home().join(".ah/history");
    assert_eq!(
        std::fs::read_to_string(history).unwrap(),
        "Hi\nlist ünï 日本 👍\n/exit\n"
    );
}

#[test]
fn who_says_nothing_leaves_nothing_behind() {
    let world = World::new();
    let model = world.scenario("s", [says("Hello.")]);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.sees("bypass permissions");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(world.databases(), Vec::<std::path::PathBuf>::new());
}

/// A tool call that waits for a file, so that a test can type at a known moment of the run.
pub fn waits_for(name: &str) -> ah_provider::script::format::Turn {
    uses(
        "bash",
        json!({"command": format!("until test -e {name}; do sleep 0.01; done; echo ready")}),
    )
}

#[test]
fn words_typed_while_the_agent_works_reach_it_or_come_back() {
    let world = World::new();
    let turns = [waits_for("go"), says("I heard."), says("Afterwards.")];
    let server = Server::by_history(turns);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("begin");
    seat.sees("until test");
    seat.types("first thought");
    seat.sees("> first thought");
    seat.types("\r");
    seat.sees("queued for the next step: first thought");
    // Both are restored to the input, before the text typed there.
    seat.types("second\x1b\r");
    seat.sees("queued for later: second");
    seat.types("third");
    seat.types("\x1b");
    seat.sees_no_more("queued for");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > begin

    ⠋ working 0s · Esc interrupts
      bash until test -e go; do sleep 0.01; done; echo ready
    ────────────────────────────────────────────────────────────────────────────────
    > first thought

      second

      third
    bypass permissions · claude-sonnet-4-5-20250929
    ");
    // And are sent again.
    seat.types("\x15");
    seat.says("look here");
    seat.sees("queued for the next step: look here");
    seat.types("and then\x1b\r");
    seat.sees("queued for later: and then");
    world.write("go", "");
    seat.sees("Afterwards.");
    seat.sees_no_more("interrupts");
    let texts = |request: usize| {
        let body = &server.requests()[request].body;
        let blocks = crate::interrupted_again_and_again::blocks(body);
        let texts = blocks
            .iter()
            .filter_map(|(_, block)| block["text"].as_str().map(str::to_owned));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(1).last().unwrap(), "[STEERING] look here");
    assert_eq!(texts(2).last().unwrap(), "and then");
    assert_eq!(server.refusals(), Vec::<String>::new());
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn an_interrupt_keeps_what_was_said_and_a_second_one_leaves() {
    let world = World::new();
    let server = Server::new([hangs("It begins and"), says("Fresh.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("begin");
    seat.sees("It begins and");
    seat.types("typed mean");
    seat.sees("> typed mean");
    seat.types("\x1b");
    seat.sees("interrupted");
    seat.types("while");
    seat.sees("> typed meanwhile");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > begin

    It begins and

    0s · <$0.01
    interrupted

    ────────────────────────────────────────────────────────────────────────────────
    > typed meanwhile
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k · <$0.01
    ");
    seat.types("\r");
    seat.sees("Fresh.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x03");
    seat.sees("Press Ctrl-C again to exit");
    seat.types("\x03");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(server.refusals(), Vec::<String>::new());
    let connection = crate::interrupted_again_and_again::open_sound(&world.database());
    assert_eq!(
        crate::interrupted_again_and_again::texts(&connection, "assistant"),
        ["It begins and", "Fresh."]
    );
}

#[test]
fn a_question_does_not_eat_what_is_typed() {
    let world = World::new();
    let turns = [
        waits_for("go"),
        uses("bash", json!({"command": "touch asked"})),
        uses("bash", json!({"command": "touch refused"})),
        says("Done."),
    ];
    let server = Server::by_history(turns);
    let allowed = [
        "--allowed-tools",
        "bash(until:*)",
        "bash(do:*)",
        "bash(done:*)",
        "bash(echo:*)",
        "bash(sleep:*)",
        "bash(test:*)",
    ];
    let mut seat = Seat::take(world.asking(&server, ASKS_UNCONFINED.into_iter().chain(allowed)));
    seat.says("begin");
    seat.sees("working");
    seat.types("no need to");
    world.write("go", "");
    seat.sees("touch asked");
    seat.types(" hurry");
    seat.sees("> no need to hurry");
    insta::assert_snapshot!(stable(&seat.screen()), @r#"
> begin

✓ bash $ until test -e go; do sleep 0.01; done; echo ready (0.0s)
  ready

⠋ waiting for your answer 0s · Esc interrupts

bash: touch asked
  y           yes, once
  s           yes, for this session: bash(touch asked)
  a           yes, always in this project: same rule, saved to FILE
  g           yes, always in ALL projects: same rule, saved to FILE
  n [reason]  no; the reason is sent to the model
Allow? (Tab, then your answer)
> no need to hurry
ask before each action · claude-sonnet-4-5-20250929
"#);
    seat.types("\t");
    seat.says("s");
    seat.sees("touch refused");
    seat.sees("> no need to hurry");
    seat.types("\t");
    seat.says("n use another name");
    seat.sees("Done.");
    seat.sees_no_more("Esc interrupts");
    assert!(world.file("asked").exists() && !world.file("refused").exists());
    assert!(
        seat.screen().contains("> no need to hurry"),
        "{}",
        seat.screen()
    );
    let last = server.requests().last().unwrap().body.to_string();
    assert!(last.contains("use another name"), "{last}");
    seat.types("\x03\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn a_paste_of_five_megabytes_is_folded_and_said_whole() {
    let world = World::new();
    let server = Server::new([says("A lot.")]);
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    let line = "0123456789 äöü 日本語\n";
    let text = line.repeat(5_000_000 / line.len());
    seat.types("look: ");
    seat.pastes(&text);
    seat.sees("look: [pasted #1, 178571 lines]");
    seat.types("\r");
    seat.sees("A lot.");
    seat.sees_no_more("Esc interrupts");
    let body = server.requests().remove(0).body;
    let said = crate::interrupted_again_and_again::blocks(&body)
        .pop()
        .unwrap()
        .1["text"]
        .clone();
    assert_eq!(
        said.as_str().unwrap().trim_end(),
        format!("look: {}", text.trim_end())
    );
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn lines_typed_before_are_found_and_edited_elsewhere() {
    let world = World::new();
    let server = Server::new(["One.", "Two.", "Three."].map(says));
    world.write("src/main.rs", "");
    world.write("src/more.rs", "");
    let editor = world.write("editor", "#!/bin/sh\nprintf ' and\\nmore' >>\"$1\"\n");
    let ah = world
        .asking(&server, ["-m", "sonnet"])
        .env("EDITOR", format!("sh {}", editor.display()));
    let mut seat = Seat::of_size(ah, 200, 50);
    for (line, answer) in [("fix the parser", "One."), ("write the docs", "Two.")] {
        seat.says(line);
        seat.sees(answer);
        seat.sees_no_more("Esc interrupts");
    }
    seat.types("\x12pars");
    seat.sees("❯ fix the parser");
    seat.types("\r");
    seat.sees_no_more("typed before");
    seat.types(" of @mor");
    seat.sees("❯ @src/more.rs");
    seat.types("\t");
    seat.sees("> fix the parser of @src/more.rs");
    seat.types("\x07");
    seat.sees("  more");
    insta::assert_snapshot!(stable(&seat.screen()), @"
    > fix the parser

    One.

    > write the docs

    Two.

    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    > fix the parser of @src/more.rs and
      more
    bypass permissions · claude-sonnet-4-5-20250929 · 0% of 200.0k
    ");
    seat.resizes(40, 12);
    seat.types("!");
    seat.sees("  more!");
    seat.types("\r");
    seat.sees("Three.");
    seat.sees_no_more("Esc interrupts");
    let body = server.requests().remove(2).body;
    let said = crate::interrupted_again_and_again::blocks(&body)
        .pop()
        .unwrap()
        .1["text"]
        .clone();
    assert!(
        said.as_str()
            .unwrap()
            .starts_with("fix the parser of @src/more.rs and\nmore!"),
        "{said}"
    );
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Lines in the scrollback are never drawn again. That it is not erased, and that each redraw is one synchronised
/// update, is checked whenever a seat is left.
#[test]
fn the_scrollback_is_written_once() {
    let world = World::new();
    let lines: Vec<_> = (1..=60).map(|n| format!("line {n}")).collect();
    let model = world.scenario("s", [says(&lines.join("\n\n"))]);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("count");
    seat.sees("line 60");
    seat.sees_no_more("Esc interrupts");
    let all = seat.scrollback();
    let shown: Vec<_> = all
        .lines()
        .filter(|line| line.starts_with("line "))
        .collect();
    assert_eq!(shown, lines, "{all}");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

#[test]
fn commands_tell_of_the_session_and_change_it() {
    let world = World::new();
    let server = Server::new(["One.", "Two.", "A summary.", "Three.", "Four."].map(says));
    let mut seat = Seat::of_size(world.asking(&server, ["-m", "sonnet"]), 100, 40);
    seat.says("fix the parser");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    seat.types("/co");
    seat.sees("/context");
    seat.sees("❯ /compact");
    seat.types("\x1b[B\x1b[B\r");
    seat.sees("assistant messages");
    seat.says("/cost");
    seat.sees(" in (");
    seat.says("/model opus");
    seat.sees("claude-opus");
    seat.says("second");
    seat.sees("Two.");
    seat.sees_no_more("Esc interrupts");
    assert!(
        server.requests()[1].body["model"]
            .as_str()
            .unwrap()
            .contains("opus")
    );
    seat.says("/compact the parser");
    seat.sees("compacted to");
    seat.sees_no_more("Esc interrupts");
    // Starts another session, then returns to the first.
    seat.says("/clear");
    seat.sees(", 0 messages");
    seat.sees_no_more("Esc interrupts");
    seat.says("of something else");
    seat.sees("Three.");
    seat.sees_no_more("Esc interrupts");
    seat.says("/resume");
    seat.sees("❯ ");
    seat.types("parser");
    seat.sees("❯ fix the parser\n    now");
    seat.types("\r");
    seat.sees(", 5 messages");
    seat.sees_no_more("Esc interrupts");
    // Returns to the first answer in it, and branches from there.
    seat.says("/tree");
    seat.sees("message:");
    seat.types("One");
    seat.sees("A One.");
    seat.types("\r");
    seat.sees("2 messages\n\n> fix the parser\n\nOne.");
    seat.sees_no_more("Esc interrupts");
    seat.says("another way");
    seat.sees("Four.");
    seat.sees_no_more("Esc interrupts");
    let body = server.requests().last().unwrap().body["messages"].to_string();
    assert!(
        body.contains("fix the parser") && !body.contains("second"),
        "{body}"
    );
    seat.says("/export notes.md");
    seat.sees("Exported to");
    assert!(world.text("notes.md").contains("another way"));
    seat.says("/export notes.html");
    seat.sees("notes.html`");
    assert!(world.text("notes.html").starts_with("<!"));
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(world.databases().len(), 2);
}

#[test]
fn commands_of_the_users_own_are_shared_or_not() {
    let world = World::new();
    let server = Server::new(["One.", "Two."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("!echo shared-$((40 + 2)); exit 3");
    seat.sees("shared-42");
    seat.sees("[exit code 3]");
    seat.sees_no_more("Esc interrupts");
    seat.says("!!echo private-$((40 + 2))");
    seat.sees("private-42");
    seat.sees_no_more("Esc interrupts");
    seat.says("what is that?");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    let body = server.requests().remove(0).body.to_string();
    assert!(
        body.contains("shared-42") && !body.contains("private-42"),
        "{body}"
    );
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Without cursor positioning the conversation goes line by line, without control sequences.
#[test]
fn a_model_chosen_in_the_conversation_is_the_sessions_own() {
    let world = World::new();
    let server = Server::new(["One.", "Two."].map(says));
    let mut seat = Seat::take(world.asking(&server, ["-m", "sonnet"]));
    seat.says("/model opus");
    seat.sees("claude-opus");
    seat.says("first");
    seat.sees("One.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    world.asking(&server, ["-p", "-c", "go on"]).run().expect(0);
    for request in server.requests() {
        let model = request.body["model"].as_str().unwrap().to_owned();
        assert!(model.contains("opus"), "{model}");
    }
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let world = World::new();
    for (term, option) in [("dumb", "--trust"), ("xterm", "--plain")] {
        let arguments = [
            "-n",
            "-m",
            "sonnet",
            "--no-sandbox",
            "--permission-mode",
            "default",
            option,
        ];
        let server = Server::new([
            says("# Hello\n\nI am **here**."),
            uses("bash", json!({"command": "touch asked"})),
            says("Done."),
        ]);
        let mut seat = Seat::take(world.asking(&server, arguments).env("TERM", term));
        seat.says("Hi");
        seat.sees("I am **here**.");
        seat.says("do it");
        seat.sees("Allow?");
        seat.says("y");
        seat.sees("Done.");
        seat.says("/cost");
        seat.sees(" in (");
        seat.says("/tree");
        seat.sees("A number, a part of the text, or Enter for none:");
        seat.says("1");
        seat.sees("messages\n");
        seat.says("/exit");
        let bytes = seat.bytes();
        assert!(
            !bytes.contains(&0x1b),
            "{:?}",
            String::from_utf8_lossy(&bytes)
        );
        assert_eq!(seat.leaves(), 0);
        assert!(world.file("asked").exists());
        std::fs::remove_file(world.file("asked")).unwrap();
    }
}
