//! `ah -d` and `ah attach`: a run without its terminal, seen, steered and answered from others.

use std::fs;

use ah_testkit::script::{fails, hangs, says, uses};
use ah_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::binary::{World, wait_for_file};
use crate::support::pseudo_terminal::Seat;

/// Options of runs that ask nothing.
const FREE: [&str; 3] = ["--no-sandbox", "--dangerously-skip-permissions", "-n"];

/// Begins a run in the background; returns its session.
fn begun(world: &World, server: &Server, arguments: &[&str]) -> String {
    let arguments = [arguments, &["-d"]].concat();
    let ended = world
        .asking_as_typed(server, arguments)
        .argument("Do it.")
        .run()
        .expect(0);
    let session = ended.stdout.trim().to_owned();
    assert_eq!(session.len(), 26, "{session}");
    assert!(
        ended.stderr.contains(&format!("ah attach {session}")),
        "{}",
        ended.stderr
    );
    session
}

/// The files of the servers that are there, each with its content.
fn servers(world: &World) -> Vec<Value> {
    let Ok(files) = fs::read_dir(world.home().join(".ah/serve")) else {
        return Vec::new();
    };
    let read = |file: fs::DirEntry| serde_json::from_slice(&fs::read(file.path()).ok()?).ok();
    files.flatten().filter_map(read).collect()
}

/// Ends the processes of the runs, and waits until they have.
pub fn end(world: &World) {
    for server in servers(world) {
        let pid = i32::try_from(server["pid"].as_i64().unwrap()).unwrap();
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM);
    }
    ah_testkit::wait::until("the end of the runs' processes", || {
        servers(world).is_empty() && world.processes().is_empty()
    });
}

fn state(world: &World, session: &str) -> Value {
    let listed = world.as_typed(["sessions", "--json"]).run().expect(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let listed = listed.as_array().unwrap().iter();
    let mut own = listed.filter(|one| one["id"] == session);
    own.next().unwrap()["state"].clone()
}

/// Commands of the conversation do not reach another process: the one that is named works in a shell.
#[test]
fn what_is_folded_while_attached_is_shown_by_the_command_that_is_named() {
    let world = World::new();
    let waits = json!({"command": "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done"});
    let server = Server::new([
        uses("bash", json!({"command": "seq 100"})),
        uses("bash", waits),
        says("All is done."),
    ]);
    let session = begun(&world, &server, &FREE);
    wait_for_file(&world.file("begun"));
    let mut seat = Seat::of_size(world.as_typed(["attach"]), 100, 24);
    let named = format!("ah -r {session} show 1 --output");
    seat.sees(&format!("96 more lines: {named}"));
    seat.types("\x0f");
    seat.sees("the viewer does not work while attached");
    let shown = world.as_typed(named.split(' ').skip(1)).run().expect(0);
    assert_eq!(shown.stdout.lines().count(), 100, "{}", shown.stdout);
    world.write("go", "");
    seat.sees("All is done.");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
}

#[test]
fn a_run_goes_on_without_its_terminal_and_is_seen_and_steered_from_another() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "echo yes > begun; while [ ! -e go ]; do sleep 0.05; done; echo gone"}),
    );
    let server = Server::new([
        waits,
        says("All is done."),
        says("And this."),
        says("Last."),
    ]);
    let session = begun(&world, &server, &FREE);
    wait_for_file(&world.file("begun"));
    assert_eq!(state(&world, &session), "running");
    // The only one that runs is meant.
    let mut seat = Seat::take(world.as_typed(["attach"]));
    seat.sees("> Do it.");
    seat.sees("Esc interrupts");
    seat.says("Be quick.");
    seat.sees("Be quick.");
    seat.types("\x04");
    seat.sees("Still running. Reattach: ah attach");
    assert_eq!(seat.leaves(), 0);
    let mut seat = Seat::take(world.as_typed(["attach", &session]));
    seat.sees("> Do it.");
    world.write("go", "");
    seat.sees("All is done.");
    seat.sees("> Be quick.");
    seat.sees("gone");
    seat.sees_no_more("Esc interrupts");
    // It is a conversation as any other.
    seat.says("And then?");
    seat.sees("And this.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    seat.sees(&format!("ah -r {session}"));
    assert_eq!(seat.leaves(), 0);
    assert_eq!(state(&world, &session), Value::Null);
    end(&world);
    // Nobody runs it any more, so it is opened here.
    let mut seat = Seat::take(
        world
            .asking_as_typed(&server, ["--no-sandbox", "attach"])
            .argument(&session),
    );
    seat.sees("And this.");
    seat.says("More.");
    seat.sees("Last.");
    seat.sees_no_more("Esc interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn a_question_is_shown_in_every_terminal_and_answered_once() {
    let world = World::new();
    let settings = json!({"notify": {"command": "cat >> called; echo >> called"}});
    fs::create_dir_all(world.home().join(".ah")).unwrap();
    fs::write(world.home().join(".ah/settings.json"), settings.to_string()).unwrap();
    let write = uses("write", json!({"path": "a.txt", "content": "first line\n"}));
    let server = Server::new([write, says("Written.")]);
    let session = begun(&world, &server, &["--no-sandbox", "-n"]);
    let called = wait_for_file(&world.file("called"));
    assert!(called.contains("is waiting for you"), "{called}");
    assert!(called.contains(&format!("ah attach {session}")), "{called}");
    assert_eq!(state(&world, &session), "waiting");
    let mut one = Seat::take(world.as_typed(["attach", &session]));
    let mut other = Seat::take(world.as_typed(["attach", &session]));
    for seat in [&one, &other] {
        seat.sees("The agent wants to use write:");
        seat.sees("first line");
        seat.sees("Allow it?");
    }
    assert!(!world.file("a.txt").exists());
    one.says("y");
    for seat in [&one, &other] {
        seat.sees("Written.");
        seat.sees_no_more("Allow it?");
        seat.sees_no_more("Esc interrupts");
    }
    assert_eq!(world.text("a.txt"), "first line\n");
    // What the other types is a prompt, no answer.
    for seat in [&mut one, &mut other] {
        seat.types("\x04");
    }
    assert_eq!((one.leaves(), other.leaves()), (0, 0));
    end(&world);
}

#[test]
fn a_run_is_seen_before_its_prompt_is_stored() {
    let world = World::new();
    let waits = json!({"type": "command", "command": "while [ ! -e go ]; do sleep 0.05; done"});
    let hooks = json!({"hooks": {"UserPromptSubmit": [{"hooks": [waits]}]}});
    fs::create_dir_all(world.home().join(".ah")).unwrap();
    fs::write(world.home().join(".ah/settings.json"), hooks.to_string()).unwrap();
    let server = Server::new([says("All is done.")]);
    let session = begun(&world, &server, &FREE);
    assert_eq!(state(&world, &session), "running");
    let seat = Seat::take(world.as_typed(["attach", &session]));
    world.write("go", "");
    seat.sees("All is done.");
    end(&world);
}

#[test]
fn what_was_said_is_stored_when_the_process_is_ended() {
    let world = World::new();
    let server = Server::new([hangs("I begin to say")]);
    let session = begun(&world, &server, &FREE);
    let mut seat = Seat::take(world.as_typed(["attach", &session]));
    seat.sees("I begin to say");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
    let shown = world.as_typed(["scan"]).run().expect(0).stdout;
    assert!(shown.contains("I begin to say"), "{shown}");
}

#[test]
fn a_run_is_interrupted_from_another_terminal() {
    let world = World::new();
    let server = Server::new([hangs("I begin to say")]);
    let session = begun(&world, &server, &FREE);
    let mut seat = Seat::take(world.as_typed(["attach", &session]));
    seat.sees("I begin to say");
    seat.types("\x1b");
    seat.sees("interrupted");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
}

/// As a prompt without `-d`, one for a session that is busy waits for its turn.
#[test]
fn a_prompt_for_a_busy_session_is_queued() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "while [ ! -e go ]; do sleep 0.05; done; echo gone"}),
    );
    let server = Server::new([waits, says("All is done."), says("More is done.")]);
    let session = begun(&world, &server, &FREE);
    let more = { world.asking_as_typed(&server, ["-r", &session, "-d"]) }
        .argument("Do more.")
        .run()
        .expect(0);
    assert_eq!(more.stdout.trim(), session);
    assert!(
        more.stderr
            .contains("Queued: this session is open in another ah"),
        "{}",
        more.stderr
    );
    // A queue has no place for an earlier message.
    for words in [&["-r", &session][..], &["-d", "-r", &session]] {
        let words = words.iter().copied().chain(["@1", "Do less."]);
        let refused = world.asking_as_typed(&server, words).run();
        assert_ne!(refused.code, Some(0));
        for part in ["is open in another ah", "--fork-session"] {
            assert!(refused.stderr.contains(part), "{}", refused.stderr);
        }
    }
    // It has no place for a check either.
    for words in [
        &["-r", &session, "/goal do it --until false"][..],
        &["-d", "-r", &session, "/goal do it --until false"],
        &["-r", &session, "--until", "false", "Do it."],
        &["-d", "-r", &session, "--until", "false", "Do it."],
    ] {
        let refused = { world.asking_as_typed(&server, words.iter().copied()) }.run();
        assert_ne!(refused.code, Some(0), "{words:?}");
        let told = "is open in another ah";
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
    let attached = world.as_typed(["attach", &session]).start();
    attached.wait_for_notice("> Do it.");
    world.write("go", "");
    let ended = attached.wait().expect(0);
    assert!(ended.stdout.contains("More is done."), "{}", ended.stdout);
    end(&world);
}

#[test]
fn without_a_terminal_a_run_is_printed_until_its_end() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "while [ ! -e go ]; do sleep 0.05; done; echo gone"}),
    );
    let server = Server::new([waits, says("All is done.")]);
    let session = begun(&world, &server, &FREE);
    let attached = world.as_typed(["attach", &session]).start();
    attached.wait_for_notice("> Do it.");
    world.write("go", "");
    let ended = attached.wait().expect(0);
    assert!(ended.stdout.contains("All is done."), "{}", ended.stdout);
    end(&world);
}

/// Whoever watches a run with a check learns what that has shown, as from the run itself, and later that it is a record.
#[test]
fn who_is_attached_learns_what_a_check_has_shown() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let again = uses(
        "bash",
        json!({"command": "while [ ! -e more ]; do sleep 0.05; done"}),
    );
    let server = Server::new([waits, says("Done."), again, says("Done again.")]);
    let check = [
        "--until",
        "test ! -e more",
        "--seal",
        "!**",
        "--max-checks",
        "1",
    ];
    let options: Vec<_> = FREE.into_iter().chain(check).collect();
    let continued = options.iter().copied().filter(|it| *it != "-n");
    let session = begun(&world, &server, &options);
    let attached = world.as_typed(["attach", &session]).start();
    attached.wait_for_notice("> Do it.");
    world.write("go", "");
    let ended = attached.wait().expect(0);
    let told = "verified: `test ! -e more` passed";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert!(!ended.stderr.contains("recorded"), "{}", ended.stderr);
    // The next run fails, and the one before is told as it was.
    let more = ["-d", "-r", &session, "Again."];
    world
        .asking_as_typed(&server, more.into_iter().chain(continued))
        .run()
        .expect(0);
    let attached = world.as_typed(["attach", &session]).start();
    attached.wait_for_notice("> Again.");
    world.write("more", "");
    let ended = attached.wait();
    let (before, after) = ended.stderr.split_once("> Again.").unwrap();
    assert!(
        before.contains(told) && before.contains("as recorded"),
        "{before}"
    );
    assert!(!after.contains("recorded"), "{after}");
    end(&world);
}

/// Whoever watches a run in a pipe learns that it failed, as from the run itself.
#[test]
fn without_a_terminal_a_failed_run_is_a_failure() {
    let world = World::new();
    let waits = uses(
        "bash",
        json!({"command": "while [ ! -e go ]; do sleep 0.05; done"}),
    );
    let server = Server::new([waits, fails(400, "invalid_request_error")]);
    let session = begun(&world, &server, &FREE);
    let attached = world.as_typed(["attach", &session]).start();
    attached.wait_for_notice("> Do it.");
    world.write("go", "");
    let ended = attached.wait().expect(1);
    assert!(
        ended.stderr.contains("error: the run failed: "),
        "{}",
        ended.stderr
    );
    end(&world);
}

#[test]
fn a_process_that_is_stopped_holds_up_no_command() {
    let world = World::new();
    let server = Server::new([hangs("I begin to say")]);
    let session = begun(&world, &server, &FREE);
    let pid = i32::try_from(servers(&world)[0]["pid"].as_i64().unwrap()).unwrap();
    let process = Pid::from_raw(pid).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let said = format!("process {pid} does not say which sessions it runs: no answer within");
    let listed = world.as_typed(["sessions"]).run().expect(0);
    assert!(listed.stdout.contains(&session[..11]), "{}", listed.stdout);
    assert!(listed.stderr.contains(&said), "{}", listed.stderr);
    let attached = world.as_typed(["attach"]).run().expect(1);
    assert!(attached.stderr.contains(&said), "{}", attached.stderr);
    kill_process(process, Signal::CONT).unwrap();
    assert_eq!(state(&world, &session), "running");
    end(&world);
}

/// Runs of other folders are not counted where one runs here.
#[test]
fn attach_without_a_session_looks_in_this_folder() {
    let world = World::new();
    let other = world.home().join("other");
    fs::create_dir(&other).unwrap();
    let server = Server::new([hangs("I begin to say"), hangs("I begin elsewhere")]);
    let here = begun(&world, &server, &FREE);
    let elsewhere = { world.asking_as_typed(&server, [&FREE[..], &["-d"]].concat()) }
        .argument("Do it there.")
        .within(&other)
        .run()
        .expect(0);
    for (folder, session) in [
        (world.project(), here.as_str()),
        (other, elsewhere.stdout.trim()),
    ] {
        let attached = world.as_typed(["attach"]).within(&folder).start();
        attached.wait_for_notice("> Do it");
        let stopped = world.as_typed(["attach", session]).within(&folder).start();
        stopped.wait_for_notice("> Do it");
        assert_eq!(
            attached.kill().stderr.contains("Do it there."),
            folder.ends_with("other")
        );
        stopped.kill();
    }
    // Where none runs, the several of other folders are named.
    let third = world.home().join("third");
    fs::create_dir(&third).unwrap();
    let refused = world.as_typed(["attach"]).within(&third).run().expect(2);
    assert!(refused.stderr.contains(&here), "{}", refused.stderr);
    end(&world);
}

/// The number of its process may be that of another by now, or nobody has waited for its end.
#[test]
fn a_process_that_was_killed_is_not_talked_about() {
    let world = World::new();
    let folder = world.home().join(".ah/serve");
    fs::create_dir_all(&folder).unwrap();
    let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap() }
        .local_addr()
        .unwrap();
    let pid = std::process::id();
    let left = json!({
        "url": format!("http://{closed}"), "token": "t", "pid": pid, "folder": world.project(),
    });
    fs::write(folder.join(format!("{pid}.json")), left.to_string()).unwrap();
    let attached = world.as_typed(["attach"]).run().expect(1);
    assert!(
        attached.stderr.contains("no background runs"),
        "{}",
        attached.stderr
    );
    assert!(!attached.stderr.contains("http"), "{}", attached.stderr);
}

/// Also before it has answered, when nothing stored says so.
#[test]
fn the_model_of_a_run_is_shown_from_the_first_moment() {
    let world = World::new();
    let server = Server::new([hangs("I begin to say")]);
    let session = begun(&world, &server, &[&FREE[..], &["-m", "haiku"]].concat());
    let mut seat = Seat::take(world.as_typed(["attach", &session]));
    seat.sees("haiku");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
}

#[test]
fn what_prevents_a_run_is_said_before_the_command_ends() {
    let world = World::new();
    let nothing = world.as_typed(["attach"]).run().expect(1);
    assert!(nothing.stderr.contains("no background runs"));
    for (arguments, said) in [
        (
            &["-d", "-m", "script:missing.yaml", "go"][..],
            "missing.yaml",
        ),
        (&["-d", "-c", "go"], "no session to resume"),
        (
            &["-d", "--no-session-persistence", "-n", "go"],
            "leave out --no-session-persistence",
        ),
        (
            &[
                "--detach",
                "-p",
                "--verbose",
                "--output-format",
                "stream-json",
                "--input-format",
                "stream-json",
            ],
            "a host cannot",
        ),
    ] {
        let ended = world.as_typed(arguments.iter().copied()).run();
        assert_ne!(ended.code, Some(0), "{arguments:?}");
        assert!(
            ended.stderr.contains(said),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    end(&world);
}

/// What can be answered where a run is in front can be answered from another terminal: rules, and a reason.
#[test]
fn a_question_elsewhere_has_every_answer() {
    let world = World::new();
    let make = uses("bash", json!({"command": "make it-1"}));
    let server = Server::new([make, says("Made.")]);
    let session = begun(&world, &server, &["--no-sandbox", "-n"]);
    let mut seat = Seat::of_size(world.as_typed(["attach", &session]), 100, 40);
    seat.sees("The agent wants to use bash:");
    for answer in [
        "yes, for this session: bash(make it-1)",
        "yes, always in this project",
        "yes, always in ALL projects",
        "the reason is sent to the model",
    ] {
        seat.sees(answer);
    }
    seat.says("n try it again");
    seat.sees("Made.");
    let requests = server.requests();
    assert!(
        requests[1]
            .body
            .to_string()
            .contains("this call to happen: try it again")
    );
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
}

/// What was chosen is seen with its question, and not told again as the result of the call.
#[test]
fn an_answer_that_is_given_elsewhere_is_shown_once() {
    let world = World::new();
    let option = |label: &str| json!({"label": label, "description": label});
    let options = [option("SQLite"), option("Postgres")];
    let asked = json!({"question": "Which one?", "header": "Store", "options": options});
    let ask = uses("ask_user_question", json!({"questions": [asked]}));
    let server = Server::new([ask, says("Chosen.")]);
    let session = begun(&world, &server, &["-n"]);
    let mut seat = Seat::take(world.as_typed(["attach", &session]));
    seat.sees("[Store] Which one?");
    seat.says("1");
    seat.sees("Chosen.");
    let screen = seat.screen();
    assert!(screen.contains("→ SQLite"), "{screen}");
    assert!(!screen.contains("The user has answered"), "{screen}");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    end(&world);
}
