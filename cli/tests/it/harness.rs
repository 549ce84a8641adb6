//! The tasks of harness-bench-fast: a scripted model gives the gold answer of each, and the verifier of the task is the check of the
//! run.
//!
//! `cargo xtask test harness` installs them and passes their Python; without it, this test passes without testing anything.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use ah_testkit::script::{says, scenario, uses};
use parking_lot::Mutex;
use serde_json::Value;

use crate::support::binary::World;

/// Prepares and judges the tasks.
const GOLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../interop/harness/gold.py");

/// The task whose answer changes a file that agents obey: the sandbox protects it, and says how a user allows it.
const PROTECTED: &str = "task_349_adv_malformed_skill_frontmatter";
/// How it says so, where the call is answered.
const HINT: &str =
    "the sandbox protects it; the user can change it, or allow it with `--no-sandbox`";

/// The tasks, and what commands have to see of this machine to judge them.
struct Harness {
    python: PathBuf,
    /// The program [`GOLD`] without `..`, which leads nowhere in a sandbox.
    gold: String,
    /// Options that let a sandboxed check see the Python.
    seen: Vec<String>,
}

impl Harness {
    fn of(python: PathBuf) -> Self {
        let gold = Path::new(GOLD).canonicalize().unwrap();
        let gold = gold.into_os_string().into_string().unwrap();
        let prefixes = "import sys; print(sys.prefix); print(sys.base_prefix)";
        let prefixes = said(&python, &["-c", prefixes]);
        let prefixes = prefixes.lines().map(|prefix| format!("{prefix}:rx"));
        let seen = prefixes.chain([format!("{gold}:r")]);
        Self {
            seen: seen.flat_map(|it| ["--unveil".to_owned(), it]).collect(),
            python,
            gold,
        }
    }

    /// Plays a task; returns what is wrong with its end, if anything is.
    fn play(&self, task: &str, is_confined: bool) -> Option<String> {
        let world = World::new();
        let project = world.project();
        let prepared = said(&self.python, &[GOLD, "prepare", task, project.to_str()?]);
        let prepared: Value = serde_json::from_str(&prepared).unwrap();
        let calls = prepared["calls"].as_array()?.iter();
        let turns = calls.map(|call| uses(call["tool"].as_str().unwrap(), call["input"].clone()));
        // Beside the project, where no verifier looks.
        let script = world.home().join("gold.json");
        let turns = scenario(turns.chain([says("Done.")]));
        fs::write(&script, serde_json::to_string(&turns).unwrap()).unwrap();
        let model = format!("script:{}", script.display());
        let check = format!("{} {} verify {task}", self.python.display(), self.gold);
        let mut words = vec!["-p", "--output-format", "json", "-m", &model];
        words.extend(["--dangerously-skip-permissions", "--until", &check]);
        // The workspace is the work, and nothing of it the check.
        words.extend(["--seal", "!**", "--max-checks", "1"]);
        match is_confined {
            true => words.extend(
                ["--sandbox"]
                    .into_iter()
                    .chain(self.seen.iter().map(String::as_str)),
            ),
            false => words.push("--no-sandbox"),
        }
        words.push(prepared["prompt"].as_str()?);
        let ended = world.as_typed(words).run();
        let result: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        let is_verified = result["verification"]["evidence"] == "verified";
        let output = result["verification"]["output"]
            .as_str()
            .unwrap_or_default();
        let said = fs::read_to_string(output).unwrap_or_default();
        (!is_verified || ended.code != Some(0)).then(|| {
            let session = world.ah(["export", "--format", "md"]).run().stdout;
            let verification = &result["verification"];
            format!("{task}: {verification}{said}{}{session}", ended.stderr)
        })
    }
}

#[test]
fn gold_answers_are_verified_without_the_sandbox() {
    all_are_verified(false);
}

#[test]
fn gold_answers_are_verified_in_the_sandbox() {
    all_are_verified(true);
}

fn all_are_verified(is_confined: bool) {
    let Some(python) = env::var_os("AH_TEST_HARNESS") else {
        return;
    };
    let harness = Harness::of(python.into());
    let tasks = said(&harness.python, &[GOLD, "list"]);
    let waiting = Mutex::new(tasks.lines());
    let wrong = Mutex::new(Vec::new());
    let next = || waiting.lock().next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(task) = next() {
                    let found = harness.play(task, is_confined);
                    wrong.lock().extend(found);
                }
            });
        }
    });
    let wrong: Vec<String> = wrong.into_inner();
    let is_protected = |it: &String| is_confined && it.starts_with(PROTECTED);
    let (protected, wrong): (Vec<_>, Vec<_>) = wrong.into_iter().partition(is_protected);
    if is_confined {
        assert!(
            protected.len() == 1 && protected[0].contains(HINT),
            "{protected:?}"
        );
    }
    assert_eq!(tasks.lines().count(), 351);
    assert!(
        wrong.is_empty(),
        "{} of 351: {}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns what a program prints.
fn said(program: &Path, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}
