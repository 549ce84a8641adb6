//! A machine without user namespaces, as many containers are: simulated by a namespace in which no other can be
//! created.

use std::fs;

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::support::binary::{Ah, World};

/// Runs the program in there.
const SCRIPT: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";

/// Whether even this namespace cannot be created; prints that the tests are skipped.
#[expect(clippy::print_stderr, reason = "what is left out is named")]
fn is_impossible() -> bool {
    let world = World::new();
    let there = there(world.ah(["--version"])).run();
    if there.code == Some(0) {
        return false;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "no namespace, though CI is set: {}",
        there.stderr
    );
    eprintln!(
        "left out, since there are no user namespaces here: {}",
        there.stderr
    );
    true
}

fn there(ah: Ah) -> Ah {
    ah.through("unshare", ["-U", "-r", "sh", "-c", SCRIPT])
}

/// A model that reads a file, tries to read a secret in the home, and to write a file in the project.
fn curious(world: &World) -> String {
    let secret = world.home().join("secret");
    fs::write(&secret, "canary").unwrap();
    world.write("input", "known");
    let command = format!("cat {}; touch made", secret.display());
    let turns = [
        uses("read", json!({ "path": "input" })),
        uses("bash", json!({ "command": command })),
        says("Done."),
    ];
    world.scenario("curious", turns)
}

#[test]
fn a_run_without_a_person_only_reads_and_says_what_to_do() {
    if is_impossible() {
        return;
    }
    let world = World::new();
    let model = curious(&world);
    let ended = there(world.as_typed(["-m", &model, "go"])).run().expect(0);
    assert!(!world.file("made").exists(), "{}", ended.stderr);
    let lines: Vec<_> = ended.stderr.lines().collect();
    let lines: Vec<_> = { lines.iter() }
        .filter(|line| line.contains("so this run is read-only"))
        .collect();
    let [line] = lines[..] else {
        panic!("one line was expected: {}", ended.stderr);
    };
    assert!(line.contains("create a user namespace"), "{line}");
    assert!(
        line.contains("sudo sysctl user.max_user_namespaces="),
        "{line}"
    );
}

#[test]
fn a_person_is_asked_about_each_command() {
    if is_impossible() {
        return;
    }
    for (typed, is_made) in [("y\n", true), ("n\n", false)] {
        let world = World::new();
        let model = curious(&world);
        let asked = there(world.as_typed(["-m", &model, "go"]));
        let ended = asked.at_terminal().stdin(typed).run().expect(0);
        assert_eq!(world.file("made").exists(), is_made, "{}", ended.stderr);
        let stderr = ended.stderr.replace("\r\n", " ").replace('\n', " ");
        assert!(
            stderr.contains("so ah asks before each one"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn whoever_insists_gets_no_run_but_the_lesser_tier_by_its_name() {
    if is_impossible() {
        return;
    }
    for (options, code, is_made) in [
        (&["--sandbox"][..], 78, false),
        (&["--sandbox=full"], 78, false),
        (&["--sandbox=landlock"], 0, true),
    ] {
        let world = World::new();
        let model = curious(&world);
        let arguments = [&["-m", &model], options, &["go"]].concat();
        let ended = there(world.as_typed(arguments)).run();
        assert_eq!(ended.code, Some(code), "{options:?}: {}", ended.stderr);
        assert_eq!(
            world.file("made").exists(),
            is_made,
            "{options:?}: {}",
            ended.stderr
        );
        assert!(
            !ended.stderr.contains("canary"),
            "{options:?}: {}",
            ended.stderr
        );
        let is_told = ended.stderr.contains("`ah sandbox check` shows details");
        assert_eq!(is_told, code == 78, "{options:?}: {}", ended.stderr);
    }
    let world = World::new();
    let exec = there(world.ah(["sandbox", "exec", "--", "touch", "made"])).run();
    assert_eq!(exec.code, Some(78), "{}", exec.stderr);
    assert!(!world.file("made").exists());
    let lesser = [
        "sandbox", "exec", "--tier", "landlock", "--", "touch", "made",
    ];
    there(world.ah(lesser)).run().expect(0);
    assert!(world.file("made").exists());
    let check = there(world.ah(["sandbox", "check"])).run();
    assert_eq!(check.code, Some(78), "{}{}", check.stdout, check.stderr);
    assert!(
        check
            .stdout
            .contains("sudo sysctl user.max_user_namespaces="),
        "{}",
        check.stdout
    );
}

/// Deny rules hold for what programs do only where the kernel withholds files: where it cannot, a run says so at its start.
#[test]
fn a_run_says_once_that_deny_rules_are_not_kept_by_the_kernel() {
    if is_impossible() {
        return;
    }
    let told = "deny rules match what command lines name, not what their programs do";
    let free = ["--no-sandbox", "--permission-mode", "acceptEdits"];
    for (options, is_here, is_told) in [
        (&["--disallowed-tools", "Read(.env)"][..], false, true),
        (&["--disallowed-tools", "Bash(curl:*)"], false, true),
        (&["--disallowed-tools", "Read(.env)"], true, false),
        (&["--disallowed-tools", "WebFetch"], false, false),
        (&[], false, false),
    ] {
        let world = World::new();
        let model = world.scenario("s", [says("Done.")]);
        let arguments = [&["-m", &model][..], &free, options, &["--", "go"]].concat();
        let ah = world.as_typed(arguments);
        let ended = if is_here { ah } else { there(ah) }.run().expect(0);
        let count = ended.stderr.matches(told).count();
        assert_eq!(count, usize::from(is_told), "{options:?}: {}", ended.stderr);
    }
}
