//! Texts of strangers on a terminal: control and invisible characters in settings, definitions, transcripts and calls are
//! written out, whatever shows them.

use std::io::Read as _;

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::support::binary::{Ah, World, open_terminal, spawn};

/// Sequences that would write to the clipboard, set the title, clear the screen or move the cursor; and characters that
/// nothing shows, or that change the direction of text.
const HOSTILE: &str =
    "a\u{1b}]52;c;eA==\u{7}b\u{9b}2Jc\u{1b}[2Jd\u{8}e\u{200b}f\u{e0041}g\u{202e}h\u{feff}i";

/// What a terminal must never get.
const FORBIDDEN: [&str; 8] = [
    "\u{1b}]",
    "\u{9b}",
    "\u{1b}[2J",
    "\u{8}",
    "\u{200b}",
    "\u{e0041}",
    "\u{202e}",
    "\u{feff}",
];

/// Everything that the binary writes to a terminal on standard output and standard error.
fn on_a_terminal(ah: Ah) -> String {
    let (mut person, side) = open_terminal();
    let mut command = ah.into_command();
    command
        .env("TERM", "xterm-256color")
        .stdin(std::process::Stdio::null())
        .stdout(side.try_clone().unwrap())
        .stderr(side);
    let mut child = spawn(&mut command);
    // It holds the other side.
    drop(command);
    let mut seen = Vec::new();
    // The end of a terminal is an error on Linux.
    let _ = person.read_to_end(&mut seen);
    child.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

fn assert_harmless(what: &[&str], seen: &str) {
    for forbidden in FORBIDDEN {
        assert!(
            !seen.contains(forbidden),
            "{what:?}: {forbidden:?} in {seen:?}"
        );
    }
}

/// A project whose every text is hostile.
fn hostile() -> World {
    let world = World::new();
    let settings = json!({"model": HOSTILE, HOSTILE: 1, "permissions": {"deny": [format!("Read({HOSTILE})")]}});
    world.write(".claude/settings.json", settings.to_string());
    let server = json!({"command": HOSTILE, "args": [HOSTILE], "env": {HOSTILE: "x"}});
    let servers = json!({"mcpServers": {HOSTILE: server, "s": server}});
    world.write(".mcp.json", servers.to_string());
    // A line break ends what YAML and Markdown headers hold; the rest is theirs.
    let head = format!(
        "---\nname: odd\ndescription: {}\n---\n\n{HOSTILE}\n",
        json!(HOSTILE)
    );
    world.write(".claude/agents/odd.md", &head);
    world.write(".claude/commands/odd.md", &head);
    world.write(".claude/skills/odd/SKILL.md", &head);
    world.write(format!("{}.md", HOSTILE.replace('/', "")).as_str(), "x");
    world
}

#[test]
fn what_a_project_says_is_shown_with_its_characters_written_out() {
    let world = hostile();
    for line in [
        &["doctor"][..],
        &["--trust", "doctor"],
        &["config", "show"],
        &["--trust", "config", "show"],
        &["--trust", "tools"],
        &["--trust", "agents"],
        &["--trust", "mcp", "list"],
        &["--trust", "mcp", "get", "s"],
        &["--trust", "mcp", "test", "s"],
        &["mcp", "get", HOSTILE],
        &["--trust", "prompt"],
        &["go"],
        &["--trust", "go"],
    ] {
        let seen = on_a_terminal(world.ah(line.iter().copied()));
        assert!(!seen.trim().is_empty(), "{line:?}");
        assert_harmless(line, &seen);
    }
}

#[test]
fn a_transcript_is_shown_with_its_characters_written_out() {
    let world = World::new();
    let turns = [
        uses(
            "bash",
            json!({"command": format!("printf '%s' '{HOSTILE}'"), "description": HOSTILE}),
        ),
        says(HOSTILE),
    ];
    let model = world.scenario("s", turns);
    let seen = on_a_terminal(world.ah(["-m", &model, HOSTILE]));
    assert_harmless(&["the run"], &seen);
    for line in [
        &["export"][..],
        &["export", "--format", "html"],
        &["export", "--format", "jsonl"],
        &["scan"],
        &["sessions"],
        &["show", "1"],
        &["tree"],
    ] {
        let seen = on_a_terminal(world.ah(line.iter().copied()));
        assert!(!seen.trim().is_empty(), "{line:?}");
        assert_harmless(line, &seen);
    }
}

#[test]
fn the_answer_and_the_failure_of_a_run_are_written_out_in_every_format() {
    let world = World::new();
    let failed = json!({"error": {"status": 400, "type": HOSTILE, "message": HOSTILE}});
    for (name, turn) in [("answer", json!({"text": HOSTILE})), ("failure", failed)] {
        let file = format!("{name}.json");
        world.write(&file, json!({"turns": [turn]}).to_string());
        let model = format!("script:{}", world.file(&file).display());
        for line in [
            &["-p"][..],
            &["-p", "--output-format", "json"],
            &["-p", "--output-format", "json", "--verbose"],
            &["-p", "--output-format", "stream-json", "--verbose"],
            &["--output-format", "text"],
            &["--output-format", "events"],
        ] {
            let words = line.iter().copied().chain(["-n", "-m", &model, "go"]);
            let seen = on_a_terminal(world.as_typed(words));
            assert!(seen.contains("<U+202E>"), "{name} {line:?}: {seen}");
            assert_harmless(line, &seen);
        }
    }
}

#[test]
fn a_question_writes_out_what_nothing_shows() {
    let world = World::new();
    let choice = json!({"questions": [{
        "question": HOSTILE, "header": "Odd", "options": [
            {"label": HOSTILE, "description": HOSTILE}, {"label": "blue", "description": "cold"},
        ],
    }]});
    let turns = [
        uses(
            "bash",
            json!({"command": format!("echo '{HOSTILE}'"), "description": HOSTILE}),
        ),
        uses("write", json!({"path": "a\u{200b}b", "content": HOSTILE})),
        uses("ask_user_question", choice),
        uses("enter_plan_mode", json!({})),
        uses("exit_plan_mode", json!({"plan": HOSTILE})),
        says("Done."),
    ];
    let model = world.scenario("s", turns);
    let ended = world
        .as_typed(["--no-sandbox", "-m", &model, "go"])
        .at_terminal()
        .stdin("n\nn\n2\ny\nn\n")
        .run()
        .expect(0);
    for part in [
        "bash: echo",
        "write: a",
        "<U+200B>",
        "<U+E0041>",
        "<U+202E>",
    ] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert_harmless(&["the questions"], &ended.stderr);
}
