//! A locale without Unicode gets ASCII, whatever writes.

use std::fs;
use std::path::Path;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::{ASKS_UNCONFINED, World};
use crate::support::pseudo_terminal::Seat;

/// Crates whose texts people see.
const SHOWING: [&str; 12] = [
    "agent", "cli", "config", "engine", "mcp", "protocol", "provider", "render", "store",
    "terminal", "tools", "work",
];

/// Writers to a stream that a person may read which do not ask which signs it has, each with its reason.
const APART: [(&str, &str); 9] = [
    ("terminal/src/glyphs.rs", "the place that asks"),
    (
        "terminal/src/print/screen.rs",
        "the answer in a pipe, which is the model's; the rest is fitted",
    ),
    (
        "terminal/src/repl/terminal.rs",
        "modes of the terminal, no text",
    ),
    (
        "terminal/src/repl/plain.rs",
        "the answer in a pipe, which is the model's",
    ),
    (
        "terminal/src/repl.rs",
        "the banner of a plain loop, names of tools; whether colours are used",
    ),
    (
        "cli/src/commands/output.rs",
        "the fitted output of subcommands, and exact output",
    ),
    ("cli/src/commands/tree.rs", "an exact output of a tool"),
    ("cli/src/commands/logs.rs", "a log, fitted on a terminal"),
    ("cli/src/commands/run.rs", "JSON"),
];

/// The lines of a source that are neither comments nor tests.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    { code.lines() }.map(|line| {
        let is_comment = line.trim_start().starts_with("//");
        if is_comment { "" } else { line }
    })
}

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.to_str().unwrap().to_owned(), text));
        }
    }
}

fn shown_sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in SHOWING {
        let folder = Path::new("..").join(name).join("src");
        sources(&folder, &mut found);
    }
    found
}

#[test]
fn every_sign_in_the_sources_has_a_form_in_ascii() {
    for (path, text) in shown_sources() {
        for (at, line) in lines(&text).enumerate() {
            // The table itself, reasons for the compiler, and words of vendors and models.
            let is_exempt = path.ends_with("render/src/ascii.rs")
                || [
                    "reason = \"",
                    "attempts —",
                    "temporary —",
                    "write!(f, \"‹",
                    "<｜tool",
                ]
                .iter()
                .any(|it| line.contains(it));
            assert!(
                is_exempt
                    || ah_render::ascii(line)
                        .chars()
                        .all(|sign| sign.is_ascii() || sign.is_alphabetic()),
                "{path}:{}: {line}",
                at + 1
            );
        }
    }
}

#[test]
fn nothing_writes_around_the_choice_of_signs() {
    let direct = ["io::stderr()", "anstream::std", "io::stdout()", "println!("];
    for (path, text) in shown_sources() {
        let path = path.trim_start_matches("../");
        if !path.starts_with("terminal/") && !path.starts_with("cli/src/commands") {
            continue;
        }
        let is_apart = APART.iter().any(|(apart, _)| *apart == path);
        for line in lines(&text) {
            let asks = ["is_terminal()", "columns(", "use "];
            let writes = direct.iter().any(|stream| line.contains(stream))
                && !asks.iter().any(|ask| line.contains(ask));
            // The protocols of a host and of another agent are JSON.
            let is_host = path.starts_with("cli/src/commands/") && path.ends_with("/serve.rs");
            assert!(!writes || is_apart || is_host, "{path}: {line}");
        }
    }
}

#[test]
fn commands_write_ascii_where_the_locale_has_nothing_else() {
    let world = World::new();
    let model = world.scenario(
        "s",
        [
            uses("bash", json!({"command": "seq 30; exit 3"})),
            uses("write", json!({"path": "a.txt", "content": "one\ntwo\n"})),
            uses(
                "todo_write",
                json!({"todos": [
                    {"content": "a", "status": "completed", "activeForm": "a"},
                    {"content": "b", "status": "in_progress", "activeForm": "b"},
                    {"content": "c", "status": "pending", "activeForm": "c"},
                ]}),
            ),
            says("# Done\n\n- one\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n"),
        ],
    );
    let commands: [&[&str]; 12] = [
        &["-m", &model, "go"],
        &["--plain", "-m", &model, "again"],
        &["-p", "-m", &model, "printed"],
        &["scan"],
        &["show", "1"],
        &["tree"],
        &["doctor"],
        &["models"],
        &["sessions"],
        &["usage"],
        &["tools"],
        &["undo", "--dry-run"],
    ];
    for locale in [("LC_ALL", "C"), ("LANG", "")] {
        for arguments in commands {
            for at_terminal in [false, true] {
                let ah = world.ah(arguments.iter().copied()).env(locale.0, locale.1);
                let ah = if at_terminal { ah.at_terminal() } else { ah };
                let ended = ah.run();
                for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
                    assert!(text.is_ascii(), "{arguments:?} {name}:\n{text}");
                }
            }
        }
    }
    // A program gets the words of the model.
    let model = world.scenario("exact", [says("a → b…")]);
    let exact = world
        .ah(["-n", "-p", "-m", &model, "go"])
        .env("LC_ALL", "C");
    assert_eq!(exact.run().expect(0).stdout, "a → b…\n");
}

#[test]
fn a_conversation_is_ascii_where_the_locale_has_nothing_else() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    let script: String = (1..60).map(|n| format!("touch {n}\n")).collect();
    let ask = json!({"questions": [{
        "question": "Which?", "header": "Which", "multiSelect": true, "options": [
            {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"},
        ],
    }]});
    let server = Server::new([
        uses("read", json!({"path": "a.txt"})),
        uses(
            "edit",
            json!({"path": "a.txt", "old_string": "two", "new_string": "three"}),
        ),
        uses("bash", json!({"command": script})),
        uses("ask_user_question", ask),
        says("Well… → done, naïve “friend”:\n\n- item\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
    ]);
    let ah = world
        .asking_as_typed(&server, ASKS_UNCONFINED)
        .env("LC_CTYPE", "POSIX");
    let mut seat = Seat::take(ah);
    seat.sees("? lists commands");
    seat.says("go");
    seat.sees("+ three");
    seat.sees("Allow?");
    seat.says("y");
    seat.sees("touch 59");
    seat.sees("Allow?");
    seat.says("y");
    seat.sees("Which?");
    seat.sees("own words:");
    seat.types("\x1b[B \r");
    seat.sees("done, naïve");
    seat.sees_no_more("Esc interrupts");
    for line in ["/status", "?", "/cost", "/context", "/tree"] {
        seat.says(line);
    }
    seat.sees("message:");
    let seen = String::from_utf8_lossy(&seat.bytes()).into_owned();
    // The letters of the model stay.
    let rest: String = seen.chars().filter(|c| !"ï“”".contains(*c)).collect();
    let odd: Vec<_> = rest.chars().filter(|c| !c.is_ascii()).collect();
    assert!(odd.is_empty(), "{odd:?}: {}", seat.scrollback());
    seat.types("\x03\x03\x03");
    seat.leaves();
}
