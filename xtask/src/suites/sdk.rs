//! The official Agent SDKs in Python and TypeScript, with our binary in the place of the one they bundle.
//!
//! Two kinds of suites run on them. Our own cases are in `interop/sdk` and run wherever the SDKs can be installed; they
//! include the examples in the Python SDK's sources. The conformance suites are not part of the repository: they are run
//! from `../shared/conformance`, and reported as left out where that folder is missing. Their tests that cannot pass yet
//! are listed, each with its reason, in `interop/sdk/second-half.txt`; any other failure is an error, and so is a listed
//! test that passes, so that the list can only shrink.

mod outcomes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

use self::outcomes::{Expected, Outcomes};
use super::cache;
use crate::workspace::{COMMAND_LINE, built, in_ci, root, run};

/// Variable for the binary that the SDKs start; by default ours.
pub(super) const BINARY: &str = "AGENT_CLI";
const PINS: [&str; 4] = [
    "package.json",
    "package-lock.json",
    "requirements.txt",
    SOURCES_PIN,
];
/// The pinned Python SDK.
pub const SOURCES_PIN: &str = "sdk.txt";
/// Folder of the Python SDK's sources, below the one where both SDKs are installed.
const SOURCES: &str = "sources";
/// Folder of the conformance suites.
const CONFORMANCE: &str = "../shared/conformance";

/// Folder with the installed SDKs.
pub struct Sdks(PathBuf);

/// Installs the SDKs if necessary, without the binaries they bundle.
pub fn install() -> Result<Sdks> {
    let interop = folder();
    let python = cache::python_version()?;
    let mut pins = vec![python.into_bytes(), cache::node_version()?.into_bytes()];
    pins.extend(cache::read(&interop, &PINS)?);
    let pins: Vec<&[u8]> = pins.iter().map(Vec::as_slice).collect();
    let folder = cache::installed("sdk", &pins, |folder| {
        let python = folder.join("python");
        cache::install_python(&python, &interop.join("requirements.txt"))?;
        install_sources(folder, &interop.join(SOURCES_PIN))?;
        // The binaries are optional packages, one per platform.
        cache::install_node(folder, &interop, &["--omit=optional"])
    })?;
    Ok(Sdks(folder))
}

/// Installs the Python SDK that `pin` names from its sources into `folder/python`, since its wheels bundle a binary. The sources
/// stay in `folder`, since the examples are among them. The build backend is pinned with the other packages.
pub fn install_sources(folder: &Path, pin: &Path) -> Result<()> {
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
        .arg(&sources))
    .map_err(|_| anyhow!("pip could not install the SDK from its sources"))?;
    let archive = std::fs::read_dir(&sources)?.next();
    let archive = archive.context("pip downloaded no archive")??.path();
    run(Command::new("tar")
        .args(["--extract", "--gzip", "--strip-components=1"])
        .arg("--directory")
        .arg(&sources)
        .arg("--file")
        .arg(archive))
}

/// Runs our own cases and the conformance suites; returns the suite that had to be left out, with the reason.
pub fn test(sdks: &Sdks) -> Result<Option<String>> {
    let foreign = std::env::var_os(BINARY).map(PathBuf::from);
    let binary = match &foreign {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("{BINARY}={}", path.display()))?,
        None => built(COMMAND_LINE, "ah", "dev")?,
    };
    let own = sdks.own_cases(&binary);
    if !root().join(CONFORMANCE).is_dir() {
        return own.map(|()| Some(format!("sdk conformance (no folder {CONFORMANCE})")));
    }
    let listed = match foreign {
        // The list only applies to our binary.
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

/// Runs only these suites, and prints what was left out; in CI that is an error.
pub fn test_alone(sdks: &Sdks) -> Result<()> {
    match test(sdks)? {
        Some(left_out) if in_ci() => bail!("left out although CI is set: {left_out}"),
        Some(left_out) => println!("left out: {left_out}"),
        None => {}
    }
    Ok(())
}

impl Sdks {
    /// Runs the cases of `interop/sdk`, all of which have to pass. Their model is the test kit's loopback server.
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

    /// Runs the conformance suites; returns the outcome of each test.
    fn conformance(&self, binary: &Path) -> Result<Outcomes> {
        let suites = root().join(CONFORMANCE).canonicalize()?;
        let mut python = self.pytest();
        // Prints one line at the end for each test that passed, failed, had an error or was skipped.
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

    /// Returns a pytest command that runs two tests at once and writes nothing into the folder of the tests.
    fn pytest(&self) -> Command {
        let mut pytest = cache::offline(&Command::new(self.0.join("python/bin/python")));
        pytest
            .args(["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"])
            .env("PYTHONDONTWRITEBYTECODE", "1");
        pytest
    }
}

/// Runs a suite and passes on its output line by line. The lines decide the outcome, not the exit code.
pub(super) fn each_line(suite: &mut Command, mut read: impl FnMut(&str)) -> Result<()> {
    let mut child = suite
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", suite.get_program().display()))?;
    let lines = child
        .stdout
        .take()
        .context("the suite has no output pipe")?;
    for line in BufReader::new(lines).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        read(&line);
    }
    let status = child.wait()?;
    // Which tests failed is read from the lines.
    if !matches!(status.code(), Some(0 | 1)) {
        bail!("a suite ended with {status}");
    }
    Ok(())
}

pub fn folder() -> PathBuf {
    root().join("interop/sdk")
}
