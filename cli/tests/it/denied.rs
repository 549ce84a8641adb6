//! Ways around rules, each with a control: it succeeds where no rule forbids it, and with the rule it does not.

mod generated;
mod kinds;
mod programs;

use std::process::Command;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::sandbox::{is_missing, stored_results};
use crate::support::binary::World;

/// What a denied file contains.
const CANARY: &str = "CANARY-in-a-denied-file";

/// Commands that show the content of `s/key`.
const READING: &[&str] = &[
    // By name.
    "cat s/key",
    "cat ./s/../s/key",
    "cat s//key",
    "cat \"$PWD/s/key\"",
    "cat 's'/k\"e\"y",
    "cat s/k\\ey",
    "head -c 99 s/key",
    "grep -n . s/key",
    "grep -f s/key s/key",
    "sed -n p s/key",
    "awk 1 s/key",
    "dd if=s/key status=none",
    "od -c -An s/key | tr -d ' \\n'",
    "base64 s/key | base64 -d",
    "diff s/key /dev/null",
    "diff --from-file=s/key /dev/null",
    "cp s/key copy && cat copy",
    "ln s/key hard && cat hard",
    "ln -sf s/key soft; cat soft",
    "git diff --no-index /dev/null s/key",
    "tar cf - s/key | tar xOf -",
    "mapfile -t a < s/key; echo \"${a[0]}\"",
    // By redirection.
    "cat < s/key",
    "echo $(< s/key)",
    "while read line; do echo $line; done < s/key",
    "exec 3< s/key; cat <&3",
    "cat <<< \"$(cat s/key)\"",
    // By a pattern.
    "cat s/*",
    "cat s/k?y",
    "cat s/[k]ey",
    "cat ?/key",
    "cat */key",
    "cat s/{key,}",
    "cat ./*/k*",
    // By a value of the run.
    "f=s/key; cat $f",
    "for f in s/*; do cat \"$f\"; done",
    "cat $(echo s/key)",
    "cat \"$(printf %s s/key)\"",
    "set -- s/key; cat \"$1\"",
    "echo s/key | xargs cat",
    "find . -name key -exec cat {} +",
    "find s -type f -print0 | xargs -0 cat",
    // From another working directory.
    "cd s && cat key",
    "cd s && cat key > ../leak; cat ../leak",
    "cd s; cat < key",
    "pushd s >/dev/null; cat key",
    "cd deep/down && cd ../../s && cat key",
    "cd deep && cat ../s/key",
    "cd link/.. && cat s/key",
    "(cd s; cat key)",
    "builtin cd s && cat key",
    "CDPATH=. ; cd s >/dev/null && cat key",
    "HOME=$PWD/s; cat ~/key",
    "cd s; cat ~+/key",
    "git -C s diff --no-index /dev/null key",
    "tar -C s -cf - key | tar xOf -",
    // With a whole folder.
    "grep -r CANARY .",
    "grep -rh CANARY",
    "cp -r . ../other && cat ../other/s/key",
    "tar cf - . | tar xOf - ./s/key",
    "diff -rN s deep",
    // In lines that are not understood, and through other programs.
    "[[ -f s/key ]] && cat s/key",
    "case x in *) cat s/key;; esac",
    "f() { cat s/key; }; f",
    "bash -c 'cat s/key'",
    "eval 'cat s/key'",
    "env cat s/key",
    "timeout 5 cat s/key",
    ". s/key 2>&1",
    "source s/key 2>&1",
    "setarch $(uname -m) cat s/key",
    "curl -s file://$PWD/s/key || cat s/key",
];

/// Rules that deny reading `s/key`.
const RULES: &[&str] = &[
    "Read(s/**)",
    "Read(./s/key)",
    "Read(key)",
    "Read(s)",
    "Read(k*)",
];

fn world() -> World {
    let world = World::new();
    world.write("s/key", format!("{CANARY}\n"));
    world.write("deep/down/other", "x");
    std::os::unix::fs::symlink("deep/down", world.file("link")).unwrap();
    world
}

/// Calls of tools other than `bash` that show the content.
fn calls(world: &World) -> Vec<Turn> {
    let key = world.file("s/key");
    let grep = |input| uses("Grep", input);
    vec![
        uses("Read", json!({"file_path": key})),
        grep(json!({"pattern": "CANARY", "output_mode": "content"})),
        grep(json!({"pattern": "CANARY", "path": ".", "output_mode": "content"})),
        grep(json!({"pattern": "CANARY", "path": "s", "output_mode": "content"})),
        grep(json!({"pattern": "CANARY", "path": "s/key", "output_mode": "content"})),
        grep(json!({"pattern": "CANARY", "glob": "key", "output_mode": "content"})),
        grep(json!({"pattern": "C.*", "glob": "s/*", "output_mode": "content", "-o": true})),
        grep(json!({"pattern": "x", "path": "..", "output_mode": "content", "-C": 9})),
        uses(
            "Edit",
            json!({"file_path": key, "old_string": "CANARY-in", "new_string": "CANARY-in"}),
        ),
        uses(
            "Edit",
            json!({"file_path": key, "old_string": "CANARY-im a denied", "new_string": "x"}),
        ),
    ]
}

/// Runs `turns` and returns what the model was given.
fn results(world: &World, options: &[&str], turns: Vec<Turn>) -> Vec<String> {
    let model = world.scenario("s", turns.into_iter().chain([says("Done.")]));
    let arguments = [options, &["-m", &model, "--", "go"]].concat();
    world.as_typed(arguments).run().expect(0);
    stored_results(world)
}

#[test]
fn each_way_of_reading_works_where_nothing_is_denied() {
    for line in READING {
        let world = world();
        let ended = Command::new("bash")
            .args(["-c", line])
            .current_dir(world.project())
            .env("HOME", world.home())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&ended.stdout);
        assert!(shown.contains(CANARY), "{line}: {ended:?}");
    }
    let world = world();
    let free = ["-n", "--no-sandbox", "--dangerously-skip-permissions"];
    let turns = calls(&world);
    let found = results(&world, &free, turns);
    let shown = found.iter().filter(|text| text.contains(CANARY)).count();
    assert!(shown >= 7, "{found:#?}");
}

#[test]
fn no_content_of_a_denied_file_is_in_a_result() {
    let bypass = ["-n", "--no-sandbox", "--dangerously-skip-permissions"];
    let confined = ["-n", "--sandbox"];
    for rule in RULES {
        for manner in [&bypass[..], &confined] {
            if manner == confined && is_missing() {
                continue;
            }
            let world = world();
            let commands = { READING.iter() }.map(|line| uses("bash", json!({"command": line})));
            let turns: Vec<_> = commands.chain(calls(&world)).collect();
            let deny = ["--disallowed-tools", rule];
            let options = [manner, &deny].concat();
            let found = results(&world, &options, turns.clone());
            assert_eq!(found.len(), turns.len());
            for (turn, text) in turns.iter().zip(found) {
                assert!(!text.contains(CANARY), "{rule} {manner:?} {turn:?}: {text}");
            }
        }
    }
}

#[test]
fn other_files_are_read_where_one_is_denied() {
    let world = world();
    world.write("a.txt", "apple\n");
    let lines = [
        "cat a.txt",
        "cat *.txt",
        "grep -n apple *.txt",
        "cd deep && cat ../a.txt",
        "cd deep/down && cat other > ../out; cat ../out",
        "ls s*",
        "echo $HOME",
        "git log --oneline -3 2>&1 || true",
        "find . -name '*.txt'",
        "wc -l a.txt",
        "sort a.txt | uniq -c",
    ];
    let turns: Vec<_> = { lines.iter() }
        .map(|line| uses("bash", json!({"command": line})))
        .chain([uses(
            "Grep",
            json!({"pattern": "apple|CANARY", "output_mode": "content"}),
        )])
        .collect();
    let options = ["-n", "--no-sandbox", "--dangerously-skip-permissions"];
    let deny = ["--disallowed-tools", "Read(s/key)"];
    let found = results(&world, &[&options[..], &deny].concat(), turns);
    for (line, text) in lines.iter().zip(&found) {
        assert!(!text.contains("denied"), "{line}: {text}");
    }
    let last = found.last().unwrap();
    // The scenario, which is found too, names the words as well.
    let end = "\n[1 left out: permission rules hide them]";
    assert!(
        last.starts_with("a.txt:1:apple\n") && last.ends_with(end),
        "{last}"
    );
}
