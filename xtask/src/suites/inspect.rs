//! `ah` as an agent of Inspect: installs it once for each set of pinned versions, and runs the test that evaluates a sample.
//!
//! The test is in `cli/tests/it/inspect.rs`; a variable names the Python that has Inspect, and without it it does nothing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cache;
use crate::workspace::{cargo, root, run};

/// Variable that names the Python to the test.
const VARIABLE: &str = "AH_TEST_INSPECT";

/// Installs Inspect if necessary; returns its Python.
pub fn install() -> Result<PathBuf> {
    let pins = root().join("interop/inspect/requirements.txt");
    let version = cache::python_version()?;
    let text = fs::read(&pins).with_context(|| format!("reading {}", pins.display()))?;
    let folder = cache::installed("inspect", &[&text, version.as_bytes()], |folder| {
        cache::install_python(folder, &pins)
    })?;
    Ok(folder.join("bin/python"))
}

/// Runs the test with `python`.
pub fn test(python: &Path) -> Result<()> {
    let mut tests = cache::offline(&cargo());
    tests
        .args(["test", "--offline", "--workspace"])
        .args(["--test", "it"])
        .args(["--", "inspect::"])
        .env(VARIABLE, python);
    run(&mut tests)
}
