//! The property behind the tables: whatever a rule denies, however the rule and the path are written, and whichever
//! tool is asked, no content of the file is in anything that a session stores.

use std::fs;
use std::path::Path;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use serde_json::{Value, json};

use super::CANARY;
use crate::sandbox::is_missing;
use crate::support::binary::World;
use crate::support::random::{Random, rounds};

const FOLDERS: [&str; 5] = ["s", "deep/in", "a b", "Ü", ".x"];
const FILES: [&str; 6] = ["key", ".env", "id.pem", "a b.txt", "note.ipynb", "-n"];
/// Commands with `F` for the file, `D` for its folder and `N` for its name.
const COMMANDS: [&str; 26] = [
    "cat -- F",
    "head -n 9 -- F",
    "tac -- F | tac",
    "grep -e . -- F",
    "sed -n p < F",
    "cat < F",
    "while read -r l; do echo \"$l\"; done < F",
    "mapfile -t a < F; echo \"${a[@]}\"",
    "f=F; cat -- \"$f\"",
    "cd D && cat -- N",
    "cd D; cat < ./N",
    "(cd D; cat ./*)",
    "pushd D > /dev/null; tac ./N",
    "cat D/*",
    "cat D/.[!.]* D/*",
    "for f in D/* D/.e*; do cat \"$f\"; done",
    "grep -r . D",
    "grep -rh .",
    "find D -type f -exec cat {} +",
    "find . -type f -print0 | xargs -0 cat",
    "tar cf - D | tar xOf -",
    "git diff --no-index /dev/null F",
    "bash -c \"cat -- F\"",
    "env timeout 5 cat -- F",
    "cp -- F copied && cat copied",
    "cp -r D other && cat other/*",
];

/// One element, by chance.
fn one<'a>(random: &mut Random, all: &[&'a str]) -> &'a str {
    all[random.below(all.len() as u64) as usize]
}

/// Ways to write a rule for a file.
fn rule(random: &mut Random, project: &Path, folder: &str, file: &str) -> String {
    let absolute = project.join(folder).join(file);
    let first = folder.split('/').next().unwrap();
    let all = [
        format!("{folder}/**"),
        format!("./{folder}/{file}"),
        format!("/{folder}/{file}"),
        format!(
            "//{}",
            absolute.display().to_string().trim_start_matches('/')
        ),
        format!("{folder}/*"),
        format!("{first}/**"),
        format!("**/{file}"),
        file.to_owned(),
        folder.to_owned(),
    ];
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    format!("Read({})", one(random, &all))
}

/// Ways to write the path of a file.
fn path(random: &mut Random, project: &Path, folder: &str, file: &str) -> String {
    let all = [
        format!("{folder}/{file}"),
        format!("./{folder}/{file}"),
        format!("{folder}//{file}"),
        format!("{folder}/../{folder}/{file}").replace("deep/in/../deep", "deep/in/../../deep"),
        format!("elsewhere/../{folder}/./{file}"),
        project.join(folder).join(file).display().to_string(),
        format!("folder-link/{file}"),
        "file-link".to_owned(),
    ];
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    one(random, &all).to_owned()
}

/// A call that would show the file.
fn call(random: &mut Random, project: &Path, folder: &str, file: &str) -> Turn {
    let name = path(random, project, folder, file);
    let quoted = |text: &str| match text.contains(['\'', ' ']) {
        true => format!("'{text}'"),
        false => text.to_owned(),
    };
    let (tool, input): (&str, Value) = match random.below(10) {
        0 => ("Read", json!({"file_path": name})),
        1 => ("Read", json!({"file_path": name, "offset": 1, "limit": 5})),
        2 => (
            "Grep",
            json!({"pattern": "C.N.RY", "output_mode": "content"}),
        ),
        3 => (
            "Grep",
            json!({"pattern": "C.N.RY", "path": name, "output_mode": "content"}),
        ),
        4 => (
            "Grep",
            json!({"pattern": "^", "path": folder, "output_mode": "content", "-C": 3}),
        ),
        5 => (
            "Edit",
            json!({"file_path": name, "old_string": "CANARX-im", "new_string": "x"}),
        ),
        _ => {
            let command = one(random, &COMMANDS);
            let command = command
                .replace('F', &quoted(&name))
                .replace('D', &quoted(folder));
            let command = command.replace('N', &quoted(file));
            ("bash", json!({"command": command, "timeout": 10_000}))
        }
    };
    uses(tool, input)
}

fn world(folder: &str, file: &str) -> World {
    let world = World::new();
    world.write(&format!("{folder}/{file}"), format!("{CANARY}\n"));
    world.write("elsewhere/x", "x");
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, world.file(name));
    link(folder, "folder-link").unwrap();
    link(&format!("{folder}/{file}"), "file-link").unwrap();
    world
}

/// Everything that the session has stored.
fn stored(world: &World) -> String {
    let database = world.database();
    let log = database.with_extension("db-wal");
    let bytes = [database, log].map(|path| fs::read(path).unwrap_or_default());
    String::from_utf8_lossy(&bytes.concat()).into_owned()
}

#[test]
fn nothing_of_a_denied_file_is_stored() {
    let mut random = Random::new();
    let manners = [
        &["-n", "--no-sandbox", "--dangerously-skip-permissions"][..],
        &["-n", "--sandbox"],
        &["-n", "--no-sandbox", "--permission-mode", "dontAsk"],
    ];
    let mut shown = 0;
    for round in 0..rounds("AH_TEST_DENIED", 6) {
        let manner = manners[round as usize % manners.len()];
        if manner.contains(&"--sandbox") && is_missing() {
            continue;
        }
        let (folder, file) = (one(&mut random, &FOLDERS), one(&mut random, &FILES));
        let plan: Vec<_> = {
            let world = world(folder, file);
            let rule = rule(&mut random, &world.project(), folder, file);
            let calls = (0..30).map(|_| call(&mut random, &world.project(), folder, file));
            let turns: Vec<_> = calls.chain([says("Done.")]).collect();
            let model = world.scenario("s", turns.clone());
            // A mention in the prompt is a way of reading, too.
            let prompt = format!("look at @{folder}/{file}");
            let common = ["-m", &model, "--disallowed-tools", &rule, "--", &prompt];
            let ended = world.as_typed([manner, &common].concat()).run().expect(0);
            let export = world.ah(["export"]).run();
            for text in [
                &stored(&world),
                &export.stdout,
                &ended.stdout,
                &ended.stderr,
            ] {
                assert!(
                    !text.contains(CANARY),
                    "{manner:?} {rule} {folder}/{file}: {text}"
                );
            }
            turns
        };
        // The control: without the rule, the same calls show it.
        let world = world(folder, file);
        let model = world.scenario("s", plan);
        let free = [
            "-n",
            "--no-sandbox",
            "--dangerously-skip-permissions",
            "-m",
            &model,
            "go",
        ];
        world.as_typed(free).run().expect(0);
        shown += usize::from(stored(&world).contains(CANARY));
    }
    assert!(shown > 0);
}
