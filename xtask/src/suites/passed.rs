//! What passed is not run again while nothing that it depends on has changed.
//!
//! The state of a suite is a hash of whatever may decide its outcome: programs, files, tools of this machine, variables.
//! `target/passed` has a file for each suite with the state in which it last passed. In doubt a suite runs: states have
//! more in them than most suites look at, and in CI nothing is read or written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use super::cache;
use crate::workspace::{in_ci, output, root};

/// Programs of the system that suites start; Python and Node are known by their versions.
const TOOLS: [&str; 14] = [
    "bash",
    "bwrap",
    "cargo",
    "git",
    "make",
    "npm",
    "perl",
    "pgbouncer",
    "rustc",
    "setpriv",
    "sh",
    "strace",
    "tar",
    "tmux",
];
/// Variables that are others in each terminal, and that no test looks at.
const OF_THE_TERMINAL: [&str; 8] = [
    "_",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "WINDOWID",
];

/// The files that decide the outcome of a suite. Absent ones are none.
#[derive(Default)]
pub struct Inputs {
    /// Paths of files, mostly programs.
    pub files: Vec<PathBuf>,
    /// Folders and patterns of the repository, as git takes them. What git ignores is left out.
    pub own: Vec<String>,
    /// Folders beside the repository.
    pub beside: Vec<&'static str>,
}

/// Whatever decides the outcome of a suite, as a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State(String);

/// What passed in earlier runs.
pub struct Passed {
    /// `None` in CI, and in sources that are no checkout, where git knows no files.
    folder: Option<PathBuf>,
    /// Whether everything runs again.
    again: bool,
    /// What this machine has, for all states.
    machine: String,
    /// How long what has run took, in its order.
    times: RefCell<Vec<(String, Duration)>>,
}

impl Passed {
    pub fn new(again: bool) -> Self {
        let is_kept = !in_ci() && root().join(".git").exists();
        let folder = is_kept.then(|| root().join("target/passed"));
        Self::within(folder, again, machine())
    }

    fn within(folder: Option<PathBuf>, again: bool, machine: String) -> Self {
        Self {
            folder,
            again,
            machine,
            times: RefCell::default(),
        }
    }

    /// Runs `work`, and notes how long it takes.
    pub fn timed<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = work();
        let entry = (name.to_owned(), begin.elapsed());
        self.times.borrow_mut().push(entry);
        done
    }

    /// Returns how long everything took that has run, one line each, the longest first.
    pub fn times(&self) -> String {
        let mut times = self.times.borrow().clone();
        times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let line =
            |(name, time): &(String, Duration)| format!("{:>7.1} s  {name}\n", time.as_secs_f64());
        times.iter().map(line).collect()
    }

    /// Returns the state of a suite.
    pub fn state(&self, inputs: &Inputs) -> Result<State> {
        if self.folder.is_none() {
            return Ok(State(String::new()));
        }
        let mut files = inputs.files.clone();
        if !inputs.own.is_empty() {
            files.extend(files_below(&inputs.own)?);
        }
        for folder in &inputs.beside {
            files.extend(files_beside(&root().join(folder))?);
        }
        // Cargo names the programs that it has built in any order.
        files.sort();
        let mut listed = String::new();
        for path in files.iter().filter(|path| path.is_file()) {
            let path = path.to_str().context("a path is not in UTF-8")?;
            writeln!(listed, "{path}")?;
        }
        let mut hash = Sha256::new();
        for part in [&self.machine, &listed, &hashes(&listed)?] {
            hash.update(part);
            hash.update([0]);
        }
        let bytes = hash.finalize();
        Ok(State(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// Runs a suite, unless it passed in this state. Returns what it left out: such a suite runs again.
    pub fn unless(
        &self,
        name: &str,
        state: &State,
        test: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        let Some(folder) = &self.folder else {
            return self.timed(name, test);
        };
        let record = folder.join(name);
        if !self.again && fs::read_to_string(&record).is_ok_and(|passed| passed == state.0) {
            eprintln!("==> {name}: passed before, and is unchanged");
            return Ok(Vec::new());
        }
        let left_out = self.timed(name, test)?;
        if left_out.is_empty() {
            fs::create_dir_all(folder)?;
            fs::write(&record, &state.0)
                .with_context(|| format!("writing {}", record.display()))?;
        }
        Ok(left_out)
    }
}

/// Returns the files of the repository below these paths, those not yet added included.
pub fn files_below(paths: &[String]) -> Result<Vec<PathBuf>> {
    let mut list = git();
    list.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ])
    .args(paths);
    let listed = output(&mut list)?;
    let paths = listed.split_terminator('\0');
    Ok(paths.map(|path| root().join(path)).collect())
}

/// Returns the files below a folder; none if there is no such folder.
fn files_beside(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_beside(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(root());
    command
}

/// Returns a hash in a line for each file of a list in lines. By git: it is there, and much faster than this program, which
/// is compiled without optimisation.
fn hashes(listed: &str) -> Result<String> {
    let mut hash = git()
        .args(["hash-object", "--no-filters", "--stdin-paths"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting git")?;
    let mut input = hash.stdin.take().context("no input")?;
    let output = std::thread::scope(|scope| {
        // It answers while it reads.
        scope.spawn(move || input.write_all(listed.as_bytes()));
        hash.wait_with_output()
    })?;
    ensure!(output.status.success(), "git could not hash the files");
    Ok(String::from_utf8(output.stdout)?)
}

/// Describes what this machine has that a suite may look at.
fn machine() -> String {
    let mut text = fs::read_to_string("/proc/version").unwrap_or_default();
    for version in [cache::python_version(), cache::node_version()] {
        text += &version.unwrap_or_default();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let tools = TOOLS.iter().filter_map(|name| found(name, &folders));
    for tool in tools.chain(super::postgres::servers()) {
        text += &identity(&tool);
    }
    for (name, value) in variables(std::env::vars_os()) {
        let _ = writeln!(text, "{}={}", name.display(), value.display());
    }
    text
}

/// Returns the variables that a test may look at.
fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
    let matters = |(name, _): &(OsString, OsString)| !OF_THE_TERMINAL.iter().any(|it| name == it);
    all.filter(matters).collect()
}

fn found(name: &str, folders: &OsString) -> Option<PathBuf> {
    let mut places = std::env::split_paths(folders).map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}

/// Returns a line that changes when a program is replaced.
fn identity(program: &Path) -> String {
    let path = program.canonicalize().unwrap_or_else(|_| program.into());
    let Ok(metadata) = path.metadata() else {
        return String::new();
    };
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let since = since.unwrap_or_default().as_nanos();
    format!("{} {} {since}\n", path.display(), metadata.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn passed(folder: &Path, machine: &str) -> Passed {
        Passed::within(Some(folder.join("passed")), false, machine.to_owned())
    }

    /// Whether the suite runs in a state.
    fn runs(passed: &Passed, state: &State) -> bool {
        let ran = Cell::new(false);
        let test = || {
            ran.set(true);
            Ok(Vec::new())
        };
        passed.unless("suite", state, test).unwrap();
        ran.get()
    }

    #[test]
    fn what_passed_runs_again_when_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let write = |text| fs::write(&file, text).unwrap();
        let other = folder.path().join("other");
        let inputs = Inputs {
            files: vec![file.clone(), other.clone()],
            ..Inputs::default()
        };
        write("one");
        let here = passed(folder.path(), "here");
        let state = || here.state(&inputs).unwrap();
        assert!(runs(&here, &state()));
        assert!(!runs(&here, &state()));
        write("two");
        assert!(runs(&here, &state()));
        fs::write(&other, "").unwrap();
        assert!(runs(&here, &state()));
        assert!(!runs(&here, &state()));
        let turned = Inputs {
            files: vec![other, file.clone()],
            ..Inputs::default()
        };
        assert!(!runs(&here, &here.state(&turned).unwrap()));
        let there = passed(folder.path(), "there");
        assert!(runs(&there, &there.state(&inputs).unwrap()));
    }

    #[test]
    fn everything_runs_in_ci_and_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let here = passed(folder.path(), "");
        let state = here.state(&Inputs::default()).unwrap();
        assert!(runs(&here, &state) && !runs(&here, &state));
        let again = Passed {
            again: true,
            ..passed(folder.path(), "")
        };
        assert!(runs(&again, &state) && runs(&again, &state));
        let in_ci = Passed::within(None, false, String::new());
        assert!(runs(&in_ci, &state) && runs(&in_ci, &state));
    }

    #[test]
    fn what_failed_or_left_something_out_runs_again() {
        let folder = tempfile::tempdir().unwrap();
        let here = passed(folder.path(), "");
        let state = here.state(&Inputs::default()).unwrap();
        assert!(
            here.unless("suite", &state, || anyhow::bail!("failed"))
                .is_err()
        );
        let left_out = here.unless("suite", &state, || Ok(vec!["a part".to_owned()]));
        assert_eq!(left_out.unwrap(), ["a part"]);
        assert!(runs(&here, &state));
    }

    #[test]
    fn a_terminal_is_no_part_of_the_state() {
        let all = ["PATH", "SHLVL", "AH_TEST_MCP"].map(|name| (name.into(), "1".into()));
        let names: Vec<_> = variables(all.into_iter()).into_keys().collect();
        assert_eq!(names, ["AH_TEST_MCP", "PATH"]);
    }

    #[test]
    fn files_are_found_in_the_repository_and_beside_it() {
        let files = files_below(&["xtask/src/suites".to_owned()]).unwrap();
        assert!(files.contains(&root().join("xtask/src/suites/passed.rs")));
        let files = files_beside(&root().join("xtask/src")).unwrap();
        assert!(files.contains(&root().join("xtask/src/suites/passed.rs")));
        assert!(files_beside(&root().join("absent")).unwrap().is_empty());
    }
}
