//! The model asks for the check itself, with the tool `check`.

use std::fs;

use ah_testkit::script::{says, uses};
use serde_json::{Value, json};

use super::{CHECK, JSON, bash, run, world};
use crate::support::binary::{Ended, World};

fn verification(ended: &Ended) -> Value {
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    result["verification"].clone()
}

/// Returns the names of the outputs of checks.
fn outputs(world: &World) -> Vec<String> {
    let folder = world.database().with_extension("out");
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What has passed runs again only if a file has changed since. Without a sandbox, more than the files may have changed.
#[test]
fn a_check_that_the_model_has_asked_for_is_not_repeated() {
    let world = world();
    let turns = [
        uses("check", json!({})),
        bash("sed -i 's/-/+/' add.sh"),
        uses("check", json!({})),
        uses("check", json!({})),
        says("Done."),
    ];
    let model = world.scenario("s", turns);
    let words = ["-m", &model, "--until", CHECK, "mend add"];
    let ended = world.as_typed(words).run().without_panic();
    for words in [
        "`sh tests/add.sh` did not pass: exit 1, after",
        "add 2 3 is -1, not 5",
        "`sh tests/add.sh` passed: exit 0, after",
        "verified: `sh tests/add.sh` passed",
    ] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
    assert_eq!(outputs(&world), ["check-1", "check-2", "check-2-fresh"]);
}

/// One that has failed on the same files would only be asked until chance is on the model's side.
#[test]
fn a_check_that_has_failed_is_not_repeated_for_the_model_before_a_file_changes() {
    let world = world();
    let check = || uses("check", json!({}));
    let turns = [check(), check(), check(), says("Done.")];
    let model = world.scenario("s", turns);
    let words = ["-m", &model, "--until", CHECK, "--max-checks", "1", "mend"];
    let ended = world.as_typed(words).run().without_panic();
    let known = " ms. No file has changed";
    assert_eq!(ended.stderr.matches(known).count(), 2, "{}", ended.stderr);
    // The second is that of the end of the run.
    assert_eq!(outputs(&world), ["check-1", "check-2"]);
}

/// The model goes on with its work while a check runs that it has asked for so: here the check waits for that.
#[test]
fn a_check_in_the_background_holds_nothing_up() {
    let world = world();
    // Outside the project: its paths are those of the copy.
    let go = world.home().join("go");
    let turns = [
        bash("sed -i 's/-/+/' add.sh"),
        uses("check", json!({"background": true})),
        bash(&format!("touch {}", go.display())),
        // Once more, if it is told of the end of the check only then.
        says("Done."),
        says("Done, as I said."),
    ];
    let model = world.scenario("s", turns);
    let command = format!(
        "until [ -e {} ]; do sleep 0.05; done; {CHECK}",
        go.display()
    );
    let words = ["--no-sandbox", "-m", &model, "--until", &command, "mend"];
    let free = ["--dangerously-skip-permissions"];
    let ended = world.as_typed(free.into_iter().chain(words)).run();
    assert!(
        ended.stderr.contains("runs in the background as job"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("verified: "), "{}", ended.stderr);
}

/// What was checked is not what an undo leaves.
#[test]
fn undo_knows_what_was_verified() {
    let world = world();
    // What commands change is recorded in the sandbox.
    let model = world.scenario("s", [bash("sed -i 's/-/+/' add.sh"), says("Done.")]);
    let words = ["-m", &model, "--until", CHECK, "mend add"];
    let ended = world.as_typed(words).run();
    assert!(ended.stderr.contains("verified: "), "{}", ended.stderr);
    let undone = world.as_typed(["undo"]).run().expect(0);
    let told = "`sh tests/add.sh` passed with these changes";
    assert!(undone.stderr.contains(told), "{}", undone.stderr);
    assert_eq!(world.text("add.sh"), super::ADD);
}

/// What has passed counts for the files that it has passed with.
#[test]
fn work_that_is_undone_after_its_check_is_not_verified() {
    let world = world();
    let turns = [
        bash("sed -i 's/-/+/' add.sh"),
        uses("check", json!({})),
        bash("sed -i 's/+/-/' add.sh"),
        says("Done."),
    ];
    let options: Vec<_> = JSON.into_iter().chain(["--max-checks", "1"]).collect();
    let ended = run(&world, turns, &options);
    assert_eq!(
        verification(&ended)["evidence"],
        "claimed",
        "{}",
        ended.stdout
    );
}
