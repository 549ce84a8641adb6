//! Commands in the place of tasks: they are run by workers that say so, once at a time, and end with their worker.

use ah_testkit::script::{says, uses};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::Fleet;
use crate::support::binary::wait_for_file;

/// Options of a bench whose tasks run without a sandbox.
const OPTIONS: [&str; 5] = [
    "--no-sandbox",
    "--",
    "--no-sandbox",
    "--dangerously-skip-permissions",
    "-m",
];

impl Fleet {
    /// Makes three tasks, of which one fails, and returns their model.
    fn tasks(&self) -> String {
        for (name, check) in [
            ("one", "exit 0"),
            ("three", "exit 0"),
            ("two", "echo no >&2; exit 1"),
        ] {
            self.world.write(&format!("tasks/{name}/prompt.md"), "Go.");
            self.world.write(&format!("tasks/{name}/check.sh"), check);
        }
        self.world.scenario("model", [says("Done.")]);
        format!("script:{}", self.world.file("model.json").display())
    }
}

#[test]
fn a_command_is_run_by_a_worker_that_says_so() {
    for fleet in Fleet::all() {
        let model = fleet.tasks();
        let queued = ["enqueue", "--", "bench", "tasks", "--task", "one"];
        let words = [&queued[..], &OPTIONS, &[&model]].concat();
        let refused = fleet.ah(&words).run().expect(0).stdout;
        fleet.ah(&["worker", "--until-idle"]).run().expect(0);
        let watched = fleet.ah(&["watch", refused.trim()]).run().expect(1);
        assert!(
            watched.stderr.contains("ah worker --commands"),
            "{}",
            watched.stderr
        );

        let session = fleet.ah(&words).run().expect(0).stdout;
        fleet
            .ah(&["worker", "--commands", "--until-idle"])
            .run()
            .expect(0);
        let watched = fleet.watch(session.trim());
        assert!(
            watched.starts_with("> ah bench tasks --task one"),
            "{watched}"
        );
        assert!(watched.contains("one solved"), "{watched}");
        let title = fleet.runs()[0]["title"].clone();
        assert!(
            title.as_str().unwrap().starts_with("ah bench tasks"),
            "{title}"
        );
        let result: Value =
            serde_json::from_str(&fleet.world.text("tasks.results/one/result.json")).unwrap();
        assert_eq!(result["verdict"], "solved");
    }
}

#[test]
fn only_work_and_benches_are_queued_as_commands() {
    let fleet = &Fleet::all()[0];
    for words in [
        &["--", "sandbox", "exec", "id"][..],
        &["--", "repair the test"],
        &["task", "--", "work"],
        &[],
    ] {
        fleet.ah(&[&["enqueue"], words].concat()).run().expect(2);
    }
    assert_eq!(fleet.runs(), Vec::<Value>::new());
}

#[test]
fn the_tasks_of_a_bench_are_queued_and_waited_for() {
    for fleet in Fleet::all() {
        let model = fleet.tasks();
        let words = [
            &["bench", "tasks", "--json", "--enqueue"][..],
            &OPTIONS,
            &[&model],
        ]
        .concat();
        let first = fleet.ah(&words).start();
        first.wait_for_notice("3 tasks are queued");
        // It goes on without the one who waits, and is not queued again.
        first.kill();
        let bench = fleet.ah(&words).start();
        bench.wait_for_notice("3 tasks are queued");
        assert_eq!(fleet.runs().len(), 3);
        // None is taken for dead, however slow the machine is: a task that is done twice may fail the second time.
        let workers = [0, 1].map(|_| {
            let worker = fleet.ah(&["worker", "--commands", "--until-idle"]);
            worker.env("AH_FLEET_DEAD", "30").start()
        });
        for worker in workers {
            worker.wait().expect(0);
        }
        let report: Value = serde_json::from_str(&bench.wait().expect(1).stdout).unwrap();
        let verdicts: Vec<_> = report["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["verdict"].clone())
            .collect();
        assert_eq!(verdicts, ["solved", "solved", "failed"], "{report}");
        let states: Vec<_> = fleet
            .runs()
            .iter()
            .map(|run| run["state"].clone())
            .collect();
        assert_eq!(
            states
                .iter()
                .filter(|state| **state == json!("done"))
                .count(),
            2,
            "{states:?}"
        );
    }
}

#[test]
fn a_command_ends_with_its_worker_and_is_run_anew() {
    for fleet in Fleet::all() {
        let model = fleet.tasks();
        let folder = fleet.world.project();
        let begin = format!(
            "cd {}; echo begun >> made; [ -e go ] || sleep 60",
            folder.display()
        );
        let slow = uses("bash", json!({ "command": begin }));
        fleet.world.scenario("model", [slow, says("Done.")]);
        let queued = ["enqueue", "--", "bench", "tasks", "--task", "one"];
        fleet
            .ah(&[&queued[..], &OPTIONS, &[&model]].concat())
            .run()
            .expect(0);
        for signal in [Signal::KILL, Signal::TERM] {
            let worker = fleet.ah(&["worker", "--commands"]).start();
            wait_for_file(&fleet.world.file("made"));
            kill_process(worker.pid, signal).unwrap();
            let _ = worker.wait();
            std::fs::remove_file(fleet.world.file("made")).unwrap();
        }
        fleet.world.write("go", "");
        fleet
            .ah(&["worker", "--commands", "--until-idle"])
            .run()
            .expect(0);
        assert_eq!(fleet.runs()[0]["state"], "done");
        assert_eq!(fleet.world.text("made"), "begun\n");
        fleet.world.assert_nothing_runs();
    }
}
