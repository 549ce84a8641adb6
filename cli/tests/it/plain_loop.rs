//! The plain loop (`--profile plain-repl`), with the real binary.

use ah_conversation::Usage;
use ah_provider::script::failure::Failure;
use ah_provider::script::format::Turn;
use ah_testkit::script::{fails, hangs, says, scenario, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::interrupted_again_and_again::blocks;
use crate::support::binary::{Ah, Ended, World, wait_for_file};
use crate::support::pseudo_terminal::Seat;

/// The loop with its requests going to `server`.
fn plain(world: &World, server: &Server) -> Ah {
    world.asking(server, ["--profile", "plain-repl", "-m", "sonnet"])
}

/// Runs the loop with these input lines to its end.
fn told(world: &World, server: &Server, lines: &str) -> Ended {
    plain(world, server).stdin(lines).run().expect(0)
}

/// The results of the last request, in order.
fn results(server: &Server) -> Vec<Value> {
    let body = server.requests().pop().unwrap().body;
    let blocks = blocks(&body).into_iter().map(|(_, block)| block);
    blocks
        .filter(|block| block["type"] == "tool_result")
        .collect()
}

fn is_error(result: &Value) -> bool {
    result["is_error"] == json!(true)
}

fn text(result: &Value) -> String {
    match &result["content"] {
        Value::String(text) => text.clone(),
        content => content[0]["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// All calls of one response run in parallel, and their results are in the order of the calls.
#[test]
fn all_calls_run_together_and_answer_in_order() {
    let world = World::new();
    let bash = |command: &str| ("bash", json!({"command": command}));
    let calls = uses_all([
        // It ends only once the other has run.
        bash("until test -e second; do sleep 0.01; done; touch first; echo slower"),
        bash("touch second; until test -e first; do sleep 0.01; done; echo faster"),
    ]);
    let server = Server::new([calls, says("Both.")]);
    let ended = told(&world, &server, "go\n");
    assert!(ended.stdout.contains("assistant> Both."), "{ended:?}");
    let results: Vec<_> = results(&server).iter().map(text).collect();
    assert_eq!(results, ["slower\n", "faster\n"]);
}

/// An unknown tool and a failing one return error results; the others succeed, and the loop continues.
#[test]
fn what_fails_stops_nothing() {
    let world = World::new();
    let calls = uses_all([
        ("teleport", json!({})),
        ("read", json!({"path": "missing"})),
        ("bash", json!({"command": "echo fine"})),
    ]);
    let server = Server::new([calls, says("So it is.")]);
    let ended = told(&world, &server, "go\n");
    assert!(ended.stdout.contains("assistant> So it is."), "{ended:?}");
    let results = results(&server);
    let errors: Vec<_> = results.iter().map(is_error).collect();
    assert_eq!(errors, [true, true, false]);
    assert!(text(&results[0]).contains("teleport"), "{results:?}");
    assert!(text(&results[1]).contains("missing"), "{results:?}");
}

/// The model gets the beginning of a long result and a notice of the exact size, and the user a warning; 0 turns
/// truncation off.
#[test]
fn long_results_are_cut_to_their_beginning() {
    let world = World::new();
    let command = "head -c 50000 /dev/zero | tr '\\0' x";
    let turns = || [uses("bash", json!({"command": command})), says("Much.")];
    let notice = "\n\n[OUTPUT TRUNCATED: Showing 40,000 of 50,000 characters from bash]";
    let server = Server::new(turns());
    let ended = told(&world, &server, "go\n");
    assert_eq!(
        text(&results(&server)[0]),
        format!("{}{notice}", "x".repeat(40_000))
    );
    assert!(
        ended.stderr.contains("40,000 of 50,000 characters"),
        "{}",
        ended.stderr
    );
    let server = Server::new(turns());
    let unlimited = [
        "-n",
        "--profile",
        "plain-repl",
        "-m",
        "sonnet",
        "--settings",
        r#"{"maxToolResultChars": 0}"#,
    ];
    let ended = { world.asking(&server, unlimited).stdin("go\n").run() }.expect(0);
    assert!(!text(&results(&server)[0]).contains("[OUTPUT TRUNCATED"));
    assert!(!ended.stderr.contains("characters"), "{}", ended.stderr);
}

/// Past the message limit the oldest messages are dropped with a warning, also during a turn; the rest begins with a
/// user message and has no result without its call.
#[test]
fn old_messages_go_from_a_safe_place_on() {
    let world = World::new();
    let server = Server::new([
        says("1"),
        uses("bash", json!({"command": "echo two"})),
        says("2"),
        says("3"),
    ]);
    let four = r#"{"maxConversationMessages": 4}"#;
    let arguments = [
        "--profile",
        "plain-repl",
        "-m",
        "sonnet",
        "--settings",
        four,
    ];
    let ended = { world.asking(&server, arguments) }
        .stdin("one\ntwo\nthree\n")
        .run()
        .expect(0);
    let left = |request: usize| {
        let body = &server.requests()[request].body;
        let blocks = blocks(body);
        let words = blocks.iter().map(|(role, block)| {
            let what = block["text"].as_str().or(block["type"].as_str());
            format!("{role}: {}", what.unwrap_or_default())
        });
        words.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(left(1), "user: one, assistant: 1, user: two");
    assert_eq!(left(2), "user: two, assistant: tool_use, user: tool_result");
    assert_eq!(left(3), "user: three");
    for told in ["2 older messages", "6 older messages"] {
        let told = format!("{told} are left out (maxConversationMessages is 4)");
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
    // The server would refuse an invalid conversation, as the real one does.
    assert_eq!(server.refusals(), Vec::<String>::new());
}

/// Two transient errors cost one line each and no answer; an invalid key is an error, and the loop continues.
#[test]
fn refusals_are_asked_again_and_a_wrong_key_is_told() {
    let world = World::new();
    let busy = || Turn {
        error: Some(Failure {
            retry_after: Some(0.01),
            ..fails(429, "rate_limit_error").error.unwrap()
        }),
        ..Turn::default()
    };
    let server = Server::new([
        busy(),
        busy(),
        says("Here I am."),
        fails(401, "authentication_error"),
        says("Still here."),
    ]);
    let ended = told(&world, &server, "go\nfail\nagain\n");
    insta::assert_snapshot!(ended.stdout, @"
    ah (type exit to leave)
    Tools: read, write, bash, skill

    you> 
    assistant> Here I am.

    you> 
    assistant> 
    you> 
    assistant> Still here.

    you>
    ");
    assert_eq!(ended.stderr.matches("(429), retrying in").count(), 2);
    assert!(ended.stderr.contains("Error: API error 401"), "{ended:?}");
}

/// Text is printed before the response has ended.
#[test]
fn words_come_as_they_are_said() {
    let world = World::new();
    let server = Server::new([hangs("The beginning of")]);
    let mut running = plain(&world, &server).with_silent_stdin().start();
    running.say("go");
    running.wait_for_output("assistant> The beginning of");
    running.kill();
}

/// `exit`, `quit` and end of input exit with 0; an empty line prompts again; without a key the loop does not start.
#[test]
fn a_plain_loop_has_its_own_words() {
    let world = World::new();
    for (lines, prompts) in [
        ("exit\nno\n", 1),
        ("quit\nno\n", 1),
        ("\n  \n", 3),
        ("Exit\n", 2),
    ] {
        let server = Server::new([says("What?")]);
        let ended = told(&world, &server, lines);
        assert_eq!(ended.stdout.matches("you> ").count(), prompts, "{lines:?}");
        assert_eq!(server.requests().len(), usize::from(lines == "Exit\n"));
    }
    let server = Server::new([
        uses("bash", json!({"command": "echo one"})),
        says("It is one."),
    ]);
    let ended = told(&world, &server, "\nrun it\nexit\n");
    insta::assert_snapshot!(ended.stdout, @"
    ah (type exit to leave)
    Tools: read, write, bash, skill

    you> you> 
    assistant> 
    assistant> It is one.

    you>
    ");
    let ended = { world.ah(["--profile", "plain-repl", "-m", "sonnet"]) }
        .stdin("hi\n")
        .run()
        .expect(1);
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("error: "), "{}", ended.stderr);
}

/// The timeout of a command also kills its grandchildren.
#[test]
fn a_time_limit_ends_grandchildren() {
    let world = World::new();
    let command = "(setsid sleep 1000 & echo $! >pid); echo before; sleep 1000";
    let server = Server::new([
        uses("bash", json!({"command": command, "timeout": 1000})),
        says("Too long."),
    ]);
    let ended = told(&world, &server, "go\n");
    assert!(ended.stdout.contains("assistant> Too long."), "{ended:?}");
    assert!(text(&results(&server)[0]).starts_with("before"));
    wait_for_file(&world.file("pid"));
    world.assert_nothing_runs();
}

/// A history that fills the window is compacted, keeping the newest messages; if no summary can be had, older
/// messages are dropped.
#[test]
fn a_full_window_is_summed_up() {
    for (summary, kept) in [
        (says("So far: an echo."), "So far: an echo."),
        (
            fails(400, "invalid_request_error"),
            "a summary of them could not be made",
        ),
    ] {
        let world = World::new();
        let full = Usage {
            input_tokens: 900,
            output_tokens: 20,
            ..Usage::default()
        };
        let mut small = scenario([
            Turn {
                usage: Some(full),
                // A few words alone are not summarised.
                thinking: Some("Let me see. ".repeat(500).as_str().into()),
                ..uses("bash", json!({"command": "echo one"}))
            },
            summary,
            says("Done."),
            says("Here."),
        ]);
        small.context_window = Some(1_000);
        small.max_output = Some(50);
        world.write("s.json", serde_json::to_string(&small).unwrap());
        let arguments = [
            "--profile",
            "plain-repl",
            "-m",
            "script:s.json",
            "--system-prompt",
            "Brief.",
        ];
        let ended = world.ah(arguments).stdin("go\nagain\n").run().expect(0);
        assert!(ended.stdout.contains("assistant> Done."), "{ended:?}");
        assert!(ended.stdout.contains("assistant> Here."), "{ended:?}");
        let scan = world.ah(["export"]).run().expect(0).stdout;
        assert!(scan.contains(kept), "{scan}");
    }
}

/// An answer that is cut off repeatedly ends the turn with a notice, and the loop continues.
#[test]
fn an_answer_that_is_cut_again_and_again_ends() {
    let world = World::new();
    let cut = |text| Turn {
        stop_reason: Some("max_tokens".into()),
        ..says(text)
    };
    let server = Server::new([cut("1"), cut("2"), cut("3"), cut("4"), says("Better.")]);
    let ended = told(&world, &server, "count\nagain\n");
    assert_eq!(server.requests().len(), 5);
    assert!(ended.stdout.contains("assistant> Better."), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("the answer was cut off at the output limit"),
        "{}",
        ended.stderr
    );
}

/// On a terminal, which shows both streams, notices are on lines of their own.
#[test]
fn on_a_terminal_nothing_stands_behind_the_announcement() {
    let world = World::new();
    let server = Server::new([
        uses("bash", json!({"command": "echo one"})),
        says("It is one."),
    ]);
    let mut seat = Seat::take(plain(&world, &server));
    seat.says("go");
    seat.sees("assistant>\nbash");
    seat.sees("assistant> It is one.\n\nyou>");
    seat.says("exit");
    assert_eq!(seat.leaves(), 0);
}
