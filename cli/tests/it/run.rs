//! Runs as the user sees them: output, errors and exit codes.

use ah_conversation::Usage;
use ah_provider::script::failure::Failure;
use ah_provider::script::format::Turn;
use ah_testkit::script::{fails, hangs, says, scenario, uses, uses_all};
use ah_testkit::server::Server;
use serde_json::json;

use crate::support::binary::World;
use crate::support::shown::shown;

/// Runs `turns` with the scripted model, these arguments and the prompt `go`.
fn run(turns: impl IntoIterator<Item = Turn>, arguments: &[&str]) -> String {
    let world = World::new();
    let model = world.scenario("s", turns);
    let arguments = ["-m", &model].into_iter().chain(arguments.iter().copied());
    let ended = world.ah(arguments.chain(["go"])).run().without_panic();
    shown(&world, &ended)
}

fn costs(input_tokens: u64, output_tokens: u64) -> Option<Usage> {
    Some(Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    })
}

#[test]
fn the_answer_is_on_stdout_and_all_else_on_stderr() {
    let turns = [
        Turn {
            text: Some("I look around.".into()),
            usage: costs(1_200, 30),
            ..uses("bash", json!({"command": "echo one; echo two >&2; exit 3"}))
        },
        Turn {
            usage: costs(1_300, 20),
            ..says("Two files.")
        },
    ];
    insta::assert_snapshot!(run(turns, &[]), @"
stdout:
I look around.
Two files.
stderr:
>>> go

✗ bash (<n>s)
  $ echo one; echo two >&2; exit 3
  one
  two
  exit code: 3

2.5k in / 50 out (2.5k total), 0% of 200.0k [<id>]
exit code 0
");
}

#[test]
fn a_run_without_an_answer_is_an_error() {
    let none = run([says(""), says(""), says("Never.")], &[]);
    insta::assert_snapshot!(none, @"
    stderr:
    >>> go
    error: the model has sent an empty answer twice
    hint: small models do this when a task is too hard for them: ask for less, or use another model
    exit code 1
    ");
    let late = run([says(""), says("Here I am.")], &[]);
    assert!(
        late.contains("Here I am.") && late.ends_with("exit code 0"),
        "{late}"
    );
}

#[test]
fn calls_that_fail_are_told_to_the_model_and_the_run_goes_on() {
    let turns = [
        uses_all([
            ("no_such_tool", json!({"x": 1})),
            ("read", json!({"path": "missing"})),
            ("edit", json!({"path": 3})),
            ("write", json!({"path": "new", "content": "text\n"})),
        ]),
        says("Done."),
    ];
    insta::assert_snapshot!(run(turns, &["--dangerously-skip-permissions", "--tool-concurrency", "serial"]), @r#"
stdout:
Done.
stderr:
>>> go
✗ no_such_tool (<n>s)
  there is no tool `no_such_tool`; the tools are read, write, edit, bash, grep,…

✗ read (<n>s)
  missing
  no file `missing` (the working directory is `<project>`)

✗ edit (<n>s)
  3
  validation error: "old_string" is a required property; "new_string" is a requ…

write (<n>s)
  new
  1 line
exit code 0
"#);
}

#[test]
fn each_limit_ends_the_run_with_3_and_says_which() {
    let again = || Turn {
        repeat: Some(9),
        usage: costs(90_000, 10_000),
        ..uses("bash", json!({"command": "echo {{turn}}"}))
    };
    let same = || Turn {
        repeat: Some(9),
        ..uses("bash", json!({"command": "true"}))
    };
    let endless = || uses("bash", json!({"command": "sleep 1000"}));
    let cut = || Turn {
        repeat: Some(9),
        stop_reason: Some("max_tokens".to_owned()),
        ..says("and so on ")
    };
    let cases: [(&str, Turn, &[&str]); 6] = [
        ("turns", again(), &["--max-turns", "2"]),
        ("tokens", again(), &["--max-tokens", "150000"]),
        ("context", again(), &["--max-context-tokens", "50000"]),
        ("time", endless(), &["--timeout", "0.5"]),
        ("repetition", same(), &[]),
        ("cut answers", cut(), &[]),
    ];
    let pages = cases.map(|(name, turn, arguments)| {
        let page = run(
            [turn],
            &[arguments, &["--dangerously-skip-permissions"]].concat(),
        );
        // Tool blocks have tests of their own.
        let lines = page
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(' ') && !line.contains("bash ("));
        format!("{name}:\n{}\n", lines.collect::<Vec<_>>().join("\n"))
    });
    insta::assert_snapshot!(pages.join("\n"), @r#"
turns:
stderr:
>>> go
stopped by --max-turns
180.0k in / 20.0k out (200.0k total), 50% of 200.0k [<id>]
exit code 3

tokens:
stderr:
>>> go
stopped: 200.0k tokens used, 150.0k allowed
180.0k in / 20.0k out (200.0k total), 50% of 200.0k [<id>]
exit code 3

context:
stderr:
>>> go
stopped: 100.0k tokens used, 50.0k allowed
90.0k in / 10.0k out (100.0k total), 50% of 200.0k [<id>]
exit code 3

time:
stderr:
>>> go
stopped by --timeout
exit code 3

repetition:
stderr:
>>> go
loop: the same calls 3 times in a row; the model was warned: bash:{"command":"true"}
loop: the same calls 4 times in a row; the model was warned: bash:{"command":"true"}
loop: the same calls 5 times in a row; stopping the run: bash:{"command":"true"}
exit code 3

cut answers:
stdout:
and so on
and so on
and so on
and so on
stderr:
>>> go
stopped: the answer was cut off at the output limit several times
exit code 3
"#);
}

#[test]
fn money_is_a_limit_where_the_price_is_known() {
    let world = World::new();
    let turns = r"
price: {input: 10, output: 50}
turns:
  - repeat: 5
    usage: {input_tokens: 20000}
    tool: {name: bash, input: {command: 'echo {{turn}}'}}
";
    world.write("priced.yaml", turns);
    world.write(
        "free.yaml",
        turns.replace("price: {input: 10, output: 50}", ""),
    );
    let run = |model: &str| {
        let ended = world
            .ah(["-n", "-m", model, "--max-budget-usd", "0.3", "go"])
            .run();
        shown(&world, &ended)
    };
    insta::assert_snapshot!(run("script:priced.yaml"), @"
stderr:
>>> go
bash (<n>s)
  $ echo 1
  1

stopped by --max-budget-usd
40.0k in / 0 out (40.0k total), $0.4000, 10% of 200.0k [<id>]
exit code 3
");
    insta::assert_snapshot!(run("script:free.yaml"), @r#"
stderr:
error: the price of free is unknown, so `--max-budget-usd` cannot be enforced
hint: give its price per million tokens in `.ah/models.json`: {"models": {"free": {"price": {"input": 3, "output": 15}}}}
exit code 1
"#);
}

#[test]
fn a_refusal_is_an_error_in_the_models_words_and_an_unknown_stop_reason_ends_the_run() {
    let stops = |reason: &str| Turn {
        stop_reason: Some(reason.to_owned()),
        ..says("I would rather not.")
    };
    insta::assert_snapshot!(run([stops("refusal")], &["--permission-mode", "plan"]), @"
stdout:
I would rather not.
stderr:
>>> go
error: the model refused: I would rather not.
hint: rephrase the prompt, or fork the conversation before this point with `@N`
exit code 1
");
    insta::assert_snapshot!(run([stops("moonrise")], &["--permission-mode", "plan"]), @"
stdout:
I would rather not.
stderr:
>>> go
exit code 0
");
    insta::assert_snapshot!(run([stops("pause_turn"), says("Now then.")], &["--permission-mode", "plan"]), @"
stdout:
I would rather not.
Now then.
stderr:
>>> go
exit code 0
");
}

#[test]
fn a_file_that_must_be_there_is_asked_for_once() {
    let writes = uses("write", json!({"path": "plan.md", "content": "A plan.\n"}));
    insta::assert_snapshot!(run([says("Done."), says("Really.")], &["--dangerously-skip-permissions", "--must-produce", "plan.md"]), @"
stdout:
Done.
Really.
stderr:
>>> go
error: the run ended without producing `<project>/plan.md`
exit code 1
");
    insta::assert_snapshot!(run([says("Done."), writes, says("Here.")], &["--dangerously-skip-permissions", "--must-produce", "plan.md"]), @"
stdout:
Done.
Here.
stderr:
>>> go

write (<n>s)
  plan.md
  1 line
exit code 0
");
}

#[test]
fn a_retry_is_told_when_it_begins_and_a_second_answer_is_set_off_from_the_first() {
    let soon = |status| Turn {
        error: Some(Failure {
            retry_after: Some(0.1),
            ..fails(status, "overloaded_error").error.unwrap()
        }),
        ..Turn::default()
    };
    let cut = Turn {
        cut: true,
        ..says("Half of a sent")
    };
    insta::assert_snapshot!(run([soon(529), cut, says("A whole sentence.")], &["--permission-mode", "plan"]), @"
stdout:
Half of a sent
A whole sentence.
stderr:
>>> go
scripted failure (529), retrying in <n>s
connection lost; retrying the answer from the start
the connection ended before the answer was whole (scripted), retrying in <n>s
exit code 0
");
}

/// Two transient errors cost two lines and no answer; an invalid key is an error at once.
#[test]
fn passing_refusals_are_retried_and_a_wrong_key_is_an_error() {
    let busy = || Turn {
        error: Some(Failure {
            retry_after: Some(0.1),
            ..fails(429, "rate_limit_error").error.unwrap()
        }),
        ..Turn::default()
    };
    let world = World::new();
    let server = Server::new([
        busy(),
        busy(),
        says("Here I am."),
        fails(401, "authentication_error"),
    ]);
    let first = world
        .asking(&server, ["-m", "sonnet", "--permission-mode", "plan", "go"])
        .run();
    insta::assert_snapshot!(shown(&world, &first), @"
stdout:
Here I am.
stderr:
>>> go
scripted failure (request <request>) (429), retrying in <n>s
scripted failure (request <request>) (429), retrying in <n>s
exit code 0
");
    let second = world
        .asking(&server, ["-m", "sonnet", "--permission-mode", "plan", "go"])
        .run();
    insta::assert_snapshot!(shown(&world, &second), @"
stderr:
>>> go
error: API error 401: scripted failure (request <request>)
hint: check ANTHROPIC_API_KEY
exit code 1
");
    assert_eq!(server.requests().len(), 4);
}

/// Text is printed before the response has ended.
#[test]
fn words_are_shown_as_they_arrive() {
    let world = World::new();
    let server = Server::new([hangs("The beginning of")]);
    let running = world.asking(&server, ["-m", "sonnet", "go"]).start();
    running.wait_for_output("The beginning of");
    running.kill();
}

#[test]
fn a_conversation_that_fills_the_window_is_summed_up() {
    let world = World::new();
    let mut small = scenario([
        Turn {
            usage: costs(900, 20),
            // A few words alone are not summarised.
            thinking: Some("Let me see. ".repeat(500).as_str().into()),
            ..uses("bash", json!({"command": "echo {{turn}}"}))
        },
        Turn {
            usage: costs(930, 8),
            ..says("So far: an echo.")
        },
        says("Done."),
    ]);
    small.context_window = Some(1_000);
    small.max_output = Some(50);
    world.write("s.json", serde_json::to_string(&small).unwrap());
    let arguments = [
        "-m",
        "script:s.json",
        "--dangerously-skip-permissions",
        "--system-prompt",
        "Be brief.",
    ];
    let ended = world
        .ah(arguments.into_iter().chain(["--tools", "bash", "go"]))
        .run();
    insta::assert_snapshot!(shown(&world, &ended), @"
stdout:
Done.
stderr:
>>> go
bash (<n>s)
  $ echo 1
  1

925 of 1.0k tokens used, compacting the conversation
compacted to 8 tokens
1.8k in / 28 out (1.8k total), 0% of 1.0k [<id>]
exit code 0
");
}

#[test]
fn steering_and_follow_ups_from_another_process_reach_the_running_model() {
    let world = World::new();
    let waits = "echo waiting >waiting; until [ -e go ]; do sleep 0.01; done";
    let server = Server::new([
        uses("bash", json!({"command": waits})),
        says("First."),
        says("Second."),
    ]);
    let running = world.asking(&server, ["-m", "sonnet", "go"]).start();
    crate::support::binary::wait_for_file(&world.file("waiting"));
    let sent = world
        .ah([
            "--steer",
            "leave the tests alone",
            "--followup",
            "and then?",
        ])
        .run();
    insta::assert_snapshot!(shown(&world, &sent), @"
stderr:
queued for session <id>
exit code 0
");
    world.write("go", "");
    let ended = running.wait();
    insta::assert_snapshot!(shown(&world, &ended), @"
stdout:
First.
Second.
stderr:
>>> go
bash (<n>s)
  $ echo waiting >waiting; until [ -e go ]; do sleep 0.01; done
  (no output)

steering: leave the tests alone
follow-up: and then?
exit code 0
");
    let requests = server.requests();
    let last = |at: usize| {
        requests[at].body["messages"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .to_string()
    };
    assert!(
        last(1).contains("[STEERING] leave the tests alone"),
        "{}",
        last(1)
    );
    assert!(last(2).contains("\"and then?\""), "{}", last(2));
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn the_prompt_comes_from_the_arguments_or_the_input() {
    let world = World::new();
    let echo = || Turn {
        repeat: Some(9),
        ..says("<{{user}}>")
    };
    let model = world.scenario("s", [echo()]);
    let model = model.as_str();
    let cases: [(&[&str], &str); 9] = [
        (&["hello", "there"], ""),
        (&["hello", "--plain", "there"], ""),
        (&["--", "show", "me", "-x"], ""),
        (&["hello"], "not read"),
        (&[], "from the input\n"),
        (&["-p", "explain"], "the log\n"),
        (&["-p"], "the log\n"),
        (&["-p", "explain"], ""),
        (&["@everyone", "hello"], ""),
    ];
    let lines = cases.map(|(arguments, stdin)| {
        let arguments = ["-n", "-m", model]
            .into_iter()
            .chain(arguments.iter().copied());
        world.ah(arguments).stdin(stdin).run().expect(0).stdout
    });
    insta::assert_snapshot!(lines.concat(), @"
<hello there>
<hello there>
<show me -x>
<hello>
<from the input>
<explain

the log>
<the log>
<explain>
<@everyone hello>
");
}

#[test]
fn the_demo_repairs_and_what_it_tells_to_type_works() {
    let world = World::new();
    let temporary = world.file("with blanks");
    std::fs::create_dir(&temporary).unwrap();
    let demo = world
        .ah(["demo"])
        .env("TMPDIR", temporary.to_str().unwrap());
    let ended = demo.run().expect(0);
    assert!(ended.stdout.contains("Both checks pass now."));
    let told: Vec<_> = ended
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("The session is kept."))
        .skip(1)
        .map(|line| line.trim().split("  ").next().unwrap())
        .collect();
    assert_eq!(told.len(), 5, "{told:?}");
    let script = format!("set -e\n{}\nsh test.sh\n", told.join("\n"));
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("HOME", world.home())
        .output();
    assert!(output.unwrap().status.success(), "{script}");
}
