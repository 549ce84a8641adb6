//! Queued sessions and their workers, over the sessions of a folder and, in a build that has it, over PostgreSQL.

mod commands;
mod files;
mod launchers;
#[cfg(feature = "postgres")]
mod network;

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use ah_testkit::script::{says, uses};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::binary::{Ah, World, wait_for_file};

/// A world with a store for its workers.
struct Fleet {
    world: World,
    store: Option<String>,
}

impl Fleet {
    /// Those that this machine and this build have.
    fn all() -> Vec<Self> {
        let folder = Self {
            world: World::new(),
            store: None,
        };
        let mut all = vec![folder];
        if cfg!(feature = "postgres")
            && let Some(server) = ah_testkit::postgres::shared()
        {
            let fleet = Self {
                world: World::new(),
                store: Some(server.database()),
            };
            fleet.ah(&["fleet", "migrate"]).run().expect(0);
            all.push(fleet);
            #[cfg(feature = "graphile")]
            all.push(Self::woken_by_graphile(server));
        }
        all
    }

    #[cfg(feature = "graphile")]
    fn woken_by_graphile(server: &ah_testkit::postgres::Server) -> Self {
        let fleet = Self {
            world: World::new(),
            store: Some(server.database()),
        };
        fleet
            .ah(&["fleet", "migrate", "--graphile"])
            .run()
            .expect(0);
        fleet
    }

    fn ah(&self, arguments: &[&str]) -> Ah {
        self.careful(&[&["--dangerously-skip-permissions"], arguments].concat())
    }

    /// The program with permissions to ask for.
    fn careful(&self, arguments: &[&str]) -> Ah {
        let all = ["--no-sandbox"].iter().chain(arguments).copied();
        let ah = self.world.as_typed(all).env("AH_FLEET_DEAD", "0.6");
        match &self.store {
            Some(store) => ah.env("AH_STORE", store),
            None => ah,
        }
    }

    fn enqueue(&self, model: &str, more: &[&str]) -> String {
        let arguments = [&["enqueue", "-m", model, "make it"], more].concat();
        let ended = self.ah(&arguments).run().expect(0);
        ended.stdout.trim().to_owned()
    }

    fn runs(&self) -> Vec<Value> {
        let ended = self.ah(&["fleet", "--json"]).run().expect(0);
        let listed: Value = serde_json::from_str(&ended.stdout).unwrap();
        listed["runs"].as_array().unwrap().clone()
    }

    /// Waits for a question of the newest run; returns its number.
    fn question(&self, session: &str) -> String {
        ah_testkit::wait::until("a question", || self.runs()[0]["questions"] == 1);
        let shown = self.ah(&["answer", session]).run().expect(0).stdout;
        let number = shown.split_whitespace().nth(1);
        number.expect("a number").to_owned()
    }

    fn watch(&self, session: &str) -> String {
        self.ah(&["watch", session]).run().expect(0).stdout
    }
}

/// A scenario that appends a line to the file `made` in each of its turns, and ends; after that it can be asked once more.
fn makes(world: &World, turns: usize) -> String {
    let make = |turn| uses("bash", json!({"command": format!("echo {turn} >> made")}));
    world.scenario(
        "makes",
        (0..turns)
            .map(make)
            .chain([says("Done."), says("Once more.")]),
    )
}

#[test]
fn a_worker_runs_what_is_queued_and_mail_wakes_it_again() {
    for fleet in Fleet::all() {
        let model = makes(&fleet.world, 2);
        let session = fleet.enqueue(&model, &[]);
        assert_eq!(fleet.runs()[0]["state"], "queued");
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        let run = &fleet.runs()[0];
        assert_eq!(
            (&run["state"], &run["attempt"]),
            (&json!("done"), &json!(1))
        );
        assert_eq!(fleet.world.text("made"), "0\n1\n");
        let watched = fleet.watch(&session);
        assert!(watched.starts_with("> make it\n"), "{watched}");
        assert!(watched.ends_with("Done.\n"), "{watched}");

        fleet
            .ah(&["steer", &session[..20], "again"])
            .run()
            .expect(0);
        assert_eq!(fleet.runs()[0]["state"], "queued");
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        let watched = fleet.watch(&session);
        assert!(watched.ends_with("> again\nOnce more.\n"), "{watched}");
    }
}

/// The list says what the check of each run has shown, and nothing of runs without one.
#[test]
fn the_list_tells_what_checks_have_shown() {
    for fleet in Fleet::all() {
        let model = fleet.world.scenario("says", [says("Done.")]);
        for (check, state, told) in [
            (Some("true"), "done", "verified: `true` passed in "),
            (
                Some("false"),
                "failed",
                "claimed, but `false` did not pass: exit 1, in ",
            ),
            (None, "done", ""),
        ] {
            let session = fleet.enqueue(&model, &["--attempts", "1"]);
            let check = check.map(|check| ["--until", check, "--max-checks", "1"]);
            let words: Vec<_> = check.iter().flatten().copied().collect();
            let worker = [&words[..], &["worker", "--until-idle"]].concat();
            fleet.ah(&worker).run().expect(0);
            let list = fleet.ah(&["fleet"]).run().expect(0).stdout;
            let line = list.lines().find(|line| line.contains(&session)).unwrap();
            assert!(line.contains(state) && line.contains(told), "{line}");
            let run = &fleet.runs()[0];
            let known = if state == "failed" {
                &run["error"]
            } else {
                &run["known"]
            };
            match told {
                "" => {
                    assert_eq!(known, &Value::Null);
                    assert!(!line.contains("verif"), "{line}");
                }
                told => assert!(known.as_str().unwrap().starts_with(told), "{run}"),
            }
        }
    }
}

#[test]
fn a_failed_run_says_why_and_one_that_waits_can_be_cancelled() {
    for fleet in Fleet::all() {
        let session = fleet.enqueue("script:nowhere.json", &["--attempts", "1"]);
        let waits = fleet.enqueue("script:nowhere.json", &["--delay", "3600"]);
        fleet.ah(&["cancel", &waits]).run().expect(0);
        fleet.ah(&["cancel", &waits]).run().expect(1);
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        let states: Vec<_> = fleet
            .runs()
            .iter()
            .map(|run| run["state"].clone())
            .collect();
        assert_eq!(states, ["cancelled", "failed"]);
        let watched = fleet.ah(&["watch", &session]).run().expect(1);
        assert!(
            watched.stderr.contains("nowhere.json"),
            "{}",
            watched.stderr
        );
        fleet.ah(&["steer", "01", "left"]).run().expect(1);
    }
}

#[test]
fn a_worker_that_is_killed_at_any_commit_is_taken_over() {
    for fleet in Fleet::all() {
        for side in ["before", "after"] {
            for commit in 1.. {
                let model = makes(&fleet.world, 2);
                let session = fleet.enqueue(&model, &[]);
                let fault = format!("{side}:{commit}");
                let worker = fleet.ah(&["worker", "--until-idle"]).env("AH_FAULT", fault);
                let ended = worker.run();
                let is_over = ended.signal.is_none();
                fleet.ah(&["worker", "--until-idle"]).run().expect(0);
                let run = fleet.runs()[0].clone();
                assert_eq!(run["state"], "done", "{side} {commit}: {run} {ended:?}");
                let watched = fleet.watch(&session);
                assert!(watched.starts_with("> make it\n"), "{watched}");
                assert_eq!(watched.matches("make it").count(), 1, "{watched}");
                let made = fleet.world.text("made");
                let lines: Vec<_> = made.lines().collect();
                let mut once = lines.clone();
                once.dedup();
                assert_eq!(lines, once, "{side} {commit}: nothing runs twice");
                std::fs::remove_file(fleet.world.file("made")).unwrap();
                if is_over {
                    assert!(commit > 8, "there are only {commit} commits");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_worker_that_is_terminated_hands_its_run_on() {
    for fleet in Fleet::all() {
        let slow = uses("bash", json!({"command": "echo begun >> made; sleep 60"}));
        let model = fleet.world.scenario("slow", [slow, says("Done.")]);
        fleet.enqueue(&model, &["--attempts", "1"]);
        let worker = fleet.ah(&["worker"]).start();
        wait_for_file(&fleet.world.file("made"));
        let began = Instant::now();
        kill_process(worker.pid, Signal::TERM).unwrap();
        worker.wait().expect(0);
        assert!(began.elapsed() < Duration::from_secs(20));
        let run = &fleet.runs()[0];
        assert_eq!(
            (&run["state"], &run["attempt"]),
            (&json!("queued"), &json!(0))
        );
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        assert_eq!(fleet.runs()[0]["state"], "done");
        assert_eq!(fleet.world.text("made"), "begun\n", "it is not repeated");
        fleet.world.assert_nothing_runs();
    }
}

#[test]
fn a_running_session_is_interrupted_and_goes_on_when_it_is_steered() {
    for fleet in Fleet::all() {
        let slow = uses("bash", json!({"command": "echo begun >> made; sleep 60"}));
        let model = fleet.world.scenario("slow", [slow, says("Done.")]);
        let session = fleet.enqueue(&model, &[]);
        let worker = fleet.ah(&["worker", "--until-idle"]).start();
        wait_for_file(&fleet.world.file("made"));
        fleet.ah(&["interrupt", &session]).run().expect(0);
        worker.wait().expect(0);
        assert_eq!(fleet.runs()[0]["state"], "cancelled");

        fleet.ah(&["steer", &session, "Leave it."]).run().expect(0);
        assert_eq!(fleet.runs()[0]["state"], "queued");
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        assert_eq!(fleet.runs()[0]["state"], "done");
    }
}

#[test]
fn a_question_is_answered_from_elsewhere() {
    for fleet in Fleet::all() {
        for (answer, is_made) in [("allow", true), ("Deny", false)] {
            let model = makes(&fleet.world, 1);
            let session = fleet.enqueue(&model, &["--answer-within", "600"]);
            let worker = fleet.careful(&["worker", "--until-idle"]).start();
            let number = fleet.question(&session);
            let listed = fleet.ah(&["fleet"]).run().expect(0).stdout;
            assert!(listed.contains("  asks  "), "{listed}");
            let watching = fleet.ah(&["watch", &session]).start();
            watching.wait_for_output(&format!("ah answer {session} {number} ANSWER"));

            fleet
                .ah(&["answer", &session, &number, "maybe"])
                .run()
                .expect(2);
            let given = ["answer", &session, &number, answer];
            fleet.ah(&given).run().expect(0);
            fleet.ah(&given).run().expect(1);
            worker.wait().expect(0);
            let watched = watching.wait().expect(0).stdout;
            assert!(watched.contains("echo 0 >> made"), "{watched}");
            assert!(watched.ends_with("Done.\n"), "{watched}");
            assert_eq!(fleet.world.file("made").exists(), is_made);
            let _ = std::fs::remove_file(fleet.world.file("made"));
        }
    }
}

#[test]
fn a_question_of_a_worker_that_died_is_answered_to_the_next_one() {
    for fleet in Fleet::all() {
        // As by each restart of all workers, and by a crash. The call has not begun, and the next worker asks for it again.
        for signal in [Signal::TERM, Signal::KILL] {
            let make = uses("bash", json!({"command": "echo 0 >> made"}));
            let model = fleet.world.scenario("once", [make, says("Done.")]);
            let session = fleet.enqueue(&model, &["--answer-within", "600"]);
            let worker = fleet.careful(&["worker"]).start();
            let number = fleet.question(&session);
            worker.signal(signal);
            worker.wait();
            assert_eq!(fleet.question(&session), number);
            fleet
                .ah(&["answer", &session, &number, "allow"])
                .run()
                .expect(0);
            fleet.careful(&["worker", "--until-idle"]).run().expect(0);
            assert_eq!(fleet.world.text("made"), "0\n");
            let watched = fleet.watch(&session);
            assert!(!watched.contains("did not run"), "{watched}");
            std::fs::remove_file(fleet.world.file("made")).unwrap();
        }
    }
}

#[test]
fn a_question_without_an_answer_is_refused_in_time() {
    for fleet in Fleet::all() {
        let model = makes(&fleet.world, 1);
        let session = fleet.enqueue(&model, &["--answer-within", "1"]);
        fleet.careful(&["worker", "--until-idle"]).run().expect(0);
        let watched = fleet.watch(&session);
        assert!(watched.contains("Nobody has answered"), "{watched}");
        assert!(!fleet.world.file("made").exists());
        let none = fleet.ah(&["answer", &session]).run().expect(0);
        assert_eq!(none.stdout, "no open questions\n");
    }
}

#[test]
fn workers_share_the_limits_of_requests() {
    for fleet in Fleet::all() {
        // One slot now, and the next one in a day.
        let slow = ["fleet", "limit", "--per-minute", "0.0007"];
        fleet.ah(&slow).run().expect(0);
        let listed = fleet.ah(&["fleet", "limit"]).run().expect(0).stdout;
        assert!(
            listed.ends_with("*  0.0007 requests a minute\n"),
            "{listed}"
        );
        let model = makes(&fleet.world, 1);
        let sessions = [fleet.enqueue(&model, &[]), fleet.enqueue(&model, &[])];
        let workers = [0, 1].map(|_| {
            let one = ["worker", "--concurrency", "1", "--until-idle"];
            fleet.ah(&one).start()
        });
        wait_for_file(&fleet.world.file("made"));
        let are_running = || fleet.runs().iter().all(|run| run["state"] == "running");
        ah_testkit::wait::until("both runs", are_running);
        for session in &sessions {
            fleet.ah(&["cancel", session]).run().expect(0);
        }
        for worker in workers {
            worker.wait().expect(0);
        }
        assert_eq!(fleet.world.text("made"), "0\n");
    }
}

/// What cannot begin is not waited for by a worker that is to end.
#[test]
fn a_worker_that_is_to_end_says_that_a_budget_is_spent() {
    for fleet in Fleet::all() {
        fleet
            // Less than is counted.
            .ah(&["fleet", "limit", "--budget", "0.0000000000001"])
            .run()
            .expect(0);
        let model = makes(&fleet.world, 1);
        fleet.enqueue(&model, &[]);
        let ended = fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        assert!(
            ended.stderr.contains("a budget is spent"),
            "{}",
            ended.stderr
        );
        assert_eq!(fleet.runs()[0]["state"], "queued");
    }
}

#[test]
fn a_worker_says_how_it_is_and_nothing_of_what_it_does() {
    for fleet in Fleet::all() {
        let model = makes(&fleet.world, 1);
        let session = fleet.enqueue(&model, &[]);
        let worker = fleet.ah(&["worker", "--metrics", "0"]).start();
        worker.wait_for_notice("/metrics");
        let notice = worker.notices_so_far();
        let (_, address) = notice.split_once("metrics: http://").unwrap();
        let (address, _) = address.split_once("/metrics").unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        fleet.watch(&session);
        assert_eq!(got(address, "/healthz"), (200, "ok\n".to_owned()));
        assert_eq!(got(address, "/readyz"), (200, "ready\n".to_owned()));
        assert_eq!(got(address, "/").0, 404);
        let (_, metrics) = got(address, "/metrics");
        for line in [
            "ah_queue_runs{state=\"done\"} 1",
            "ah_worker_runs_ended_total{end=\"done\"} 1",
            "ah_worker_runs 0",
            "ah_tool_calls_total{outcome=\"ok\"} 1",
            "# TYPE process_resident_memory_bytes gauge",
        ] {
            assert!(metrics.lines().any(|it| it == line), "{line}:\n{metrics}");
        }
        let requests = "ah_model_requests_total{model=";
        assert!(metrics.contains(requests), "{metrics}");
        for secret in ["make it", "made", &session] {
            assert!(!metrics.contains(secret), "{secret}:\n{metrics}");
        }
        kill_process(worker.pid, Signal::TERM).unwrap();
        worker.wait().expect(0);
    }
}

/// Returns the status and the body of an answer.
fn got(address: &str, path: &str) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.parse().unwrap(), body.to_owned())
}

#[test]
fn a_schedule_is_listed_and_ended() {
    for fleet in Fleet::all() {
        let wrong = ["enqueue", "--cron", "every day", "make it"];
        fleet.ah(&wrong).run().expect(2);
        let yearly = ["enqueue", "--cron", "0 6 1 1 * Europe/Rome", "make it"];
        let said = fleet.ah(&yearly).run().expect(0).stdout;
        assert!(said.starts_with("schedule 1: "), "{said}");
        let listed = fleet.ah(&["fleet", "schedules"]).run().expect(0).stdout;
        assert!(
            listed.contains("-01-01T05:00:00Z  0 6 1 1 * Europe/Rome  make it"),
            "{listed}"
        );
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        assert_eq!(fleet.runs(), Vec::<Value>::new());
        let end = ["fleet", "unschedule", "1"];
        fleet.ah(&end).run().expect(0);
        fleet.ah(&end).run().expect(1);
    }
}

#[test]
fn what_is_over_is_cleaned_up_and_what_waits_stays() {
    for fleet in Fleet::all() {
        let much = "head -c 40000 /dev/zero | tr '\\0' x";
        let turns = [uses("bash", json!({"command": much})), says("Done.")];
        let model = fleet.world.scenario("much", turns);
        let session = fleet.enqueue(&model, &[]);
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        let clean_up = |more: &[&str]| {
            let arguments = [&["fleet", "gc"], more].concat();
            fleet.ah(&arguments).run().expect(0).stdout
        };
        assert_eq!(clean_up(&[]), "nothing to remove\n");
        fleet.enqueue(&model, &[]);
        let said = clean_up(&["--older-than", "0"]);
        let start = format!("removed {session}\nremoved 1 session and ");
        assert!(said.starts_with(&start), "{said}");
        assert_eq!(fleet.runs()[0]["state"], "queued");
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        assert_eq!(fleet.runs()[0]["state"], "done");
    }
}

#[test]
fn a_plain_run_does_not_go_on_with_a_queued_session() {
    let fleet = &Fleet::all()[0];
    let hello = || says("Hello.");
    let model = fleet.world.scenario("hello", [hello(), hello(), hello()]);
    let before = ["-m", &model, "--no-sandbox", "before"];
    fleet.world.as_typed(before).run().expect(0);
    let session = fleet.enqueue(&model, &[]);
    for continued in [&["after"][..], &["-c", "after"]] {
        let arguments = [&["-m", &model, "--no-sandbox"], continued].concat();
        let ended = fleet.world.as_typed(arguments).run().expect(0);
        assert!(!ended.stderr.contains(&session), "{}", ended.stderr);
    }
    assert_eq!(fleet.runs()[0]["state"], "queued");
    fleet.ah(&["worker", "--until-idle"]).run().expect(0);
    assert_eq!(fleet.watch(&session), "> make it\nHello.\n");
}

#[test]
fn a_store_of_another_kind_is_refused() {
    let world = World::new();
    let ended = world.as_typed(["fleet", "--store", "mysql://host"]).run();
    let ended = ended.expect(2);
    assert!(ended.stderr.contains("is not a store"), "{}", ended.stderr);
    if !cfg!(feature = "postgres") {
        let url = "postgres://role:secret@host/db";
        let ended = world.as_typed(["fleet", "--store", url]).run().expect(2);
        assert!(ended.stderr.contains("feature `postgres`"));
        assert!(!ended.stderr.contains("secret"));
    }
}
