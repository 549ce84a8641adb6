//! `kill -9`, at every commit and at any moment: nothing that was acknowledged is lost, nothing that changed something
//! runs twice, no request is refused, and the next run goes on by itself.

use std::time::Instant;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::json;

use crate::binary::{Ended, World, wait_for_file};
use crate::random::{Random, rounds};
use crate::talk::Talk;

/// More commits than the conversation has.
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
