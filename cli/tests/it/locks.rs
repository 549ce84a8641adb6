//! One session, several processes: one holds the lock, and prompts of the others are queued, not lost.

use std::thread;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::interrupted_again_and_again::{Talk, blocks, open_sound};
use crate::support::binary::{Running, World, wait_for_file};
use crate::support::random::{Random, rounds};

/// A tool call that waits for the file `go`.
fn waits() -> Turn {
    let command = "echo waiting >waiting; until [ -e go ]; do sleep 0.01; done";
    uses("bash", json!({"command": command}))
}

/// A run that holds the session while its tool waits.
fn holder(world: &World, server: &Server) -> Running {
    let running = world.asking(server, ["-m", "sonnet", "go"]).start();
    wait_for_file(&world.file("waiting"));
    running
}

fn user_words(body: &Value) -> Vec<String> {
    let words = blocks(body).into_iter().filter(|(role, _)| role == "user");
    words
        .filter_map(|(_, block)| Some(block["text"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn a_prompt_for_a_busy_session_waits_there_and_is_answered_by_its_holder() {
    let world = World::new();
    let server = Server::new([waits(), says("First."), says("Second.")]);
    let running = holder(&world, &server);
    let other = world
        .asking(&server, ["-m", "sonnet", "and", "then?"])
        .run()
        .expect(0);
    assert_eq!(other.stdout, "");
    assert!(
        other.stderr.contains(&running.pid.as_raw_pid().to_string()),
        "{other:#?}"
    );
    world.write("go", "");
    let ended = running.wait().expect(0);
    assert_eq!(ended.stdout, "First.\nSecond.\n");
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(user_words(&requests[2].body), ["go", "and then?"]);
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[test]
fn a_program_is_told_that_a_session_is_busy() {
    let world = World::new();
    let server = Server::new([waits(), says("First.")]);
    let running = holder(&world, &server);
    let other = world
        .asking(&server, ["-m", "sonnet", "-p", "-c", "and?"])
        .run()
        .expect(75);
    assert!(other.stderr.contains("error: "), "{other:#?}");
    world.write("go", "");
    running.wait().expect(0);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_lock_ends_with_its_holder_however_it_ends() {
    let world = World::new();
    let server = Server::new([waits(), says("Went on.")]);
    holder(&world, &server).kill();
    let other = world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
    assert_eq!(other.stdout, "Went on.\n");
    assert_eq!(server.refusals(), Vec::<String>::new());
    world.assert_nothing_runs();
}

#[test]
fn of_many_that_begin_at_once_one_works_and_no_prompt_is_lost() {
    let world = World::new();
    let turns = (0..40).map(|turn| says(&format!("Answer {turn}.")));
    let server = Server::new(turns);
    let database = world.file("talk.db");
    let database = database.to_str().unwrap();
    let prompts: Vec<_> = (0..8).map(|prompt| format!("prompt {prompt}")).collect();
    let runs: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            world
                .asking(&server, ["-m", "sonnet", "--db", database, prompt])
                .start()
        })
        .collect();
    for run in runs {
        run.wait().expect(0);
    }
    // A prompt queued while the holder was about to exit waits for the next run.
    world
        .asking(&server, ["-m", "sonnet", "--db", database, "last"])
        .run()
        .expect(0);
    let mut words = user_words(&server.requests().last().unwrap().body);
    words.sort();
    words.dedup();
    assert_eq!(words.len(), prompts.len() + 1, "{words:?}");
    assert_eq!(server.refusals(), Vec::<String>::new());
    open_sound(&world.file("talk.db"));
}

#[test]
fn a_thousand_words_from_outside_arrive_once_each_and_in_order_also_across_a_kill() {
    let world = World::new();
    let server = Server::by_history([
        waits(),
        waits(),
        says("Read."),
        says("Done."),
        says("Done."),
    ]);
    let running = holder(&world, &server);
    send(&world, 0..500);
    world.write("go", "");
    server.wait_until(|seen| seen.len() >= 2);
    running.kill();
    send(&world, 500..1_000);
    world
        .asking(&server, ["-m", "sonnet", "go on"])
        .run()
        .expect(0);
    let words = user_words(&server.requests().last().unwrap().body);
    let steering: Vec<_> = words
        .iter()
        .filter_map(|word| word.strip_prefix("[STEERING] "))
        .collect();
    let expected: Vec<_> = (0..1_000).map(|n| format!("word {n}")).collect();
    assert_eq!(steering, expected);
    assert_eq!(server.refusals(), Vec::<String>::new());
    let queue = world.database().with_extension("queue.db");
    open_sound(&queue);
}

/// Queues messages for the session, fifty at a time.
fn send(world: &World, numbers: std::ops::Range<u32>) {
    let words: Vec<_> = numbers.map(|n| format!("word {n}")).collect();
    for some in words.chunks(50) {
        let arguments = some.iter().flat_map(|word| ["--steer", word]);
        world.ah(arguments).run().expect(0);
    }
}

#[test]
fn senders_that_write_at_once_all_succeed() {
    let world = World::new();
    let server = Server::new([waits(), says("Read."), says("Done.")]);
    let running = holder(&world, &server);
    thread::scope(|scope| {
        for sender in 0..4 {
            let world = &world;
            scope.spawn(move || {
                for n in 0..5 {
                    let word = format!("{sender}.{n}");
                    world
                        .ah(["--steer", &word, "--followup", &word])
                        .run()
                        .expect(0);
                }
            });
        }
    });
    world.write("go", "");
    running.wait().expect(0);
    let words = user_words(&server.requests().last().unwrap().body);
    for sender in 0..4 {
        for mark in ["[STEERING] ", ""] {
            let own = format!("{mark}{sender}.");
            let heard: Vec<_> = words
                .iter()
                .filter_map(|word| word.strip_prefix(&own))
                .collect();
            assert_eq!(heard, ["0", "1", "2", "3", "4"], "{words:?}");
        }
    }
}

#[test]
fn mail_is_read_once_however_often_its_reader_is_killed() {
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_KILLS", 8) {
        let mut talk = Talk::with_tools();
        talk.ah("go").run().expect(0);
        for word in ["a", "b", "c"] {
            talk.world
                .ah(["--steer", word, "--followup", word])
                .run()
                .expect(0);
        }
        for _ in 0..2 {
            let side = ["before", "after"][usize::try_from(random.below(2)).unwrap()];
            let fault = format!("{side}:{}", 1 + random.below(10));
            let ended = talk.ah("go on").env("AH_FAULT", fault).run();
            talk.note(&ended);
        }
        let last = talk.ah("go on").run().expect(0);
        talk.note(&last);
        talk.assert_sound();
        let words = user_words(&talk.server.requests().last().unwrap().body);
        for word in [
            "a",
            "b",
            "c",
            "[STEERING] a",
            "[STEERING] b",
            "[STEERING] c",
        ] {
            assert_eq!(
                words.iter().filter(|said| *said == word).count(),
                1,
                "{words:?}"
            );
        }
    }
}
