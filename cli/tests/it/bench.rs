//! `ah bench`: tasks are run and judged, again only when needed, and recorded runs without a model.

use std::fs;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::sandbox::is_missing;
use crate::support::binary::{Ended, World};

/// A world with tasks: one is solved, one is not, one cannot be set up, and one has a model that fails.
fn tasks(world: &World) -> String {
    let say = "expr 1 + \"$(cat number)\" > answer; cat answer";
    let bash = |line: &str| uses("bash", json!({ "command": line }));
    for (name, files) in [
        (
            "solved",
            &[
                ("prompt.md", "Add one to the number."),
                ("files/deep/number", "41\n"),
                ("setup.sh", "mv deep/number .; chmod -R go-w ."),
                (
                    "check.sh",
                    "[ \"$(cat answer)\" = 42 ] && [ ! -e check.sh ]",
                ),
            ][..],
        ),
        (
            "failed",
            &[
                ("prompt.md", "Add one."),
                ("files/number", "7\n"),
                ("check.sh", "[ \"$(cat answer)\" = 9 ]"),
            ][..],
        ),
        (
            "broken",
            &[
                ("prompt.md", "Go."),
                ("setup.sh", "echo no such thing >&2; exit 3"),
            ][..],
        ),
    ] {
        for (file, text) in files {
            world.write(&format!("tasks/{name}/{file}"), text);
        }
    }
    world.write("tasks/not-a-task/README.md", "");
    world.scenario("model", [bash(say), says("Done.")]);
    // Runs have working folders of their own.
    format!("script:{}", world.file("model.json").display())
}

fn bench(world: &World, options: &[&str], run: &[&str]) -> Ended {
    let options = ["bench", "tasks", "-j", "2"].iter().chain(options);
    let run = ["--", "--dangerously-skip-permissions", "-m"]
        .iter()
        .chain(run);
    world.as_typed(options.chain(run).copied()).run()
}

fn verdicts(ended: &Ended) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let tasks = report["tasks"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    tasks
        .map(|task| (text(&task["task"]), text(&task["verdict"])))
        .collect()
}

#[test]
fn tasks_are_judged_by_their_checks_and_replayed_without_a_model() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let model = tasks(&world);
    let ended = bench(&world, &["--json"], &[&model]).expect(1);
    let expected = [
        ("broken", "broken"),
        ("failed", "failed"),
        ("solved", "solved"),
    ];
    let expected = expected.map(|(task, verdict)| (task.to_owned(), verdict.to_owned()));
    assert_eq!(verdicts(&ended), expected, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("broken broken: its setup failed: no such thing"),
        "{}",
        ended.stderr
    );
    assert_eq!(world.text("tasks.results/solved/workspace/answer"), "42\n");
    // Whoever has queued the tasks reads why one is broken.
    let kept: Value =
        serde_json::from_str(&world.text("tasks.results/broken/result.json")).unwrap();
    assert_eq!(kept["error"], "its setup failed: no such thing");

    // Only what has no result is run again: without the scenario, nothing else could.
    let scenario = model.strip_prefix("script:").unwrap();
    fs::remove_file(scenario).unwrap();
    let again = bench(&world, &["--json"], &[&model]).expect(1);
    assert_eq!(verdicts(&again), expected);
    let other = bench(&world, &[], &["script:other"]).expect(2).stderr;
    assert!(
        other.contains("is from a run with other options"),
        "{other}"
    );

    let replayed = bench(&world, &["--replay"], &[&model]).expect(0);
    assert!(
        replayed.stdout.contains("1 of 2 solved"),
        "{}",
        replayed.stdout
    );
    // The task is another one: the first request that differs is named.
    world.write("tasks/solved/files/deep/number", "40\n");
    let differs = bench(&world, &["--replay", "--task", "solved"], &[&model]).expect(1);
    for words in [
        "solved broken (was solved)",
        "turn 2",
        "-tool_result Bash ok: 42\n+tool_result Bash ok: 41\n",
    ] {
        assert!(
            differs.stderr.contains(words),
            "{words}: {}",
            differs.stderr
        );
    }
    assert_eq!(verdicts(&bench(&world, &["--json"], &[&model])), expected);
}

/// What the run's own check has shown is a column of its own, which there is only for runs with one.
#[test]
fn the_table_has_what_checks_of_runs_have_shown() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let model = tasks(&world);
    let task = ["--task", "solved", "--output"];
    let of = |output, run: &[&str]| {
        let run: Vec<_> = [&*model].into_iter().chain(run.iter().copied()).collect();
        bench(&world, &[&task[..], &[output]].concat(), &run)
    };
    for (command, evidence) in [
        ("grep -q 42 answer", "  verified\n"),
        ("false", "  claimed\n"),
    ] {
        let checked = ["--until", command, "--max-checks", "1"];
        let ended = of(evidence.trim(), &checked).expect(0);
        assert!(ended.stdout.contains("  evidence\n"), "{}", ended.stdout);
        assert!(ended.stdout.contains(evidence), "{}", ended.stdout);
    }
    // A replay does not check again.
    let replay = ["--task", "solved", "--output", "verified", "--replay"];
    let run = ["--until", "grep -q 42 answer", "--max-checks", "1"];
    let replayed = bench(&world, &replay, &[&[&*model][..], &run].concat()).expect(0);
    let told = "  verified (recorded)\n";
    assert!(replayed.stdout.contains(told), "{}", replayed.stdout);
    let ended = of("without", &[]).expect(0);
    assert!(!ended.stdout.contains("evidence"), "{}", ended.stdout);
}

#[test]
fn runs_have_the_key_of_the_environment() {
    let world = World::new();
    world.write("tasks/say/prompt.md", "Say it.");
    let server = Server::new([says("So it is.")]);
    let words = [
        "bench",
        "tasks",
        "--no-sandbox",
        "--json",
        "--",
        "-m",
        "sonnet",
    ];
    let nothing = world
        .as_typed(["bench", "tasks", "--replay"])
        .run()
        .expect(1);
    assert!(
        nothing.stderr.contains("nothing was recorded"),
        "{}",
        nothing.stderr
    );
    let ended = world.asking_as_typed(&server, words).run().expect(0);
    assert_eq!(verdicts(&ended)[0].1, "solved", "{}", ended.stderr);
}

#[test]
fn a_fault_of_the_model_is_no_result_and_a_folder_of_others_is_not_touched() {
    let world = World::new();
    let model = tasks(&world);
    let options = ["--no-sandbox", "--task", "solved", "--json"];
    let broken = bench(&world, &options, &["script:missing"]).expect(1);
    assert_eq!(verdicts(&broken)[0].1, "broken", "{}", broken.stdout);
    let solved = bench(&world, &options, &[&model, "--no-sandbox"]).expect(0);
    assert_eq!(verdicts(&solved)[0].1, "solved", "{}", solved.stdout);
    world.write("mine/solved/text", "mine");
    let refused = bench(&world, &["-o", "mine", "--task", "solved"], &[&model]).expect(2);
    assert!(
        refused.stderr.contains("is not a folder of results"),
        "{}",
        refused.stderr
    );
    assert_eq!(world.text("mine/solved/text"), "mine");
}
