//! Which session a host's options mean.

use std::thread;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::{World, wait_for_file};

const ONE: &str = "22222222-2222-4222-8222-222222222222";
const OTHER: &str = "33333333-3333-4333-8333-333333333333";

/// Runs a prompt; returns the session's id and the number of messages sent, or the error.
fn run(world: &World, options: &[&str]) -> Result<(String, usize), String> {
    let server = Server::new([says("Yes.")]);
    let all = ["-p", "go", "-m", "sonnet", "--output-format", "json"];
    let all = all.iter().chain(options).copied();
    let ended = world.asking(&server, all).run();
    let Ok(result) = serde_json::from_str::<Value>(&ended.stdout) else {
        return Err(ended.expect(1).stderr);
    };
    let id = result["session_id"].as_str().unwrap().to_owned();
    let requests = server.requests();
    let messages = requests[0].body["messages"].as_array().unwrap().len();
    Ok((id, messages))
}

/// To continue where there is nothing begins anew, with or without a copy.
#[test]
fn continuing_begins_where_there_is_nothing() {
    for options in [&["-c"][..], &["-c", "--fork-session"]] {
        let world = World::new();
        let (first, messages) = run(&world, options).unwrap();
        assert_eq!(messages, 1, "{options:?}");
        assert_eq!(run(&world, &["-c"]).unwrap(), (first, 3), "{options:?}");
    }
}

/// An id is given once: to a new session or a copy. Who names the id of the session itself for its copy continues it.
#[test]
fn an_id_is_given_once() {
    let world = World::new();
    let in_use = |id: &str| format!("Session ID {id} is already in use.");
    let is_refused = |options: &[&str], id: &str| {
        let error = run(&world, options).unwrap_err();
        assert!(error.contains(&in_use(id)), "{options:?}: {error}");
    };
    run(&world, &["--session-id", ONE]).unwrap();
    is_refused(&["--session-id", ONE], ONE);
    is_refused(&["--session-id", ONE, "--no-session-persistence"], ONE);
    let own = run(&world, &["-r", ONE, "--fork-session", "--session-id", ONE]);
    assert_eq!(own.unwrap(), (ONE.to_owned(), 3));
    let copy = ["-r", ONE, "--fork-session", "--session-id", OTHER];
    assert_eq!(run(&world, &copy).unwrap(), (OTHER.to_owned(), 5));
    is_refused(&copy, OTHER);
    assert_eq!(run(&world, &["-r", ONE]).unwrap(), (ONE.to_owned(), 5));
    assert_eq!(world.databases().len(), 2);
    // A conversation that only the SDKs know.
    for database in world.databases() {
        std::fs::remove_file(database).unwrap();
    }
    is_refused(&["--session-id", ONE], ONE);
    assert_eq!(run(&world, &["-r", ONE]).unwrap(), (ONE.to_owned(), 7));
}

/// Of runs that begin at once with one id, at most one has it, and nothing is left of the others.
#[test]
fn an_id_is_given_once_to_runs_that_begin_at_once() {
    let world = World::new();
    let runs = || run(&world, &["--session-id", ONE]);
    let done = thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(runs)).collect();
        let done = all.into_iter().map(|run| run.join().unwrap());
        done.filter(Result::is_ok).count()
    });
    assert!(done <= 1, "{done} runs have the id");
    assert_eq!(world.databases().len(), done);
    let again = run(&world, &["-r", ONE]).or_else(|_| runs());
    assert_eq!(again.unwrap(), (ONE.to_owned(), 1 + 2 * done));
}

/// Between prompts any process may go on with a session that a host has open; the first one then knows what was said.
/// During a run it is busy.
#[test]
fn an_idle_session_is_handed_over() {
    let world = World::new();
    let waits = "echo >waiting; until [ -e go ]; do sleep 0.01; done";
    let server = Server::new([
        says("One."),
        says("Two."),
        says("Three."),
        uses("Bash", json!({"command": waits})),
        says("Four."),
    ]);
    let mut first = Host::new(&world, &server, &["--allowedTools", "Bash"]);
    first.prompt("one");
    let id = first.result()["session_id"].as_str().unwrap().to_owned();
    let mut second = Host::new(
        &world,
        &server,
        &["--resume", &id, "--allowedTools", "Bash"],
    );
    second.prompt("two");
    assert_eq!(second.result()["result"], "Two.");
    first.prompt("three");
    assert_eq!(first.result()["result"], "Three.");
    let messages = |at: usize| {
        server.requests()[at].body["messages"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!([0, 1, 2].map(messages), [1, 3, 5]);

    second.prompt("four");
    wait_for_file(&world.file("waiting"));
    first.prompt("five");
    let refused = first.result();
    let told = refused["errors"][0].as_str().unwrap();
    assert!(told.contains("open in another process"), "{refused}");
    world.write("go", "");
    assert_eq!(second.result()["result"], "Four.");
    for host in [first, second] {
        assert_eq!(host.end().stderr, "");
    }
}
