//! Runs stopped from outside, by signals or a closed pipe: the messages so far are stored, no process stays alive,
//! and the next run resumes.

use ah_provider::script::failure::Failure;
use ah_provider::script::format::Turn;
use ah_testkit::script::{hangs, says, uses};
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::json;

use crate::interrupted_again_and_again::{open_sound, texts};
use crate::support::binary::{Running, World, wait_for_file};

const STOPS: [(Signal, i32); 3] = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];

/// A tool call that ignores SIGTERM and leaves a daemon behind.
fn stubborn() -> Turn {
    let command = "trap 'echo asked >asked' TERM; setsid sleep 1000 & (sleep 1000 &) ; echo started >started; \
                   while :; do sleep 0.05; done";
    uses("bash", json!({"command": command}))
}

/// Runs until `is_there`, stops with each signal, and resumes. `stored` is the part of the answer that must be
/// stored.
fn stop_and_go_on(first: &Turn, is_there: impl Fn(&World, &Server, &Running), stored: &[&str]) {
    for (signal, code) in STOPS {
        let world = World::new();
        let server = Server::new([first.clone(), says("Went on.")]);
        let running = world.asking(&server, ["-m", "sonnet", "go"]).start();
        is_there(&world, &server, &running);
        running.signal(signal);
        running.wait().expect(code);
        world.assert_nothing_runs();
        let connection = open_sound(&world.database());
        assert_eq!(texts(&connection, "assistant"), stored, "{signal:?}");
        drop(connection);
        let second = world
            .asking(&server, ["-m", "sonnet", "go on"])
            .run()
            .expect(0);
        assert_eq!(second.stdout, "Went on.\n");
        assert_eq!(server.refusals(), Vec::<String>::new());
    }
}

#[test]
fn a_signal_while_the_model_speaks_keeps_what_it_has_said() {
    let in_midst = |_: &World, _: &Server, running: &Running| running.wait_for_output("So far");
    stop_and_go_on(&hangs("So far"), in_midst, &["So far"]);
}

#[test]
fn a_signal_before_the_model_speaks_ends_the_run() {
    let silent = Turn {
        delay_ms: Some(3_600_000),
        ..says("Never.")
    };
    let asked = |_: &World, server: &Server, _: &Running| server.wait_until(|seen| seen.len() == 1);
    stop_and_go_on(&silent, asked, &[]);
}

#[test]
fn a_signal_during_a_tool_ends_all_that_it_started() {
    let at_work = |world: &World, _: &Server, _: &Running| {
        wait_for_file(&world.file("started"));
    };
    stop_and_go_on(&stubborn(), at_work, &[]);
}

#[test]
fn a_signal_while_a_retry_waits_ends_the_wait() {
    let busy = Turn {
        error: Some(Failure {
            status: Some(429),
            retry_after: Some(50.0),
            ..Failure::default()
        }),
        ..Turn::default()
    };
    let waits = |_: &World, _: &Server, running: &Running| running.wait_for_notice("50");
    stop_and_go_on(&busy, waits, &[]);
}

#[test]
fn a_second_interrupt_leaves_at_once_and_leaves_nothing_behind() {
    let world = World::new();
    let server = Server::new([stubborn(), says("Went on.")]);
    let running = world.asking(&server, ["-m", "sonnet", "go"]).start();
    wait_for_file(&world.file("started"));
    running.signal(Signal::INT);
    wait_for_file(&world.file("asked"));
    running.signal(Signal::INT);
    running.wait().expect(130);
    world.assert_nothing_runs();
    world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn in_the_drop_in_manner_an_interrupt_is_a_clean_end() {
    for (signal, code) in [(Signal::INT, 0), (Signal::TERM, 143)] {
        let world = World::new();
        let server = Server::new([hangs("So far")]);
        let running = world.asking(&server, ["-m", "sonnet", "-p", "go"]).start();
        server.wait_until(|seen| seen.len() == 1);
        running.signal(signal);
        running.wait().expect(code);
        open_sound(&world.database());
    }
}

#[test]
fn when_nobody_reads_any_more_the_message_at_hand_is_stored_and_nothing_more_is_asked() {
    // The first event is written before the first request.
    for (format, requests, stored) in [("text", 1, &["Nobody hears this."][..]), ("events", 0, &[])]
    {
        let world = World::new();
        let speaks = Turn {
            text: Some("Nobody hears this.".into()),
            ..uses("bash", json!({"command": "echo ran >ran"}))
        };
        let server = Server::new([speaks, says("Went on.")]);
        let arguments = ["-m", "sonnet", "--output-format", format, "go"];
        let ended = world.asking(&server, arguments).without_reader().run();
        ended.expect(141);
        assert_eq!(server.requests().len(), requests, "{format}");
        assert_eq!(world.text("ran"), "", "{format}");
        let connection = open_sound(&world.database());
        assert_eq!(texts(&connection, "user"), ["go"], "{format}");
        assert_eq!(texts(&connection, "assistant"), stored, "{format}");
        drop(connection);
        world
            .asking(&server, ["-m", "sonnet", "go on"])
            .run()
            .expect(0);
        assert_eq!(server.refusals(), Vec::<String>::new());
    }
}
