//! `kill -9` at every commit and at random moments: nothing acknowledged is lost, no change is made twice, no request
//! is refused, and the next run resumes by itself.

use std::process::Command;
use std::time::Instant;

use ah_conversation::Usage;
use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::json;

use crate::interrupted_again_and_again::{Talk, open_sound, texts};
use crate::support::binary::{Ended, World, wait_for_file};
use crate::support::random::{Random, rounds};

/// An upper bound of the conversation's commits.
const MANY: u32 = 200;

fn was_killed(ended: &Ended) -> bool {
    ended.signal == Some(Signal::KILL.as_raw())
}

#[test]
fn a_kill_before_any_commit_loses_nothing() {
    kill_at_every_commit("before");
}

#[test]
fn a_kill_after_any_commit_loses_nothing() {
    kill_at_every_commit("after");
}

fn kill_at_every_commit(side: &str) {
    for commit in 1..MANY {
        let mut talk = Talk::with_tools();
        let fault = format!("{side}:{commit}");
        let first = talk.ah("go").env("AH_FAULT", &fault).run();
        talk.note(&first);
        if !was_killed(&first) {
            first.expect(0);
            assert!(commit > 10, "there are only {commit} commits");
            return;
        }
        let second = talk.ah("go on").run().expect(0);
        talk.note(&second);
        talk.assert_sound();
    }
    panic!("there are more than {MANY} commits");
}

#[test]
fn what_a_program_was_given_on_standard_output_is_stored() {
    let arguments = [
        "-m",
        "sonnet",
        "-p",
        "--permission-mode",
        "bypassPermissions",
        "go",
    ];
    for commit in 1..MANY {
        let world = World::new();
        let tool = uses("Bash", json!({"command": "true"}));
        let server = Server::new([tool, says("Done.")]);
        let run = world.asking(&server, arguments);
        let ended = run.env("AH_FAULT", format!("before:{commit}")).run();
        if ended.stdout == "Done.\n" {
            let stored = texts(&open_sound(&world.database()), "assistant");
            assert_eq!(stored, ["Done."], "before commit {commit}");
        }
        if !was_killed(&ended) {
            ended.expect(0);
            return;
        }
    }
    panic!("there are more than {MANY} commits");
}

#[test]
fn a_kill_around_a_summary_loses_nothing() {
    // Each answer fills the context window, so every run but the first begins with compaction.
    let usage = Usage {
        input_tokens: 170_000,
        output_tokens: 10,
        ..Usage::default()
    };
    for commit in 1..MANY {
        let speaks = Turn {
            usage: Some(usage),
            repeat: Some(40),
            ..says("So it is.")
        };
        let mut talk = Talk::with(Server::new([speaks]));
        for prompt in ["one", "two"] {
            let ended = talk.ah(prompt).run().expect(0);
            talk.note(&ended);
        }
        let fault = format!("{}:{commit}", ["before", "after"][commit as usize % 2]);
        let ended = talk.ah("third").env("AH_FAULT", fault).run();
        talk.note(&ended);
        let last = talk.ah("four").run().expect(0);
        assert!(last.stdout.contains("compaction_complete"), "{last:#?}");
        talk.note(&last);
        talk.assert_stored();
        if !was_killed(&ended) {
            ended.expect(0);
            assert!(commit > 4, "there are only {commit} commits");
            return;
        }
    }
    panic!("there are more than {MANY} commits");
}

#[test]
fn only_the_binary_of_the_tests_can_be_killed_so() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "ah-cli"])
        .args(["--edges", "normal,build,features", "--invert", "ah-store"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("ah-cli v"), "{tree}");
    assert!(!tree.contains("fault-injection"), "{tree}");
}

#[test]
fn what_a_killed_run_has_left_running_ends_when_the_session_is_taken_up() {
    let started =
        "trap '' TERM; setsid sleep 1000 & (sleep 1000 &); echo started >started; sleep 1000";
    for takes_up in [&["-m", "sonnet", "go on"][..], &["rmm", "1"]] {
        let world = World::new();
        let server = Server::new([uses("bash", json!({"command": started})), says("Went on.")]);
        let running = world.asking(&server, ["-m", "sonnet", "go"]).start();
        wait_for_file(&world.file("started"));
        running.kill();
        assert!(!world.processes().is_empty(), "nothing was left");
        let next = world.asking(&server, takes_up.iter().copied()).run();
        next.expect(0);
        world.assert_nothing_runs();
        assert_eq!(server.refusals(), Vec::<String>::new());
    }
}

#[test]
fn kills_at_random_times_lose_nothing() {
    let mut random = Random::new();
    let started = Instant::now();
    Talk::with_tools().ah("go").run().expect(0);
    let whole = started.elapsed();
    for _ in 0..rounds("AH_TEST_KILLS", 12) {
        let mut talk = Talk::with_tools();
        let mut prompt = "go";
        for _ in 0..3 {
            let time = whole.mul_f64(random.fraction() * 1.2);
            let ended = match talk.ah(prompt).start().wait_for_end(time) {
                Ok(ended) => ended,
                Err(running) => running.kill(),
            };
            talk.note(&ended);
            prompt = "go on";
        }
        let last = talk.ah(prompt).run().expect(0);
        talk.note(&last);
        talk.assert_sound();
    }
}
