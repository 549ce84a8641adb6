//! The tests of the workspace: those of `cargo test --workspace`, program by program, so that those that are unchanged need
//! not run again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::passed::{Inputs, Passed, State};
use crate::workspace::{cargo, output, root, run};

/// Files that tests of a crate read, beside those of its own folder. A test below finds what is missing.
const READ: [(&str, &[&str]); 6] = [
    // Manifests, because a test asks cargo for the tree of dependencies.
    (
        "cli",
        &[
            "docs",
            "contrib",
            "interop",
            "SECURITY.md",
            "Cargo.lock",
            "*Cargo.toml",
        ],
    ),
    ("config", &["docs"]),
    ("provider", &["docs"]),
    ("terminal", &["serve/src/page"]),
    ("testkit", &["http"]),
    ("xtask", &["."]),
];
/// Crates whose tests read the recordings of real models.
const RECORDINGS: [&str; 1] = ["provider"];
/// Files that suites outside of the workspace read.
const SUITES: [&str; 4] = ["docs", "contrib", "interop", ".github"];

/// What cargo built for the tests.
pub struct Own(Vec<Program>);

/// A program that cargo built.
struct Program {
    /// Folder of its crate, below the root.
    folder: String,
    name: String,
    path: PathBuf,
    is_test: bool,
}

/// Builds all tests, and the programs they start.
pub fn build() -> Result<Own> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--no-run"]);
    // Once for people, who see the errors of the compiler, and once for this program.
    run(&mut build)?;
    let messages = output(build.args(["--quiet", "--message-format=json"]))?;
    let programs = messages
        .lines()
        .filter_map(|line| program(line).transpose());
    Ok(Own(programs.collect::<Result<_>>()?))
}

/// Runs the tests; `everything` is the state of the whole repository.
pub fn test(own: &Own, passed: &Passed, everything: &State) -> Result<()> {
    for test in own.0.iter().filter(|program| program.is_test) {
        let state = passed.state(&own.inputs(test))?;
        let name = format!("{}-{}", test.folder, test.name);
        passed.unless(&name, &state, || test.run().map(|()| Vec::new()))?;
    }
    // Their programs are built anew each time, so they are one suite.
    let examples = || run(cargo().args(["test", "--workspace", "--doc"])).map(|()| Vec::new());
    passed.unless("documentation", everything, examples)?;
    Ok(())
}

impl Own {
    /// Returns what a test depends on.
    fn inputs(&self, test: &Program) -> Inputs {
        let of_crate = |program: &&Program| program.folder == test.folder && !program.is_test;
        let started = self.0.iter().filter(of_crate);
        let mut own = vec![format!("{}/", test.folder)];
        let read = READ.iter().filter(|(folder, _)| *folder == test.folder);
        own.extend(read.flat_map(|(_, paths)| paths.iter().map(|path| (*path).to_owned())));
        let reads_recordings = RECORDINGS.contains(&test.folder.as_str());
        Inputs {
            files: started
                .chain([test])
                .map(|program| program.path.clone())
                .collect(),
            own,
            beside: reads_recordings
                .then_some("../shared/recordings")
                .into_iter()
                .collect(),
        }
    }

    /// Returns the state of all suites that run programs of the workspace, or the tests of its command line.
    pub fn state_of_suites(&self, passed: &Passed) -> Result<State> {
        let is_run = |program: &&Program| !program.is_test || program.folder == "cli";
        passed.state(&Inputs {
            files: self
                .0
                .iter()
                .filter(is_run)
                .map(|it| it.path.clone())
                .collect(),
            own: SUITES.map(str::to_owned).into(),
            beside: vec!["../shared/conformance"],
        })
    }
}

/// Returns the inputs of a suite that builds for itself.
pub fn everything() -> Inputs {
    Inputs {
        own: vec![".".to_owned()],
        ..Inputs::default()
    }
}

impl Program {
    /// Runs the test as cargo does, but twice as many at once: many wait for a process or a disk.
    fn run(&self) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let folder = root().join(&self.folder);
        let mut test = std::process::Command::new(&self.path);
        test.current_dir(&folder)
            .env("CARGO", cargo().get_program())
            .env("CARGO_MANIFEST_DIR", &folder)
            .env("RUST_TEST_THREADS", (2 * cores).to_string());
        run(&mut test)
    }
}

/// Reads a line of cargo's messages; returns the program it is about, if any.
fn program(line: &str) -> Result<Option<Program>> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        manifest_path: Option<PathBuf>,
        target: Option<Target>,
        profile: Option<Profile>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let message: Message = serde_json::from_str(line).context("parsing a message of cargo")?;
    let (Some(path), Some(target), Some(profile)) =
        (message.executable, message.target, message.profile)
    else {
        return Ok(None);
    };
    let manifest = message.manifest_path.context("a program without a crate")?;
    let folder = manifest
        .parent()
        .and_then(|it| it.strip_prefix(root()).ok());
    let Some(folder) = folder.and_then(Path::to_str) else {
        bail!("{} is no crate of this workspace", manifest.display());
    };
    Ok(Some(Program {
        folder: folder.to_owned(),
        name: target.name,
        path,
        is_test: profile.test,
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::passed::files_below;
    use super::*;
    use crate::workspace::packages;

    /// Names of files and folders at the root that a source names from its crate's folder while it runs.
    fn named(source: &str) -> BTreeSet<&str> {
        let lines: Vec<&str> = source.lines().collect();
        let mut names = BTreeSet::new();
        for (at, line) in lines.iter().enumerate() {
            let window = match line {
                line if line.contains("MANIFEST_DIR") => at.saturating_sub(1)..at + 3,
                line if line.contains("(\"../") && line.contains("fs::read") => at..at + 1,
                _ => continue,
            };
            for line in &lines[window.start..window.end.min(lines.len())] {
                let names_of_line = line.split("../").skip(1);
                names.extend(names_of_line.filter_map(|it| it.split(['/', '"', ')']).next()));
            }
        }
        names.remove("");
        names
    }

    #[test]
    fn what_a_test_reads_of_other_crates_is_listed() {
        for package in packages().unwrap() {
            let folder = package.folder();
            let listed = READ.iter().find(|(crate_, _)| *crate_ == folder);
            let listed = listed.map_or(&[][..], |(_, paths)| paths);
            for path in files_below(&[format!("{folder}/*.rs")]).unwrap() {
                let source = fs::read_to_string(&path).unwrap_or_default();
                for name in named(&source) {
                    let is_listed = listed
                        .iter()
                        .any(|path| *path == "." || path.split('/').next() == Some(name));
                    let is_recordings = name == "shared" && RECORDINGS.contains(&folder.as_str());
                    assert!(
                        is_listed || is_recordings,
                        "{} reads `{name}`, which `READ` lacks",
                        path.display()
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_found_where_a_crate_reads_them() {
        let source = "
            let path = Path::new(env!(\"CARGO_MANIFEST_DIR\")).join(\"../docs/x.md\");
            //
            //
            let text = fs::read_to_string(\"../contrib/y\");
            let other = \"../z\";
        ";
        assert_eq!(Vec::from_iter(named(source)), ["contrib", "docs"]);
    }

    #[test]
    fn programs_are_read_from_cargos_messages() {
        let manifest = root().join("store/Cargo.toml");
        let line = serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": manifest, "executable": "/t/it-1",
            "target": {"name": "it"}, "profile": {"test": true},
        });
        let test = program(&line.to_string()).unwrap().unwrap();
        assert_eq!((test.folder.as_str(), test.name.as_str()), ("store", "it"));
        assert!(test.is_test);
        assert!(
            program(r#"{"reason": "build-finished"}"#)
                .unwrap()
                .is_none()
        );
    }
}
