//! Sessions that are continued: what was sealed first counts, and a check needs no prompt.

use std::fs;

use ah_testkit::script::says;

use super::{CHECK, bash, run, told, world};
use crate::support::binary::{Ended, World};

/// Continues the session with these turns and arguments.
fn again(
    world: &World,
    scenario: &str,
    turns: impl IntoIterator<Item = ah_provider::script::format::Turn>,
    arguments: &[&str],
) -> Ended {
    let model = world.scenario(scenario, turns);
    let words = ["-c", "-m", &model, "--until", CHECK].into_iter();
    world
        .ah(words.chain(arguments.iter().copied()))
        .run()
        .without_panic()
}

fn last(ended: &Ended) -> &str {
    ended.stderr.lines().last().unwrap_or_default()
}

/// What a model leaves behind is not what is sealed when its session goes on, in another process.
#[test]
fn what_was_sealed_first_counts() {
    let world = world();
    // The last file would be one that the check is made of, were it not the run that names it.
    let lie = "echo exit 0 > tests/add.sh; mkdir tests/tools; echo exit 0 > tests/tools/new.sh; \
               echo 'x: tests/tools/new.sh' > Makefile";
    let ended = run(&world, [bash(lie), says("Done.")], &["--max-checks", "1"]);
    assert!(last(&ended).starts_with("claimed"), "{}", ended.stderr);
    let ended = again(
        &world,
        "lies",
        [says("Done.")],
        &["--max-checks", "1", "go on"],
    );
    let told = last(&ended);
    assert!(
        told.starts_with("claimed")
            && told.ends_with("changed by the run: tests/add.sh, Makefile, tests/tools/new.sh"),
        "{}",
        ended.stderr
    );
    // The user may say that what is there now counts.
    let ended = again(&world, "resealed", [says("Done.")], &["--reseal", "go on"]);
    assert!(last(&ended).starts_with("verified"), "{}", ended.stderr);
    let ended = again(&world, "kept", [says("Done.")], &["go on"]);
    let told = last(&ended);
    assert!(
        told.starts_with("verified") && !told.contains("changed by"),
        "{}",
        ended.stderr
    );
}

/// What a run has hidden from git is not hidden when its session goes on, in another process.
#[test]
fn what_git_ignored_first_counts() {
    for hide in [
        "echo hidden > .gitignore",
        "mkdir new; mv hidden new; echo '*' > new/.gitignore",
        "mkdir -p .git/info; echo hidden > .git/info/exclude",
    ] {
        let world = world();
        world.write("tests/add.sh", "! grep -rq --exclude-dir=tests FIXME .\n");
        world.write("add.sh", "FIXME");
        let hide = format!("git init -q .; mv add.sh hidden; {hide}");
        let arguments = ["--max-checks", "1"];
        let ended = run(&world, [bash(&hide), says("Done.")], &arguments);
        assert!(last(&ended).starts_with("claimed"), "{}", ended.stderr);
        let ended = again(&world, "again", [says("Done.")], &arguments);
        assert!(last(&ended).starts_with("claimed"), "{}", ended.stderr);
    }
}

/// A file that only a later command names is sealed as it is then; one that the run has made is not taken for a test.
#[test]
fn another_command_seals_what_it_names() {
    let world = world();
    world.write("other.txt", "1");
    run(&world, [bash("sed -i 's/-/+/' add.sh"), says("Done.")], &[]);
    let model = world.scenario("other", [bash("echo 2 > other.txt"), says("Done.")]);
    let check = "grep -q 2 other.txt";
    let words = [
        "-c",
        "-m",
        &model,
        "--until",
        check,
        "--max-checks",
        "1",
        "do it",
    ];
    let ended = world.ah(words).run();
    assert!(
        last(&ended).ends_with("changed by the run: other.txt"),
        "{}",
        ended.stderr
    );
}

/// What is sealed goes with the session.
#[test]
fn what_is_sealed_is_removed_with_the_session() {
    let world = world();
    run(&world, [bash("sed -i 's/-/+/' add.sh"), says("Done.")], &[]);
    let seals = world.home().join(".ah/seals");
    let kept: Vec<_> = fs::read_dir(&seals).unwrap().flatten().collect();
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}")
    };
    let id = kept.file_name().into_string().unwrap();
    // Commands of the model do not see it.
    let look = format!("ls {} || cat {}", seals.display(), kept.path().display());
    let ended = again(&world, "looks", [bash(&look), says("Done.")], &["look"]);
    assert!(!ended.stderr.contains("ah seals"), "{}", ended.stderr);
    assert!(kept.path().exists());
    world.ah(["sessions", "rm", &id]).run().expect(0);
    assert_eq!(fs::read_dir(&seals).unwrap().count(), 0);
}

/// Without a prompt the check alone runs; the model is asked only if it does not pass, and then as often as in a new run.
#[test]
fn a_check_needs_no_prompt() {
    let world = world();
    run(&world, [says("Done.")], &["--max-checks", "1"]);
    let mend = [bash("sed -i 's/-/+/' add.sh"), says("Now it is.")];
    insta::assert_snapshot!(told(&world, &again(&world, "mends", mend, &[])), @"
stdout:
Now it is.
stderr:
sealed for the check: tests/add.sh
`sh tests/add.sh` did not pass (exit 1); 9 checks left
bash (<n>s)
  $ sed -i 's/-/+/' add.sh
  (no output)

verified: `sh tests/add.sh` passed in <n> s (exit 0), output in <project>/.ah/<id>.out/check-3
exit code 0
");
    insta::assert_snapshot!(told(&world, &again(&world, "unasked", [says("?")], &[])), @"
stderr:
sealed for the check: tests/add.sh
verified: `sh tests/add.sh` passed in <n> s (exit 0), output in <project>/.ah/<id>.out/check-4
exit code 0
");
    // A program reads the same.
    let ended = again(&world, "unasked", [says("?")], &super::JSON);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["verification"]["evidence"], "verified", "{result}");
    assert_eq!(result["duration_api_ms"], 0, "{result}");
}

/// A setting is a check of each run; an option goes before it, and an empty one is none.
#[test]
fn a_setting_names_the_check() {
    let world = world();
    let settings = r#"{"until": "sh tests/add.sh", "maxChecks": 1, "checkTimeout": 9.5}"#;
    fs::create_dir_all(world.home().join(".ah")).unwrap();
    fs::write(world.home().join(".ah/settings.json"), settings).unwrap();
    let model = world.scenario("s", [says("Done.")]);
    for (arguments, expected) in [
        (&[][..], "claimed, but `sh tests/add.sh` did not pass"),
        (&["--until", "true"], "verified: `true` passed"),
        (&["--settings", r#"{"until": ""}"#], ">>> go"),
    ] {
        let words = ["-n", "-m", &model].into_iter();
        let words = words.chain(arguments.iter().copied()).chain(["go"]);
        let ended = world.ah(words).run();
        assert!(last(&ended).starts_with(expected), "{}", ended.stderr);
    }
    // A project that is not trusted names none.
    let other = World::new();
    other.write(".ah/settings.json", settings);
    let model = other.scenario("s", [says("Done.")]);
    let ended = other.ah(["-m", &model, "go"]).run();
    assert!(!ended.stderr.contains("claimed"), "{}", ended.stderr);
}
