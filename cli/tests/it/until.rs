//! `--until`: a run goes on until the engine has seen its check pass, and says so only then.

pub mod aimed;
mod asked;
mod continued;
mod killed;
mod liars;
mod proposed;
pub mod recorded;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::support::binary::{Ended, World};
use crate::support::shown::shown;

/// The product of the stories, which is wrong, and its test.
pub const ADD: &str = "add() { echo $(($1 - $2)); }\n";
const TEST: &str =
    ". ./add.sh\n[ \"$(add 2 3)\" = 5 ] || { echo \"add 2 3 is $(add 2 3), not 5\"; exit 1; }\n";
pub const CHECK: &str = "sh tests/add.sh";

/// Options of a program that reads the result, whose model may do what it wants.
const JSON: [&str; 4] = [
    "-p",
    "--dangerously-skip-permissions",
    "--output-format",
    "json",
];

pub fn bash(command: &str) -> Turn {
    uses("bash", json!({"command": command}))
}

/// A world with the product and its test.
pub fn world() -> World {
    let world = World::new();
    world.write("add.sh", ADD);
    world.write("tests/add.sh", format!("echo testing\n{TEST}"));
    world
}

/// Runs `turns` until the check passes, with further arguments.
fn run(world: &World, turns: impl IntoIterator<Item = Turn>, arguments: &[&str]) -> Ended {
    let model = world.scenario("s", turns);
    let words = ["-m", &model, "--until", CHECK];
    let words = words.into_iter().chain(arguments.iter().copied());
    world.ah(words.chain(["mend add"])).run().without_panic()
}

/// What is seen of a run, without the time of its checks.
fn told(world: &World, ended: &Ended) -> String {
    let lines = shown(world, ended);
    let untimed = |line: &str| match line.split_once(" in 0.") {
        Some((before, after)) => format!(
            "{before} in <n>{}",
            after.trim_start_matches(char::is_numeric)
        ),
        None => line.to_owned(),
    };
    lines.lines().map(|line| untimed(line) + "\n").collect()
}

#[test]
fn a_run_goes_on_until_its_check_passes() {
    let world = world();
    let turns = [
        says("It is done."),
        bash("sed -i 's/-/+/' add.sh"),
        says("Now it is."),
    ];
    insta::assert_snapshot!(told(&world, &run(&world, turns, &[])), @"
stdout:
It is done.
Now it is.
stderr:
sealed for the check: tests/add.sh
>>> mend add
`sh tests/add.sh` did not pass (exit 1); 9 checks left

bash (<n>s)
  $ sed -i 's/-/+/' add.sh
  (no output)

verified: `sh tests/add.sh` passed in <n> s (exit 0), output in <project>/.ah/<id>.out/check-2
exit code 0
");
}

#[test]
fn what_does_not_pass_is_claimed_and_what_did_not_run_not_tried() {
    let world = world();
    let turns = || [says("It is done."), says("Still."), says("Still.")];
    insta::assert_snapshot!(told(&world, &run(&world, turns(), &[])), @"
stdout:
It is done.
Still.
Still.
stderr:
sealed for the check: tests/add.sh
>>> mend add
`sh tests/add.sh` did not pass (exit 1); 9 checks left
`sh tests/add.sh` did not pass (exit 1); 8 checks left
claimed, but `sh tests/add.sh` did not pass: exit 1, in <n> s, output in <project>/.ah/<id>.out/check-3
exit code 3
");
    let turns = [bash("true"), says("It is done.")];
    let ended = run(&world, turns, &["-n", "--max-turns", "1"]);
    insta::assert_snapshot!(told(&world, &ended), @"
stderr:
sealed for the check: tests/add.sh
>>> mend add
bash (<n>s)
  $ true
  (no output)

stopped by --max-turns
not tried: `sh tests/add.sh`
exit code 3
");
    let ended = run(&world, turns_of_two(), &["-n", "--max-checks", "1"]);
    insta::assert_snapshot!(told(&world, &ended), @"
stdout:
It is done.
stderr:
sealed for the check: tests/add.sh
>>> mend add
claimed, but `sh tests/add.sh` did not pass: exit 1, in <n> s, output in <project>/.ah/<id>.out/check-1
exit code 3
");
}

fn turns_of_two() -> [Turn; 2] {
    [says("It is done."), says("Still.")]
}

#[test]
fn a_changed_test_counts_with_the_old_one_and_is_named() {
    let world = world();
    let turns = [
        bash("sed -i 's/-/+/' add.sh; echo '[ \"$(add 1 1)\" = 2 ]' >> tests/add.sh"),
        says("Done."),
    ];
    let ended = run(&world, turns, &JSON);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let verification = &result["verification"];
    assert_eq!(verification["evidence"], "verified", "{verification}");
    let changed = &verification["changed"][0];
    assert_eq!(changed["path"], "tests/add.sh");
    let diff = changed["diff"].as_str().unwrap();
    assert!(diff.contains("+[ \"$(add 1 1)\" = 2 ]"), "{diff}");
    let output = verification["output"].as_str().unwrap();
    assert!(std::path::Path::new(output).is_file(), "{output}");
}

#[test]
fn without_a_check_nothing_is_called_verified() {
    let world = World::new();
    let model = world.scenario("s", [says("It is done.")]);
    for format in ["text", "json", "stream-json"] {
        let words = ["-p", "--verbose", "--output-format", format, "-m", &model];
        let ended = world.ah(words.into_iter().chain(["go"])).run();
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!all.contains("verif"), "{all}");
    }
}

/// Hosts of the SDKs are told of it as of a goal: what is left to do, and that nothing is.
#[test]
fn hosts_are_told_of_a_goal() {
    let world = world();
    let turns = [
        says("It is done."),
        bash("sed -i 's/-/+/' add.sh"),
        says("Now it is."),
    ];
    let stream = ["--verbose", "--output-format", "stream-json"];
    let arguments: Vec<_> = JSON[..2].iter().copied().chain(stream).collect();
    let ended = run(&world, turns, &arguments);
    let goals = ended.stdout.lines().filter_map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        (line["type"] == "active_goal").then(|| line["value"].take())
    });
    let goals: Vec<_> = goals.collect();
    let [open, met] = goals.as_slice() else {
        panic!("{goals:?}")
    };
    assert_eq!(open["condition"], CHECK);
    assert_eq!(open["iterations"], 1);
    assert_eq!(open["last_reason"], "exit 1");
    assert!(open["set_at"].as_i64() > Some(0), "{open}");
    assert!(met.is_null(), "{met}");
}

/// With a real protocol: as many requests, and at most a tenth more bytes.
#[test]
fn an_honest_run_costs_at_most_a_tenth_more() {
    let cost = |options: &[&str]| {
        let world = world();
        let server = Server::new([bash("sed -i 's/-/+/' add.sh"), says("Done.")]);
        let words = options.iter().copied().chain(["mend add"]);
        world.asking(&server, words).run().expect(0);
        let requests = server.requests();
        let bytes = requests.iter().map(|it| it.body.to_string().len());
        (requests.len(), bytes.sum::<usize>())
    };
    let (with, without) = (cost(&["--until", CHECK]), cost(&[]));
    assert_eq!(with.0, without.0);
    assert!(with.1 * 10 <= without.1 * 11, "{with:?} {without:?}");
}

#[test]
fn an_honest_run_needs_no_more_requests() {
    let mend = || [bash("sed -i 's/-/+/' add.sh"), says("Done.")];
    let (with, without) = (world(), world());
    let ended = run(&with, mend(), &JSON);
    let checked: Value = serde_json::from_str(&ended.stdout).unwrap();
    let model = without.scenario("s", mend());
    let words = JSON.into_iter().chain(["-m", &model, "mend add"]);
    let unchecked: Value = serde_json::from_str(&without.ah(words).run().stdout).unwrap();
    assert_eq!(checked["num_turns"], unchecked["num_turns"]);
    assert_eq!(checked["verification"]["evidence"], "verified");
}
