//! The official Agent SDKs, in Python and TypeScript, with our binary in the place of the program that they bring: port
//! 12 h.
//!
//! Two kinds of suite run on them. Our own cases stand in `interop/sdk` and run wherever the SDKs can be installed, among
//! them the examples that the Python SDK brings in its sources. The conformance suites are not part of the repository: they
//! are run from `../shared/conformance`, and left out by name where that folder is not. What of them cannot pass yet is
//! listed with its reason in `interop/sdk/second-half.txt`; whatever else fails is a failure, and so is a listed test that
//! passes, so that the list can only shrink.

mod outcomes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use self::outcomes::{Expected, Outcomes};
use super::cache;
use crate::workspace::{built, in_ci, root, run};

/// The program that the SDKs start; ours where it is not set.
const BINARY: &str = "AGENT_CLI";
const PINS: [&str; 4] = [
    "package.json",
    "package-lock.json",
    "requirements.txt",
    "sdk.txt",
];
/// The sources of the Python SDK, in the folder where both are installed.
const SOURCES: &str = "sources";
/// The suites that are run from the folder of shared material.
const CONFORMANCE: &str = "../shared/conformance";

/// Where the SDKs are installed.
pub struct Sdks(PathBuf);

/// Installs the SDKs where they are not yet, without the programs that they bring.
pub fn install() -> Result<Sdks> {
    let interop = folder();
    let python = cache::python_version()?;
    let mut pins = vec![python.into_bytes(), cache::node_version()?.into_bytes()];
    pins.extend(cache::read(&interop, &PINS)?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    let folder = cache::installed("sdk", &pins, |folder| {
        let python = folder.join("python");
        cache::install_python(&python, &interop.join("requirements.txt"))?;
        install_sources(folder, &interop.join("sdk.txt"))
            .map_err(|_| anyhow!("pip could not install the SDK from its sources"))?;
        // The programs are optional packages, one for each platform.
        cache::install_node(folder, &interop, &["--omit=optional"])
    })?;
    Ok(Sdks(folder))
}

/// Installs the Python SDK from its sources, and leaves them in `folder`, since its examples are among them. Its wheels
/// carry a program for each platform. The sources do not, and the builder is pinned with the rest.
fn install_sources(folder: &Path, pin: &Path) -> Result<()> {
    let sources = folder.join(SOURCES);
    let python = folder.join("python/bin/python");
    let pip = |task: &str| {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", task, "--quiet", "--require-hashes"])
            .args(["--no-deps", "--no-build-isolation", "--no-binary"])
            .args(["claude-agent-sdk", "--requirement"])
            .arg(pin);
        pip
    };
    run(pip("download").arg("--dest").arg(&sources))?;
    run(pip("install")
        .arg("--no-index")
        .arg("--find-links")
        .arg(&sources))?;
    let archive = std::fs::read_dir(&sources)?.next();
    let archive = archive.context("pip has left nothing")??.path();
    run(Command::new("tar")
        .args(["--extract", "--gzip", "--strip-components=1"])
        .arg("--directory")
        .arg(&sources)
        .arg("--file")
        .arg(archive))
}

/// Runs our own cases and the conformance suites; gives what had to be left out.
pub fn test(sdks: &Sdks) -> Result<Option<String>> {
    let foreign = std::env::var_os(BINARY).map(PathBuf::from);
    let binary = match &foreign {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("{BINARY}={}", path.display()))?,
        None => built("ah-cli", "ah", "dev")?,
    };
    let own = sdks.own_cases(&binary);
    if !root().join(CONFORMANCE).is_dir() {
        return own.map(|()| Some(format!("sdk conformance (no folder {CONFORMANCE})")));
    }
    let listed = match foreign {
        // What ours cannot do yet says nothing of another.
        Some(_) => Expected::default(),
        None => Expected::read(&folder().join("second-half.txt"))?,
    };
    let suites = sdks.conformance(&binary).and_then(|outcomes| {
        let judgement = outcomes.judge(&listed);
        println!("{judgement}");
        judgement.verdict()
    });
    own.and(suites).map(|()| None)
}

/// Runs these suites and no others; what is left out is said, and is a failure in CI.
pub fn test_alone(sdks: &Sdks) -> Result<()> {
    match test(sdks)? {
        Some(left_out) if in_ci() => bail!("left out, though CI is set: {left_out}"),
        Some(left_out) => println!("left out: {left_out}"),
        None => {}
    }
    Ok(())
}

impl Sdks {
    /// The cases of `interop/sdk`, which all have to pass. They ask a model that our test kit plays.
    fn own_cases(&self, binary: &Path) -> Result<()> {
        let loopback = built("ah-testkit", "loopback", "dev")?;
        let mut python = self.pytest();
        python.current_dir(folder().join("python"));
        let mut node = cache::offline(&Command::new("node"));
        node.current_dir(folder().join("typescript")).args([
            "--test",
            "--test-concurrency=2",
            "cases.mjs",
            "agents.mjs",
        ]);
        for suite in [&mut python, &mut node] {
            suite
                .env(BINARY, binary)
                .env("AH_TEST_LOOPBACK", &loopback)
                .env("SDK_TS_DIR", &self.0)
                .env("SDK_EXAMPLES", self.0.join(SOURCES).join("examples"));
        }
        let python = run(&mut python);
        python.and(run(&mut node))
    }

    /// What became of each test of the conformance suites.
    fn conformance(&self, binary: &Path) -> Result<Outcomes> {
        let suites = root().join(CONFORMANCE).canonicalize()?;
        let mut python = self.pytest();
        // One line at the end for each that passed, failed, broke or was skipped.
        python
            .current_dir(suites.join("conformance_py"))
            .args(["-rpfEs", "--tb=short"]);
        let mut node = cache::offline(&Command::new("node"));
        node.current_dir(suites.join("conformance_ts"))
            .arg("run.mjs");
        let mut outcomes = Outcomes::default();
        for (suite, read) in [
            (
                &mut python,
                Outcomes::read_pytest as fn(&mut Outcomes, &str),
            ),
            (&mut node, Outcomes::read_node),
        ] {
            suite.env(BINARY, binary).env("SDK_TS_DIR", &self.0);
            each_line(suite, |line| read(&mut outcomes, line))?;
        }
        Ok(outcomes)
    }

    /// pytest, two tests at once, leaving nothing behind in the folder of the tests.
    fn pytest(&self) -> Command {
        let mut pytest = cache::offline(&Command::new(self.0.join("python/bin/python")));
        pytest
            .args(["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"])
            .env("PYTHONDONTWRITEBYTECODE", "1");
        pytest
    }
}

/// Runs a suite, showing its lines as they come. Whether all is well is decided by what they say.
fn each_line(suite: &mut Command, mut read: impl FnMut(&str)) -> Result<()> {
    let mut child = suite
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", suite.get_program().display()))?;
    let lines = child.stdout.take().context("its output is a pipe")?;
    for line in BufReader::new(lines).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        read(&line);
    }
    let status = child.wait()?;
    // One failure is as good as many: which it was is read from the lines.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("a conformance suite ended with {status}");
    }
    Ok(())
}

fn folder() -> PathBuf {
    root().join("interop/sdk")
}
