//! The two interfaces, with a test for each row of the table in docs/interfaces.md: the program's own for people, and
//! that of the Agent SDK (`-p`, `--output-format json`) as a drop-in for programs that use another agent's command
//! line.

use ah_provider::script::failure::Failure;
use ah_provider::script::format::Turn;
use ah_testkit::script::{fails, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ah, World, wait_for_file};
use crate::support::shown::shown;

/// The arguments that choose each interface.
const INTERFACES: [&[&str]; 3] = [&[], &["-p"], &["--output-format", "json"]];

fn asking(world: &World, server: &Server, arguments: &[&str]) -> Ah {
    world.asking(server, ["-m", "sonnet"].iter().chain(arguments).copied())
}

#[test]
fn a_person_goes_on_with_the_newest_session_and_a_program_begins_one() {
    for (arguments, sessions) in [(INTERFACES[0], 1), (INTERFACES[1], 2), (INTERFACES[2], 2)] {
        let world = World::new();
        let server = Server::new([says("One."), says("Two."), says("Three.")]);
        for _ in 0..2 {
            asking(&world, &server, &[arguments, &["go"]].concat())
                .run()
                .expect(0);
        }
        assert_eq!(world.databases().len(), sessions, "{arguments:?}");
        // Every interface accepts options that name a session.
        asking(&world, &server, &[arguments, &["-c", "go"]].concat())
            .run()
            .expect(0);
        assert_eq!(world.databases().len(), sessions, "{arguments:?}");
    }
}

#[test]
fn a_person_reads_every_text_as_it_arrives_and_a_program_the_last_answer() {
    let turns = || {
        let speaks = Turn {
            text: Some("First I look.".into()),
            ..uses("bash", json!({"command": "ls"}))
        };
        [speaks, says("Nothing there.")]
    };
    let outputs = INTERFACES.map(|interface| {
        let world = World::new();
        let ended = asking(
            &world,
            &Server::new(turns()),
            &[interface, &["go"]].concat(),
        )
        .run();
        ended.expect(0).stdout
    });
    assert_eq!(outputs[0], "First I look.\nNothing there.\n");
    assert_eq!(outputs[1], "Nothing there.\n");
    let result: Value = serde_json::from_str(&outputs[2]).unwrap();
    assert_eq!(result["result"], "Nothing there.");
}

/// What a person writes to a program is for the model, though it is the name of a subcommand.
#[test]
fn a_word_of_a_program_is_a_prompt() {
    for words in [
        &["-p", "undo"][..],
        &["undo", "--print"],
        &["-p", "--output-format", "json", "login"],
        &["--output-format", "json", "serve"],
    ] {
        let world = World::new();
        let writes = uses("write", json!({"path": "made.txt", "content": "kept"}));
        let server = Server::new([writes, says("Made."), says("Asked.")]);
        let free = ["--permission-mode", "bypassPermissions"];
        let make = [&free[..], &["-n", "make it"]].concat();
        asking(&world, &server, &make).run().expect(0);
        let ended = asking(&world, &server, words)
            .stdin("sk-some text of mine")
            .run()
            .expect(0);
        assert!(
            ended.stdout.contains("Asked."),
            "{words:?}: {}",
            ended.stdout
        );
        assert_eq!(world.text("made.txt"), "kept", "{words:?}");
        let saved = world.home().join(".ah/credentials.json");
        assert!(!saved.exists(), "{words:?}");
    }
}

#[test]
fn what_was_cut_off_is_never_shown_to_a_program() {
    let cut = Turn {
        cut: true,
        ..says("Half of")
    };
    let world = World::new();
    let server = Server::new([cut, says("The whole.")]);
    let ended = asking(&world, &server, &["-p", "go"]).run().expect(0);
    assert_eq!(ended.stdout, "The whole.\n");
}

#[test]
fn tools_have_the_names_that_each_reader_knows() {
    let names = INTERFACES.map(|interface| {
        let world = World::new();
        let server = Server::new([says("Yes.")]);
        asking(&world, &server, &[interface, &["go"]].concat())
            .run()
            .expect(0);
        let request = server.requests().remove(0).body;
        let tools = request["tools"].as_array().unwrap().iter();
        let names: Vec<_> = tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        names.join(" ")
    });
    insta::assert_snapshot!(names.join("\n"), @"
read write edit bash grep glob todo result web_fetch skill agent
Read Write Edit Bash TaskOutput TaskStop Grep Glob NotebookEdit TodoWrite result WebFetch Skill Agent
Read Write Edit Bash TaskOutput TaskStop Grep Glob NotebookEdit TodoWrite result WebFetch Skill Agent
");
}

#[test]
fn what_changes_something_runs_for_a_person_and_needs_permission_for_a_program() {
    let cases: [(&[&str], bool, bool); 9] = [
        (&["--no-sandbox"], false, true),
        (&["--permission-mode", "default"], false, false),
        (&["--permission-mode", "plan"], false, false),
        (&["--no-sandbox", "--disallowed-tools", "Bash"], false, true),
        (&["-p"], false, false),
        (
            &["-p", "--permission-mode", "bypassPermissions"],
            true,
            false,
        ),
        (&["-p", "--dangerously-skip-permissions"], true, false),
        (&["-p", "--allowedTools", "Bash(touch:*)"], true, false),
        (&["-p", "--allowedTools", "Bash(rm:*)"], false, false),
    ];
    for (arguments, runs, is_warned) in cases {
        let world = World::new();
        let server = Server::new([
            uses("bash", json!({"command": "touch made"})),
            says("Done."),
        ]);
        let arguments = [arguments, &["go"]].concat();
        let ended = asking(&world, &server, &arguments).run().expect(0);
        assert_eq!(
            world.file("made").exists(),
            runs,
            "{arguments:?} {ended:#?}"
        );
        let warning = "so this run is read-only";
        assert_eq!(
            ended.stderr.matches(warning).count(),
            usize::from(is_warned),
            "{arguments:?}"
        );
        // Read-only tools always run, and a denied call still has a result.
        let messages = &server.requests()[1].body["messages"];
        let result = messages.as_array().unwrap().last().unwrap()["content"][0].clone();
        assert_eq!(
            result["is_error"].as_bool().unwrap_or(false),
            !runs,
            "{arguments:?}"
        );
    }
    let world = World::new();
    world.write("notes", "one\n");
    let notes = world.file("notes");
    let server = Server::new([uses("Read", json!({"file_path": notes})), says("Done.")]);
    asking(&world, &server, &["-p", "go"]).run().expect(0);
    let messages = server.requests()[1].body["messages"].to_string();
    assert!(messages.contains("1\\tone"), "{messages}");
}

#[test]
fn a_program_waits_longer_than_a_person() {
    let busy = || Turn {
        repeat: Some(20),
        error: Some(Failure {
            retry_after: Some(0.0),
            ..fails(529, "overloaded_error").error.unwrap()
        }),
        ..Turn::default()
    };
    for (arguments, retries, requests) in [
        (&["go"] as &[&str], None, 4),
        (&["-p", "go"], None, 11),
        (&["-p", "go"], Some("2"), 3),
        (&["go"], Some("2"), 4),
    ] {
        let world = World::new();
        let server = Server::new([busy()]);
        let ah = asking(&world, &server, arguments);
        let ah = retries
            .into_iter()
            .fold(ah, |ah, retries| ah.env("CLAUDE_CODE_MAX_RETRIES", retries));
        ah.run().expect(1);
        assert_eq!(
            server.requests().len(),
            requests,
            "{arguments:?} {retries:?}"
        );
    }
    let world = World::new();
    let ended = asking(&world, &Server::new([says("Never.")]), &["-p", "go"])
        .env("CLAUDE_CODE_MAX_RETRIES", "many")
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stderr:
error: CLAUDE_CODE_MAX_RETRIES is `many`, which is not a number
exit code 1
");
}

#[test]
fn in_a_busy_session_a_persons_prompt_waits_and_a_program_is_told_75() {
    let waits = "echo waiting >waiting; until [ -e go ]; do sleep 0.01; done";
    let world = World::new();
    let server = Server::new([
        uses("bash", json!({"command": waits})),
        says("First."),
        says("Second."),
    ]);
    let running = asking(&world, &server, &["go"]).start();
    wait_for_file(&world.file("waiting"));
    let program = asking(&world, &server, &["-p", "-c", "me too"]).run();
    insta::assert_snapshot!(shown(&world, &program), @"
stderr:
error: this session is open in another ah (process <pid>)
hint: start a new one with `ah -n`, continue in a copy with `ah -c --fork-session`, or queue a message with `ah --followup MESSAGE`
exit code 75
");
    let person = asking(&world, &server, &["me", "too"]).run();
    insta::assert_snapshot!(shown(&world, &person), @"
stderr:
warning: this session is open in another ah (process <pid>); the prompt is queued: it is answered there after the current run, or with the next prompt
exit code 0
");
    world.write("go", "");
    assert_eq!(running.wait().expect(0).stdout, "First.\nSecond.\n");
}

#[test]
fn a_program_gets_1_for_every_failure() {
    let refuses = || Turn {
        stop_reason: Some("refusal".to_owned()),
        ..says("No.")
    };
    let again = || uses("bash", json!({"command": "ls"}));
    let cases: [(&str, &[&str], Option<Turn>, i32); 6] = [
        ("unknown option", &["--bogus", "go"], None, 2),
        ("no prompt", &[], None, 2),
        (
            "unknown session",
            &["-r", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "go"],
            None,
            1,
        ),
        ("refusal", &["go"], Some(refuses()), 1),
        ("limit", &["--max-turns", "1", "go"], Some(again()), 3),
        ("success", &["go"], Some(says("Yes.")), 0),
    ];
    for (name, arguments, turn, own) in cases {
        for (interface, code) in INTERFACES.into_iter().zip([own, own.min(1), own.min(1)]) {
            let world = World::new();
            let server = Server::new([turn.clone().unwrap_or_else(|| says("Never."))]);
            let ended = asking(&world, &server, &[interface, arguments].concat()).run();
            assert_eq!(ended.code, Some(code), "{name} {interface:?} {ended:#?}");
        }
    }
}

#[test]
fn a_program_that_leaves_the_input_open_is_not_waited_for() {
    let world = World::new();
    let server = Server::new([says("Yes.")]);
    let ended = asking(&world, &server, &["-p", "go"])
        .with_silent_stdin()
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stdout:
Yes.
stderr:
warning: no data on standard input for 3 seconds; ignoring it
exit code 0
");
}
